//! Batches: many callers' writes as one.

use std::hash::Hasher;

use onceward::SlotId;
use onceward::record::StateName;

use super::base::{Base, Part};
use super::claims::list_key;
use super::journal::{Batch as Written, Mark};
use super::value::{IndexKey, Trace, Value};

/// What a batch does to the slots it touches: one change per slot.
#[derive(Debug, Default)]
pub(super) struct Batch {
    changes: Vec<Change>,
    /// Entries of the index that belong to no record.
    stale: Vec<IndexKey>,
}

/// What a batch does to one slot.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) slot: SlotId,
    /// What is there, durably.
    pub(super) before: Option<Trace>,
    /// What will be, until the board has it.
    pub(super) after: Option<Value>,
}

/// Takes eight bytes of a slot's id as its hash: ids are keyed digests, evenly spread already. The
/// first bytes say which shard a slot is in, and tell nothing within one.
#[derive(Debug, Default)]
pub(super) struct Spread(u64);

// === impl Batch ===

impl Batch {
    pub(super) fn clear(&mut self) {
        self.changes.clear();
        self.stale.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.stale.is_empty()
    }

    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    pub(super) fn changes_mut(&mut self) -> &mut [Change] {
        &mut self.changes
    }

    pub(super) fn stale(&self) -> &[IndexKey] {
        &self.stale
    }

    /// Adds a change of a slot that the batch does not touch yet.
    pub(super) fn push(&mut self, slot: SlotId, before: Option<Trace>, after: Option<Value>) {
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

    /// Hands every write to `put`: where to, the key, and the value unless it is removed.
    ///
    /// The mark stands in every keyspace: each may lose its tail alone, and must not go unnoticed.
    pub(super) fn each(&self, mark: Mark, mut put: impl FnMut(Part, &[u8], Option<&[u8]>)) {
        let claimed = self.changes.iter().filter(|it| it.claimed().is_some());
        let list: Vec<u8> = claimed.flat_map(|it| *it.slot.as_bytes()).collect();
        if !list.is_empty() {
            put(Part::Index, &list_key(mark), Some(&list));
        }
        for change in &self.changes {
            let kept = change.after.as_ref().map(Value::kept);
            put(Part::Records, change.slot.as_bytes(), kept);
            let [old, new] = change.index_keys();
            if old != new {
                if let Some(key) = old {
                    put(Part::Index, &key, None);
                }
                if let Some(key) = new {
                    put(Part::Index, &key, Some(&[]));
                }
            }
        }
        for key in &self.stale {
            put(Part::Index, key, None);
        }
        for part in [Part::Records, Part::Index] {
            put(part, Mark::KEY, Some(&mark.to_bytes()));
        }
    }

    /// Has the database write everything at once. Returns how many bytes of journal it took.
    pub(super) fn commit(&self, base: &Base, mark: Mark, sync: bool) -> fjall::Result<u64> {
        let mut batch = base.batch(sync);
        let mut lens = Vec::new();
        self.each(mark, |part, key, value| {
            lens.push(key.len() + value.map_or(0, <[u8]>::len));
            match value {
                Some(value) => batch.insert(base.part(part), key, value),
                None => batch.remove(base.part(part), key),
            }
        });
        batch.commit()?;
        Ok(Written::len_of(lens))
    }
}

// === impl Change ===

impl Change {
    /// Whether the slot held an answer that may have been remembered elsewhere.
    pub(super) fn had_outcome(&self) -> bool {
        let before = self.before;
        before.is_some_and(|before| StateName::Completed.covers(before.state()))
    }

    /// The claim that the slot will hold, if it is one.
    pub(super) fn claimed(&self) -> Option<&Value> {
        let after = self.after.as_ref();
        after.filter(|value| value.state() == StateName::Claimed)
    }

    fn index_keys(&self) -> [Option<IndexKey>; 2] {
        let after = self.after.as_ref().map(Value::trace);
        [self.before, after].map(|it| it?.index_key(self.slot))
    }
}

// === impl Spread ===

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        if let Some((tail, _)) = bytes.get(8..).and_then(|it| it.split_first_chunk()) {
            self.0 = u64::from_le_bytes(*tail);
        }
    }

    fn write_usize(&mut self, _: usize) {
        // The length of the array, which is always the same.
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
