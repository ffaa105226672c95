//! One batch of a journal, as bytes.
//!
//! ```text
//! start  01 | items 4 | seqno 8                                          not summed
//! item   02 | kind 1 | compression 1 | keyspace 8 | key 2 | value 4 | stored 4 | key | value
//! clear  04 | keyspace 8
//! end    03 | xxh3 of all items 8 | "FJL" 03
//! ```
//! Integers are little-endian.

use xxhash_rust::xxh3::xxh3_64;

use super::Mark;
use crate::embedded::layout::DATABASE_VERSION;

/// A whole batch.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    /// Where it ends.
    pub(crate) end: usize,
    /// The database's own number.
    pub(crate) seqno: u64,
    /// Our number and stamp, the same in every keyspace.
    pub(crate) mark: Mark,
    pub(crate) items: Vec<Item<'a>>,
}

/// One write of a batch.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    pub(crate) keyspace: u64,
    pub(crate) key: &'a [u8],
    /// `None` where the key was removed.
    pub(crate) value: Option<&'a [u8]>,
}

/// A batch that is being written.
#[derive(Default, Debug)]
pub(crate) struct Draft {
    bytes: Vec<u8>,
    count: u32,
}

/// How bytes fail to be a batch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bad {
    /// All of it is there, and the sum does not match.
    Sum { end: usize },
    /// It makes no sense or runs out of bytes. Whether the bytes end as a batch does.
    Shape { ended: bool },
}

pub(super) const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const START_LEN: usize = 1 + 4 + 8;
const ITEM_LEN: usize = 1 + 1 + 1 + 8 + 2 + 4 + 4;
const END_LEN: usize = 1 + 8 + 4;

/// The database numbers other things than batches too, so there are gaps; but not large ones.
const SEQNO_STEP_MAX: u64 = 1 << 20;

// === impl Batch ===

impl Batch<'_> {
    /// How many bytes a batch takes whose items are this long, keys and values together.
    pub(crate) fn len_of(items: impl IntoIterator<Item = usize>) -> u64 {
        let items = items.into_iter().map(|len| ITEM_LEN + len);
        (START_LEN + END_LEN + items.sum::<usize>()) as u64
    }

    /// Whether it can come after the batch before it.
    pub(super) fn follows(&self, seqno: Option<u64>, last: Option<Mark>) -> bool {
        seqno.is_none_or(|it| it < self.seqno && self.seqno - it <= SEQNO_STEP_MAX)
            && last.is_none_or(|it| it.sequence.checked_add(1) == Some(self.mark.sequence))
    }
}

// === impl Draft ===

impl Draft {
    /// How much room is kept from one batch to the next.
    const KEPT: usize = 1 << 20;

    pub(super) fn begin(&mut self, seqno: u64) {
        self.bytes.clear();
        self.bytes.shrink_to(Self::KEPT);
        self.count = 0;
        self.bytes.push(START);
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&seqno.to_le_bytes());
    }

    /// Adds one write; `None` removes.
    pub(crate) fn put(&mut self, keyspace: u64, key: &[u8], value: Option<&[u8]>) {
        let kind = u8::from(value.is_none());
        let value = value.unwrap_or_default();
        let key_len = u16::try_from(key.len()).expect("keys are short");
        let len = u32::try_from(value.len()).expect("a record is smaller than the largest batch");
        self.count += 1;
        let bytes = &mut self.bytes;
        bytes.extend_from_slice(&[ITEM, kind, 0]);
        bytes.extend_from_slice(&keyspace.to_le_bytes());
        bytes.extend_from_slice(&key_len.to_le_bytes());
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
    }

    /// The whole of it.
    pub(super) fn end(&mut self) -> &[u8] {
        self.bytes[1..5].copy_from_slice(&self.count.to_le_bytes());
        let sum = xxh3_64(&self.bytes[START_LEN..]);
        self.bytes.push(END);
        self.bytes.extend_from_slice(&sum.to_le_bytes());
        self.bytes.extend_from_slice(DATABASE_VERSION);
        &self.bytes
    }
}

/// Reads the batch at `at`. `bytes` end at the last byte that is not zero.
pub(super) fn parse(bytes: &[u8], at: usize) -> Result<Batch<'_>, Bad> {
    let shape = || Bad::Shape {
        ended: ends_as_a_batch(&bytes[at..]),
    };
    let from = &bytes[at..];
    let (count, seqno) = start(from).ok_or_else(shape)?;
    let (items, len) = items(&from[START_LEN..], count).ok_or_else(shape)?;
    let body = &from[START_LEN..START_LEN + len];
    let trailer = from
        .get(START_LEN + len..START_LEN + len + END_LEN)
        .ok_or_else(shape)?;
    let end = at + START_LEN + len + END_LEN;
    let sum = xxh3_64(body).to_le_bytes();
    if trailer[0] != END || trailer[1..9] != sum || &trailer[9..] != DATABASE_VERSION {
        return Err(Bad::Sum { end });
    }
    let mark = mark(&items).ok_or(Bad::Sum { end })?;
    Ok(Batch {
        end,
        seqno,
        mark,
        items,
    })
}

/// The mark of the batch: there in every keyspace, and the same.
fn mark(items: &[Item<'_>]) -> Option<Mark> {
    let mut marks = items.iter().filter(|item| item.key == Mark::KEY);
    let first = marks.next()?.value?;
    let all_same = marks.all(|item| item.value == Some(first));
    Mark::read(first).filter(|_| all_same)
}

fn start(from: &[u8]) -> Option<(usize, u64)> {
    let start = from.get(..START_LEN)?;
    (start[0] == START).then_some(())?;
    Some((number(&start[1..5]) as usize, number(&start[5..])))
}

/// The items, and how many bytes they take.
fn items(from: &[u8], count: usize) -> Option<(Vec<Item<'_>>, usize)> {
    // Not allocated by the count, which may be anything.
    let mut items = Vec::new();
    let mut at = 0;
    for _ in 0..count {
        let head = from.get(at..at + ITEM_LEN)?;
        // We never clear a keyspace, nor compress.
        if head[0] != ITEM || head[1] > 2 || head[2] != 0 {
            return None;
        }
        let (key_len, stored) = (
            number(&head[11..13]) as usize,
            number(&head[17..21]) as usize,
        );
        let key_at = at + ITEM_LEN;
        let end = key_at + key_len + stored;
        let value = from.get(key_at + key_len..end)?;
        items.push(Item {
            keyspace: number(&head[3..11]),
            key: &from[key_at..key_at + key_len],
            value: (head[1] == 0).then_some(value),
        });
        at = end;
    }
    Some((items, at))
}

fn ends_as_a_batch(bytes: &[u8]) -> bool {
    let Some(trailer) = bytes.last_chunk::<END_LEN>() else {
        return false;
    };
    bytes.len() >= START_LEN + END_LEN && trailer[0] == END && &trailer[9..] == DATABASE_VERSION
}

fn number(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}

#[cfg(test)]
mod tests {
    use onceward::Timestamp;

    use super::*;

    #[test]
    fn nothing_follows_the_last_number_there_is() {
        let mark = |sequence| Mark {
            sequence,
            stamp: Timestamp::ZERO,
        };
        let batch = Batch {
            end: 0,
            seqno: 1,
            mark: mark(0),
            items: Vec::new(),
        };
        assert!(!batch.follows(None, Some(mark(u64::MAX))));
    }
}
