//! The memory store: the reference for all others, and the one for tests.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, hash_map};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use async_trait::async_trait;

use super::{Durability, Error, Filter, Hints, Insert, Page, Reply, Store, Swap, Swept, hints};
use crate::bugs::{Bug, seeded};
use crate::clock::{Clock, GuardedClock, SystemClock};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, broadcast, shards};
use crate::{Fence, Record, SlotId, Timestamp};

/// A store in the memory of one process: nothing survives its end.
///
/// ```
/// use onceward::{Engine, MemoryStore, Policy};
///
/// let engine = Engine::new(MemoryStore::new(), Policy::default());
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    shards: Box<[Mutex<Shard>]>,
    clock: GuardedClock,
    changes: broadcast::Sender<SlotId>,
    /// Somebody listens. Cheaper to ask than the channel is, on every write.
    watched: AtomicBool,
}

type SlotMap = HashMap<SlotId, Arc<Record>, BuildHasherDefault<Spread>>;

#[derive(Debug, Default)]
struct Shard {
    records: SlotMap,
    /// When each record is due. Entries of records that changed since stay until they come up or
    /// outnumber the others: cheaper than looking them up on every write.
    due: BinaryHeap<Reverse<(Timestamp, SlotId)>>,
}

/// Takes eight bytes of a slot's id as its hash: ids are keyed digests, evenly spread already.
#[derive(Debug, Default)]
struct Spread(u64);

// === impl MemoryStore ===

impl MemoryStore {
    const SHARDS: usize = shards(64);
    /// How many hints a slow watcher may lag behind before it loses some.
    const HINTS: usize = 1024;

    /// Returns an empty store that uses the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// Returns an empty store that uses `clock`, guarded against steps.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self {
            shards: (0..Self::SHARDS).map(|_| Mutex::default()).collect(),
            clock: GuardedClock::new(clock, Timestamp::ZERO),
            changes: broadcast::channel(Self::HINTS).0,
            watched: AtomicBool::new(false),
        }
    }

    /// The clock that stamps the records.
    pub fn clock(&self) -> &GuardedClock {
        &self.clock
    }

    fn shard(&self, slot: SlotId) -> &Mutex<Shard> {
        // A byte that the map inside does not take for its hash.
        let at = usize::from(slot.as_bytes()[8]);
        &self.shards[at % Self::SHARDS]
    }

    fn changed(&self, slot: SlotId) {
        if self.watched.load(Ordering::Relaxed) {
            // A watcher that is gone is no error: hints are for those who listen.
            let _ = self.changes.send(slot);
        }
    }

    /// Writes `record`, or nothing, over `seen`.
    fn swap(
        &self,
        slot: SlotId,
        seen: Fence,
        record: Option<&Record>,
        not_after: Timestamp,
    ) -> Reply<Swap> {
        let mut shard = self.shard(slot).lock();
        let now = self.clock.now();
        if now > not_after {
            return Reply::new(Swap::Late, now);
        }
        let found = match shard.records.entry(slot) {
            hash_map::Entry::Occupied(found)
                if found.get().fence == seen || seeded(Bug::StoreIgnoresFence) =>
            {
                found
            }
            hash_map::Entry::Occupied(found) => {
                return Reply::new(Swap::Moved(Some(found.get().clone())), now);
            }
            hash_map::Entry::Vacant(_) => return Reply::new(Swap::Moved(None), now),
        };
        match record {
            Some(record) => {
                let record = record.stamped(now);
                let due = record.due();
                *found.into_mut() = Arc::new(record);
                shard.schedule(due, slot);
            }
            None => drop(found.remove()),
        }
        drop(shard);
        self.changed(slot);
        Reply::new(Swap::Done, now)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        let mut shard = self.shard(slot).lock();
        let now = self.clock.now();
        if now > not_after {
            return Ok(Reply::new(Insert::Late, now));
        }
        match shard.records.entry(slot) {
            hash_map::Entry::Occupied(found) => {
                return Ok(Reply::new(Insert::Taken(found.get().clone()), now));
            }
            hash_map::Entry::Vacant(empty) => {
                let record = record.stamped(now);
                let due = record.due();
                empty.insert(Arc::new(record));
                shard.schedule(due, slot);
            }
        }
        drop(shard);
        self.changed(slot);
        Ok(Reply::new(Insert::Done, now))
    }

    async fn replace(
        &self,
        slot: SlotId,
        seen: Fence,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        Ok(self.swap(slot, seen, Some(record), not_after))
    }

    async fn remove(
        &self,
        slot: SlotId,
        seen: Fence,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        Ok(self.swap(slot, seen, None, not_after))
    }

    async fn get(&self, slot: SlotId) -> Result<Reply<Option<Arc<Record>>>, Error> {
        let shard = self.shard(slot).lock();
        let now = self.clock.now();
        Ok(Reply::new(shard.records.get(&slot).cloned(), now))
    }

    fn recall(&self, slot: SlotId) -> Option<Reply<Arc<Record>>> {
        let shard = self.shard(slot).lock();
        let found = shard.records.get(&slot)?;
        found.outcome()?;
        Some(Reply::new(found.clone(), self.clock.now()))
    }

    /// Nothing is remembered beside the slots.
    async fn forget(&self, _: SlotId, _: Fence) -> Result<(), Error> {
        Ok(())
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<SlotId>,
        limit: usize,
    ) -> Result<Reply<Page>, Error> {
        let mut records: Vec<_> = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let passing = shard.records.iter().filter(|(slot, record)| {
                after.is_none_or(|at| **slot > at) && filter.passes(record)
            });
            records.extend(passing.map(|(slot, record)| (*slot, record.clone())));
        }
        records.sort_unstable_by_key(|(slot, _)| *slot);
        let limit = limit.max(1);
        let more = records.len() > limit;
        records.truncate(limit);
        let next = records.last().filter(|_| more).map(|(slot, _)| *slot);
        Ok(Reply::new(Page { records, next }, self.clock.now()))
    }

    async fn sweep(&self, before: Timestamp, limit: usize) -> Result<Reply<Swept>, Error> {
        let mut swept = Swept::default();
        let mut room = limit;
        for shard in &self.shards {
            let mut shard = shard.lock();
            let before = before.min(self.clock.now());
            shard.sweep(before, &mut room, &mut swept);
        }
        Ok(Reply::new(swept, self.clock.now()))
    }

    fn watch(&self) -> Hints {
        let changes = self.changes.subscribe();
        self.watched.store(true, Ordering::Relaxed);
        hints(changes)
    }

    fn durability(&self) -> Durability {
        Durability::D0
    }

    fn kind(&self) -> &'static str {
        "memory"
    }
}

// === impl Shard ===

impl Shard {
    /// Remembers when a record is due, and drops outdated entries where they pile up.
    fn schedule(&mut self, due: Timestamp, slot: SlotId) {
        if due == Timestamp::NEVER {
            return;
        }
        if self.due.len() > 2 * self.records.len() + 64 {
            let all = self.records.iter();
            self.due = all
                .map(|(slot, record)| Reverse((record.due(), *slot)))
                .filter(|Reverse((due, _))| *due != Timestamp::NEVER)
                .collect();
            return;
        }
        self.due.push(Reverse((due, slot)));
    }

    fn sweep(&mut self, before: Timestamp, room: &mut usize, swept: &mut Swept) {
        let mut lapsed = Vec::new();
        while let Some(&Reverse((due, slot))) = self.due.peek()
            && due < before
        {
            if *room == 0 {
                swept.more = true;
                break;
            }
            self.due.pop();
            // A record written twice within a tick of the clock stands here twice.
            while self.due.peek() == Some(&Reverse((due, slot))) {
                self.due.pop();
            }
            let hash_map::Entry::Occupied(found) = self.records.entry(slot) else {
                continue;
            };
            if found.get().due() != due && !seeded(Bug::SweepUnchecked) {
                continue;
            }
            *room -= 1;
            if found.get().state.name().expires() || seeded(Bug::SweepRemovesClaims) {
                found.remove();
                swept.removed += 1;
            } else {
                lapsed.push((slot, found.get().clone()));
            }
        }
        // A lapsed claim stays due until the protocol has dealt with it.
        let again = lapsed.iter().map(|(slot, it)| Reverse((it.due(), *slot)));
        self.due.extend(again);
        swept.lapsed.append(&mut lapsed);
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
