//! Recent answers: completed records in memory, so that replays cost next to nothing.
//!
//! What is in here is never older than what the database shows. A reader that found a record may
//! be overtaken by a writer before it remembers it; so it takes a [`Ticket`] before it reads, and
//! the writer makes tickets void before its change can be seen.

use std::sync::Arc;

use onceward::bugs::{Bug, seeded};
use onceward::{Outcome, Record, SlotId};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::sync::Mutex;

/// Completed records, the most asked for first to stay.
#[derive(Debug)]
pub(super) struct Recent {
    records: Cache<SlotId, Arc<Record>, Bytes>,
    shards: Box<[Mutex<Shard>]>,
}

/// The right to remember what is read after it was given, unless it has become void.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ticket(Option<u64>);

#[derive(Debug, Default)]
struct Shard {
    /// How often an answer of this shard was replaced.
    turn: u64,
    /// How many answers of this shard are being replaced.
    writing: usize,
}

/// Weighs a record by the memory it takes.
#[derive(Clone, Debug)]
struct Bytes;

// === impl Recent ===

impl Recent {
    const SHARDS: usize = if cfg!(onceward_shuttle) { 2 } else { 64 };
    /// What a record takes beside its outcome's bytes, about.
    const RECORD_BYTES: usize = 512;

    /// Returns an empty layer of about `bytes` at the most.
    pub(super) fn new(bytes: u64) -> Self {
        let records = usize::try_from(bytes).unwrap_or(usize::MAX) / (2 * Self::RECORD_BYTES);
        Self {
            records: Cache::with_weighter(records, bytes, Bytes),
            shards: (0..Self::SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    pub(super) fn get(&self, slot: SlotId) -> Option<Arc<Record>> {
        self.records.get(&slot)
    }

    /// Returns a ticket. To be taken before the record is read.
    pub(super) fn ticket(&self, slot: SlotId) -> Ticket {
        let shard = self.shard(slot).lock();
        Ticket((shard.writing == 0).then_some(shard.turn))
    }

    /// Remembers a completed record that was read after `ticket` was given.
    pub(super) fn fill(&self, slot: SlotId, ticket: Ticket, record: &Arc<Record>) {
        if record.outcome().is_none() {
            return;
        }
        let shard = self.shard(slot).lock();
        if shard.writing == 0 && ticket == Ticket(Some(shard.turn)) {
            self.records.insert(slot, Arc::clone(record));
        }
    }

    /// Forgets an answer that is about to be replaced, and keeps it from coming back until
    /// [`Recent::replaced`].
    pub(super) fn replacing(&self, slot: SlotId) {
        let mut shard = self.shard(slot).lock();
        shard.turn += 1;
        shard.writing += 1;
        if !seeded(Bug::StaleRecall) {
            self.records.remove(&slot);
        }
    }

    /// Says that the replacement can be seen, or failed.
    pub(super) fn replaced(&self, slot: SlotId) {
        let mut shard = self.shard(slot).lock();
        shard.turn += 1;
        shard.writing -= 1;
    }

    /// Forgets everything, and every ticket becomes void: the writer lost track.
    pub(super) fn reset(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.turn += 1;
            shard.writing = 0;
        }
        self.records.clear();
    }

    fn shard(&self, slot: SlotId) -> &Mutex<Shard> {
        let at = usize::from(slot.as_bytes()[8]);
        &self.shards[at % Self::SHARDS]
    }
}

// === impl Bytes ===

impl Weighter<SlotId, Arc<Record>> for Bytes {
    fn weight(&self, _: &SlotId, record: &Arc<Record>) -> u64 {
        let outcome = record.outcome().map_or(0, Outcome::kept_len);
        (Recent::RECORD_BYTES + outcome) as u64
    }
}
