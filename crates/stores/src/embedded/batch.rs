//! Batches: many callers' writes as one, compared and swapped in the order they came.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use onceward::record::StateName;
use onceward::store::Error;
use onceward::{Fence, SlotId, Timestamp};

use super::base::Base;
use super::claims::{Slots, list_key};
use super::journal::{Batch as Written, Mark};
use super::value::{Draft, IndexKey, Value};

/// What a batch does to the slots it touches: one change per slot, however many writes.
#[derive(Debug, Default)]
pub(super) struct Batch {
    changes: Vec<Change>,
    by_slot: HashMap<SlotId, usize, BuildHasherDefault<Spread>>,
    /// Entries of the index that belong to no record.
    stale: Vec<IndexKey>,
    bytes: usize,
}

/// What a batch does to one slot.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) slot: SlotId,
    /// What is there, durably.
    pub(super) before: Option<Value>,
    /// What will be.
    pub(super) after: Option<Value>,
}

/// What a batch says to a write.
#[derive(Debug)]
pub(super) enum Judged {
    /// It is part of the batch.
    Written,
    /// Something else is there, or nothing.
    Found {
        value: Option<Value>,
        /// It is of this very batch, so nobody may hear of it before the batch is durable.
        is_pending: bool,
    },
}

/// Takes eight bytes of a slot's id as its hash: ids are keyed digests, evenly spread already.
#[derive(Debug, Default)]
pub(super) struct Spread(u64);

// === impl Batch ===

impl Batch {
    pub(super) fn clear(&mut self) {
        self.changes.clear();
        self.by_slot.clear();
        self.stale.clear();
        self.bytes = 0;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.stale.is_empty()
    }

    /// How many bytes of records it holds.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    pub(super) fn touches(&self, slot: SlotId) -> bool {
        self.by_slot.contains_key(&slot)
    }

    /// The fence that a slot will hold; `None` if the batch does not touch it.
    pub(super) fn fence_in(&self, slot: SlotId) -> Option<Option<Fence>> {
        let at = self.by_slot.get(&slot)?;
        Some(self.changes[*at].after.as_ref().map(Value::fence))
    }

    /// Writes `draft`, or nothing, over `seen` if that is what the slot holds; `None` is an empty
    /// slot. `admit` has the last word on a write that would happen.
    pub(super) fn swap(
        &mut self,
        slots: &Slots<'_>,
        slot: SlotId,
        seen: Option<Fence>,
        draft: Option<Draft>,
        now: Timestamp,
        admit: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Judged, Error> {
        let at = self.by_slot.get(&slot).copied();
        let found = match at {
            Some(at) => self.changes[at].after.clone(),
            None => slots.get(slot)?,
        };
        if found.as_ref().map(Value::fence) != seen {
            return Ok(Judged::Found {
                value: found,
                is_pending: at.is_some(),
            });
        }
        admit()?;
        self.bytes += draft.as_ref().map_or(0, Draft::len);
        let after = draft.map(|draft| draft.stamp(now));
        match at {
            Some(at) => self.changes[at].after = after,
            None => self.push(slot, found, after),
        }
        Ok(Judged::Written)
    }

    /// Adds a change of a slot that the batch does not touch yet.
    pub(super) fn push(&mut self, slot: SlotId, before: Option<Value>, after: Option<Value>) {
        self.by_slot.insert(slot, self.changes.len());
        self.changes.push(Change {
            slot,
            before,
            after,
        });
    }

    /// Drops an entry of the index that belongs to no record.
    pub(super) fn drop_stale(&mut self, key: IndexKey) {
        self.stale.push(key);
    }

    /// Writes everything at once. Returns how many bytes of journal it took.
    ///
    /// The mark stands in every keyspace: each may lose its tail alone, and must not go unnoticed.
    pub(super) fn commit(&self, base: &Base, mark: Mark, sync: bool) -> fjall::Result<u64> {
        let items = 3 * self.changes.len() + self.stale.len() + 3;
        let mut batch = base.batch(sync, items);
        let mut lens = Vec::with_capacity(items);
        let claimed = self.changes.iter().filter(|it| it.claimed().is_some());
        let list: Vec<u8> = claimed.flat_map(|it| *it.slot.as_bytes()).collect();
        if !list.is_empty() {
            let key = list_key(mark);
            lens.push(key.len() + list.len());
            batch.insert(&base.index, key, list);
        }
        for change in &self.changes {
            let slot = change.slot.as_bytes();
            let kept = change.after.as_ref().map(Value::kept);
            lens.push(slot.len() + kept.map_or(0, |kept| kept.len()));
            match kept {
                Some(kept) => batch.insert(&base.records, slot, kept.clone()),
                None => batch.remove(&base.records, slot),
            }
            let [old, new] = change.index_keys();
            if old != new {
                if let Some(key) = old {
                    lens.push(key.len());
                    batch.remove(&base.index, key);
                }
                if let Some(key) = new {
                    lens.push(key.len());
                    batch.insert(&base.index, key, []);
                }
            }
        }
        for key in &self.stale {
            lens.push(key.len());
            batch.remove(&base.index, *key);
        }
        for keyspace in [&base.records, &base.index] {
            lens.push(Mark::KEY.len() + mark.to_bytes().len());
            batch.insert(keyspace, Mark::KEY, mark.to_bytes());
        }
        batch.commit()?;
        Ok(Written::len_of(lens))
    }
}

// === impl Change ===

impl Change {
    /// Whether the slot held an answer that may have been remembered elsewhere.
    pub(super) fn had_outcome(&self) -> bool {
        let before = self.before.as_ref();
        before.is_some_and(|value| StateName::Completed.covers(value.state()))
    }

    /// The claim that the slot will hold, if it is one.
    pub(super) fn claimed(&self) -> Option<&Value> {
        let after = self.after.as_ref();
        after.filter(|value| value.state() == StateName::Claimed)
    }

    fn index_keys(&self) -> [Option<IndexKey>; 2] {
        [&self.before, &self.after]
            .map(|value| value.as_ref().and_then(|it| it.index_key(self.slot)))
    }
}

// === impl Spread ===

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        if let Some((head, _)) = bytes.split_first_chunk() {
            self.0 = u64::from_le_bytes(*head);
        }
    }

    fn write_usize(&mut self, _: usize) {
        // The length of the array, which is always the same.
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
