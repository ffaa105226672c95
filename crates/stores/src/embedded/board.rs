//! The board: what slots hold that is in the journals and not in the database's tables yet, and
//! which of them are being written.
//!
//! A slot of which nothing stands here is as the database has it. Whoever writes looks here under
//! the lock of the slot's shard, and at the database while that is held: so a slot is written by one
//! at a time, and most writes, which end a claim, are judged without the database. Claims stand here
//! as long as they live.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use onceward::record::StateName;
use onceward::{SlotId, Timestamp};

use super::batch::{Change, Spread};
use super::group::Number;
use super::journal::Mark;
use super::value::{IndexKey, Trace, Value};
use crate::sync::Mutex;

/// Slots of which the database does not know everything.
#[derive(Debug)]
pub(super) struct Board {
    shards: Box<[Mutex<Shard>]>,
}

/// Some of the slots.
#[derive(Debug)]
pub(super) struct Shard {
    slots: HashMap<SlotId, Entry, BuildHasherDefault<Spread>>,
    /// Nothing here comes due before this: most of the time nobody has to look.
    first_due: Timestamp,
}

/// What is known of a slot.
#[derive(Debug, Default)]
struct Entry {
    kept: Option<Kept>,
    /// The group in which it is being written.
    group: Option<Number>,
}

/// What a slot holds, durably.
#[derive(Clone, Debug)]
struct Kept {
    /// `None` where it was removed.
    value: Option<Value>,
    /// The batch that lists it, if it is a claim.
    list: Option<Mark>,
    /// What the database has of it.
    filed: Filed,
}

/// What the database's tables have of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Filed {
    Nothing,
    /// An older record, unless that is being removed.
    Older(Option<Trace>),
    /// Just what stands here, or will have once filing it is over.
    This,
}

/// What the board says of a slot.
#[derive(Debug)]
pub(super) enum Posted<'a> {
    Nothing,
    /// This is in it, durably; `None` where it was removed.
    Kept(Option<&'a Value>),
    /// It is being written in this group, before whose end nobody can say what it holds.
    Written(Number),
}

/// What came due on the board.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) found: Vec<(SlotId, Value)>,
    pub(super) is_all: bool,
    /// When the first of those came due that are being written, and may yet stay as they are.
    pub(super) first_written: Option<Timestamp>,
}

/// What is to be filed of a slot.
#[derive(Clone, Debug)]
pub(super) struct Unfiled {
    pub(super) slot: SlotId,
    pub(super) value: Option<Value>,
    /// Where the index of the database keeps what it has of the slot.
    pub(super) under: Option<IndexKey>,
}

// === impl Board ===

impl Board {
    /// A shard for each first byte of a slot's id, so that one after the other they are in order.
    const SHARDS: usize = if cfg!(onceward_shuttle) { 2 } else { 256 };

    pub(super) fn new() -> Self {
        Self {
            shards: (0..Self::SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// The shard that `slot` is in. Where others are locked as well, it comes first.
    pub(super) fn shard(&self, slot: SlotId) -> &Mutex<Shard> {
        &self.shards[Self::at(slot)]
    }

    fn at(slot: SlotId) -> usize {
        usize::from(slot.as_bytes()[0]) * Self::SHARDS / 256
    }

    /// What is durably in `slot`, where the board knows it; `None` inside where it was removed.
    pub(super) fn get(&self, slot: SlotId) -> Option<Option<Value>> {
        let shard = self.shard(slot).lock();
        Some(shard.slots.get(&slot)?.kept.as_ref()?.value.clone())
    }

    /// Puts a claim here that the database has.
    pub(super) fn post(&self, slot: SlotId, claim: Value, list: Mark) {
        let kept = Kept {
            value: Some(claim),
            list: Some(list),
            filed: Filed::This,
        };
        let entry = Entry {
            kept: Some(kept),
            group: None,
        };
        self.shard(slot).lock().insert(slot, entry);
    }

    /// Says that a change is durable, and takes what it put there; a claim is on `list` now. Returns
    /// the list that the claim before it was on.
    pub(super) fn settle(&self, change: &mut Change, list: Option<Mark>) -> Option<Mark> {
        let slot = change.slot;
        let mut shard = self.shard(slot).lock();
        let before = shard.slots.remove(&slot).and_then(|entry| entry.kept);
        let (listed, filed) = match before {
            Some(kept) => (kept.list, kept.filed_over()),
            // It was looked up in the database.
            None if change.before.is_some() => (None, Filed::Older(change.before)),
            None => (None, Filed::Nothing),
        };
        let value = change.after.take();
        if value.is_some() || filed != Filed::Nothing {
            let kept = Kept { value, list, filed };
            let entry = Entry {
                kept: Some(kept),
                group: None,
            };
            shard.insert(slot, entry);
        }
        listed
    }

    /// Says that `slot` was not written after all.
    pub(super) fn spare(&self, slot: SlotId) {
        let mut shard = self.shard(slot).lock();
        let Some(entry) = shard.slots.get_mut(&slot) else {
            return;
        };
        entry.group = None;
        if entry.kept.is_none() {
            shard.slots.remove(&slot);
        }
    }

    /// Takes what the database's tables do not have yet, in the order of the slots. What is written
    /// from now on is written over that.
    pub(super) fn take_unfiled(&self) -> Vec<Unfiled> {
        let mut unfiled = Vec::new();
        for shard in &self.shards {
            let (first, mut shard) = (unfiled.len(), shard.lock());
            unfiled.reserve(shard.slots.len());
            for (slot, entry) in &mut shard.slots {
                let Some(kept) = &mut entry.kept else {
                    continue;
                };
                let under = match kept.filed {
                    Filed::Nothing => None,
                    Filed::Older(before) => before.and_then(|it| it.index_key(*slot)),
                    Filed::This => continue,
                };
                kept.filed = Filed::This;
                unfiled.push(Unfiled {
                    slot: *slot,
                    value: kept.value.clone(),
                    under,
                });
            }
            drop(shard);
            unfiled[first..].sort_unstable_by_key(|it| it.slot);
        }
        unfiled
    }

    /// Says that the database's tables have what was taken. What was written over it since stays
    /// here, and so do claims.
    pub(super) fn filed(&self, taken: &[Unfiled]) {
        let mut gone = Vec::new();
        for taken in taken.chunk_by(|a, b| Self::at(a.slot) == Self::at(b.slot)) {
            let mut shard = self.shard(taken[0].slot).lock();
            let slots = taken.iter().map(|it| &it.slot);
            gone.extend(slots.filter_map(|slot| shard.filed(slot)));
            drop(shard);
            // What they held is let go while nobody waits for the shard.
            gone.clear();
        }
    }

    /// What came due before `horizon` and is in one of the states that `is` says: the first due
    /// first, `limit` at the most.
    pub(super) fn due(
        &self,
        horizon: Timestamp,
        is: impl Fn(StateName) -> bool,
        limit: usize,
    ) -> Due {
        let (mut found, mut first_written) = (Vec::new(), None);
        for shard in &self.shards {
            let mut shard = shard.lock();
            if horizon <= shard.first_due {
                continue;
            }
            let mut first_due = Timestamp::NEVER;
            for (slot, entry) in &shard.slots {
                let Some(value) = entry.value() else {
                    continue;
                };
                let due = value.due();
                first_due = first_due.min(due);
                if horizon <= due || !is(value.state()) {
                    continue;
                }
                match entry.group {
                    None => found.push((*slot, value.clone())),
                    Some(_) => first_written = Some(first_written.map_or(due, |it| due.min(it))),
                }
            }
            shard.first_due = first_due;
        }
        let order = |(slot, value): &(SlotId, Value)| (value.due(), *slot);
        let is_all = found.len() <= limit;
        if !is_all {
            found.select_nth_unstable_by_key(limit, order);
            found.truncate(limit);
        }
        found.sort_unstable_by_key(order);
        Due {
            found,
            is_all,
            first_written,
        }
    }

    /// The slots behind `after` that are known here, in their order, `limit` at the most, each with
    /// what it holds. The second says whether these are all.
    pub(super) fn page(
        &self,
        after: Option<SlotId>,
        limit: usize,
    ) -> (Vec<(SlotId, Option<Value>)>, bool) {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let behind = shard.slots.iter();
            let behind = behind.filter(|(slot, _)| after.is_none_or(|after| **slot > after));
            let kept = behind.filter_map(|(slot, it)| Some((*slot, it.kept.as_ref()?)));
            found.extend(kept.map(|(slot, kept)| (slot, kept.value.clone())));
        }
        let is_all = found.len() <= limit;
        if !is_all {
            found.select_nth_unstable_by_key(limit, |(slot, _)| *slot);
            found.truncate(limit);
        }
        found.sort_unstable_by_key(|(slot, _)| *slot);
        (found, is_all)
    }

    /// Forgets everything: the writer lost track.
    pub(super) fn reset(&self) {
        for shard in &self.shards {
            *shard.lock() = Shard::default();
        }
    }
}

// === impl Entry ===

impl Entry {
    fn value(&self) -> Option<&Value> {
        self.kept.as_ref()?.value.as_ref()
    }
}

// === impl Shard ===

impl Default for Shard {
    fn default() -> Self {
        Self {
            slots: HashMap::default(),
            first_due: Timestamp::NEVER,
        }
    }
}

impl Shard {
    fn insert(&mut self, slot: SlotId, entry: Entry) {
        if let Some(value) = entry.value() {
            self.first_due = self.first_due.min(value.due());
        }
        self.slots.insert(slot, entry);
    }

    pub(super) fn get(&self, slot: SlotId) -> Posted<'_> {
        match self.slots.get(&slot) {
            Some(Entry {
                group: Some(group), ..
            }) => Posted::Written(*group),
            Some(Entry {
                kept: Some(kept), ..
            }) => Posted::Kept(kept.value.as_ref()),
            Some(_) | None => Posted::Nothing,
        }
    }

    /// Says that the database's tables have what was taken of `slot`. Returns what that leaves over.
    fn filed(&mut self, slot: &SlotId) -> Option<Kept> {
        let entry = self.slots.get_mut(slot)?;
        let is_there = |kept: &mut Kept| kept.filed == Filed::This && kept.list.is_none();
        let gone = entry.kept.take_if(is_there);
        if entry.kept.is_none() && entry.group.is_none() {
            self.slots.remove(slot);
        }
        gone
    }

    /// Says that `slot` is being written in `group`.
    pub(super) fn begin(&mut self, slot: SlotId, group: Number) {
        self.slots.entry(slot).or_default().group = Some(group);
    }
}

// === impl Kept ===

impl Kept {
    /// What the database has when this is replaced.
    fn filed_over(&self) -> Filed {
        match (self.filed, &self.value) {
            (Filed::This, Some(value)) => Filed::Older(Some(value.trace())),
            // Perhaps it is being filed just now, and the tables still have what was removed.
            (Filed::This, None) => Filed::Older(None),
            (filed, _) => filed,
        }
    }
}

#[cfg(test)]
mod tests {
    use onceward::Record;
    use onceward::testing::records;

    use super::super::value::Draft;
    use super::*;

    fn value(record: &Record) -> Value {
        Draft::of(record).stamp(Timestamp::from_micros(1_000))
    }

    fn change(before: Option<&Value>, after: Option<&Value>) -> Change {
        Change {
            slot: records::slot("work"),
            before: before.map(Value::trace),
            after: after.cloned(),
        }
    }

    fn there(board: &Board) -> Option<Option<Value>> {
        board.get(records::slot("work"))
    }

    #[test]
    fn what_comes_and_goes_before_it_is_filed_leaves_nothing() {
        let (board, one) = (Board::new(), value(&records::completed(records::LONG)));
        board.settle(&mut change(None, Some(&one)), None);
        board.settle(&mut change(Some(&one), None), None);
        assert!(there(&board).is_none() && board.take_unfiled().is_empty());
    }

    #[test]
    fn what_goes_while_it_is_filed_is_removed_from_the_tables_by_the_next_filing() {
        let (board, one) = (Board::new(), value(&records::completed(records::LONG)));
        board.settle(&mut change(None, Some(&one)), None);
        let taken = board.take_unfiled();
        board.settle(&mut change(Some(&one), None), None);
        board.filed(&taken);
        assert!(matches!(there(&board), Some(None)), "the tables have it");
        let next = board.take_unfiled();
        let slot = records::slot("work");
        assert!(next[0].value.is_none() && next[0].under == one.index_key(slot));
        board.filed(&next);
        assert!(there(&board).is_none());
    }

    #[test]
    fn what_comes_and_goes_while_a_removal_is_filed_leaves_the_removal() {
        let [old, new] = [1, 2].map(|_| value(&records::completed(records::LONG)));
        let board = Board::new();
        board.settle(&mut change(Some(&old), None), None);
        let taken = board.take_unfiled();
        board.settle(&mut change(None, Some(&new)), None);
        board.settle(&mut change(Some(&new), None), None);
        // The tables may not have the removal yet, and would be asked otherwise.
        assert!(matches!(there(&board), Some(None)));
        board.filed(&taken);
        assert!(matches!(there(&board), Some(None)));
    }

    #[test]
    fn what_the_tables_had_is_taken_from_the_index_when_it_is_replaced() {
        let (board, slot) = (Board::new(), records::slot("work"));
        let [old, new] =
            [records::LONG, records::LONG * 2].map(|it| value(&records::completed(it)));
        board.settle(&mut change(Some(&old), Some(&new)), None);
        let taken = board.take_unfiled();
        assert_eq!(taken[0].under, old.index_key(slot));
        assert_ne!(taken[0].under, new.index_key(slot));
    }

    #[test]
    fn a_claim_stays_when_it_is_filed_and_its_end_is_filed_over_it() {
        let stamp = Timestamp::from_micros(7);
        let list = Mark { sequence: 7, stamp };
        let board = Board::new();
        let claim = value(&records::claimed(records::LONG));
        board.settle(&mut change(None, Some(&claim)), Some(list));
        let taken = board.take_unfiled();
        board.filed(&taken);
        assert!(there(&board).is_some() && board.take_unfiled().is_empty());
        assert_eq!(
            board.settle(&mut change(Some(&claim), None), None),
            Some(list)
        );
        assert_eq!(board.take_unfiled().len(), 1);
    }

    #[test]
    fn only_what_is_due_is_found_and_nothing_that_is_being_written() {
        let (board, one) = (Board::new(), value(&records::completed(records::LONG)));
        board.settle(&mut change(None, Some(&one)), None);
        let later = one.due() + records::LONG;
        let due = |horizon| board.due(horizon, StateName::expires, 10);
        assert!(due(one.due()).found.is_empty());
        assert_eq!(due(later).found.len(), 1);
        let others = board.due(later, |state| !state.expires(), 10);
        assert!(others.found.is_empty());
        let slot = records::slot("work");
        board.shard(slot).lock().begin(slot, Number::NONE);
        assert!(due(later).found.is_empty() && due(later).first_written == Some(one.due()));
        board.spare(slot);
        assert!(due(later).found.len() == 1 && due(later).first_written.is_none());
    }
}
