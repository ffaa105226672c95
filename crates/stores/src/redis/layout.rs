//! The layout: under which names records and their index stand.
//!
//! Slots are filed in partitions by their first twelve bits. The names of one partition share a
//! hash tag, so that a record and its entry in the index are on the same server of a cluster and
//! one script writes both; going through the partitions in order is going through the slots in
//! order.

use onceward::SlotId;

use super::cluster::slot_of;

/// The names of the keys under one prefix.
#[derive(Debug)]
pub(super) struct Layout {
    prefix: String,
    /// The hash slot of each partition.
    hash_slots: Vec<u16>,
    /// The hash slot of the clock.
    clock_slot: u16,
}

/// Which part of the slots: their first twelve bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Partition(u16);

const HEX: &[u8; 16] = b"0123456789abcdef";

/// What stands between the braces of the clock's name.
const CLOCK: &str = "clock";

// === impl Layout ===

impl Layout {
    pub(super) fn new(prefix: &str) -> Self {
        let hash_slots = Partition::all().map(|it| slot_of(&it.tag())).collect();
        Self {
            prefix: prefix.to_owned(),
            hash_slots,
            clock_slot: slot_of(CLOCK.as_bytes()),
        }
    }

    /// The name of a record: `PREFIX{ppp}:r:` and the slot.
    pub(super) fn record(&self, slot: SlotId) -> Vec<u8> {
        let mut name = self.begin(Partition::of(slot), 3 + 2 * SlotId::LEN);
        name.extend_from_slice(b":r:");
        name.extend(digits(slot));
        name
    }

    /// The name of the index of a partition: `PREFIX{ppp}:due`.
    pub(super) fn index(&self, partition: Partition) -> Vec<u8> {
        let mut name = self.begin(partition, 4);
        name.extend_from_slice(b":due");
        name
    }

    /// The name of the highest time on record.
    pub(super) fn clock(&self) -> String {
        format!("{}{{{CLOCK}}}", self.prefix)
    }

    /// The hash slot of a partition's names.
    pub(super) fn hash_slot(&self, partition: Partition) -> u16 {
        self.hash_slots[usize::from(partition.0)]
    }

    /// The hash slot of the clock's name.
    pub(super) fn clock_slot(&self) -> u16 {
        self.clock_slot
    }

    fn begin(&self, partition: Partition, more: usize) -> Vec<u8> {
        let mut name = Vec::with_capacity(self.prefix.len() + 5 + more);
        name.extend_from_slice(self.prefix.as_bytes());
        name.push(b'{');
        name.extend_from_slice(&partition.tag());
        name.push(b'}');
        name
    }
}

// === impl Partition ===

impl Partition {
    /// How many there are.
    pub(super) const COUNT: u16 = 4096;

    /// The partition of a slot.
    pub(super) fn of(slot: SlotId) -> Self {
        let [first, second, ..] = *slot.as_bytes();
        Self(u16::from(first) << 4 | u16::from(second) >> 4)
    }

    /// Every partition, in the order of slots.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// Every partition once, beginning with this one.
    pub(super) fn around(self) -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(move |step| Self((self.0 + step) % Self::COUNT))
    }

    /// The ones from here to the end.
    pub(super) fn onwards(self) -> impl Iterator<Item = Self> {
        (self.0..Self::COUNT).map(Self)
    }

    /// The first one.
    pub(super) const FIRST: Self = Self(0);

    /// The next one, if there is one.
    pub(super) fn next(self) -> Option<Self> {
        let next = self.0 + 1;
        (next < Self::COUNT).then_some(Self(next))
    }

    /// Three hex digits.
    fn tag(self) -> [u8; 3] {
        let digit = |shift: u16| HEX[usize::from(self.0 >> shift & 15)];
        [digit(8), digit(4), digit(0)]
    }
}

/// The hex digits of a slot.
pub(crate) fn digits(slot: SlotId) -> impl Iterator<Item = u8> {
    let bytes = *slot.as_bytes();
    bytes.into_iter().flat_map(hex)
}

fn hex(byte: u8) -> [u8; 2] {
    [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(first: u8, second: u8) -> SlotId {
        let mut bytes = [7; SlotId::LEN];
        (bytes[0], bytes[1]) = (first, second);
        SlotId::from_bytes(bytes)
    }

    #[test]
    fn a_record_and_its_index_share_a_hash_tag() {
        let layout = Layout::new("shop");
        let slot = slot(0xab, 0xcd);
        let record = String::from_utf8(layout.record(slot)).unwrap();
        assert_eq!(record, format!("shop{{abc}}:r:{slot}"));
        let index = layout.index(Partition::of(slot));
        assert_eq!(index, b"shop{abc}:due");
        assert_eq!(layout.hash_slot(Partition::of(slot)), slot_of(b"abc"));
    }

    #[test]
    fn partitions_are_in_the_order_of_slots() {
        assert!(Partition::of(slot(0, 0x10)) < Partition::of(slot(0, 0x20)));
        assert!(Partition::of(slot(0, 0xff)) < Partition::of(slot(1, 0)));
        assert_eq!(Partition::of(slot(0xff, 0xf0)).next(), None);
        assert_eq!(Partition::FIRST.onwards().count(), 4096);
        assert_eq!(Partition(4000).around().last(), Some(Partition(3999)));
    }
}
