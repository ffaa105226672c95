//! A cache in the memory of one process: the reference for others, and the one for tests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onceward::bugs::{Bug, seeded};
use onceward::clock::Clock;
use onceward::{BoxError, Fence, SlotId};
use parking_lot::Mutex;

use super::{Cache, Memo};

/// A cache that several stores of one process may share.
#[derive(Clone, Debug)]
pub struct MemoryCache {
    places: Arc<Mutex<HashMap<SlotId, Place>>>,
    clock: Arc<dyn Clock>,
}

/// What a cache held at some moment, to go back to.
#[derive(Clone, Debug)]
pub struct Snapshot(HashMap<SlotId, Place>);

/// What is known about one slot.
#[derive(Clone, Debug, Default)]
struct Place {
    memo: Option<(Memo, Duration)>,
    /// The fence below which nothing is written, and until when.
    tombstone: Option<(Fence, Duration)>,
}

/// How long a tombstone stays: longer than any memo can be on its way.
pub(super) const TOMBSTONE: Duration = Duration::from_secs(3600);

// === impl MemoryCache ===

impl MemoryCache {
    /// Returns an empty cache whose memos end by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            places: Arc::default(),
            clock,
        }
    }

    /// Returns what the cache holds now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.places.lock().clone())
    }

    /// Goes back to what it held.
    pub fn restore(&self, snapshot: Snapshot) {
        *self.places.lock() = snapshot.0;
    }

    /// Loses everything.
    pub fn clear(&self) {
        self.places.lock().clear();
    }

    fn now(&self) -> Duration {
        self.clock.monotonic()
    }
}

#[async_trait]
impl Cache for MemoryCache {
    async fn look(&self, slot: SlotId) -> Result<Option<Memo>, BoxError> {
        let places = self.places.lock();
        let memo = places.get(&slot).and_then(|place| place.memo.as_ref());
        let alive = memo.filter(|(_, until)| self.now() < *until);
        Ok(alive.map(|(memo, _)| memo.clone()))
    }

    async fn note(&self, slot: SlotId, memo: &Memo, life: Duration) -> Result<(), BoxError> {
        let now = self.now();
        let mut places = self.places.lock();
        let place = places.entry(slot).or_default();
        let fence = memo.record.fence;
        let is_buried = place
            .tombstone
            .is_some_and(|(before, until)| now < until && fence < before);
        let is_old = place
            .memo
            .as_ref()
            .is_some_and(|(there, until)| now < *until && fence <= there.record.fence);
        if (is_buried && !seeded(Bug::TombstoneIgnored)) || is_old {
            return Ok(());
        }
        place.memo = Some((memo.clone(), now.saturating_add(life)));
        Ok(())
    }

    async fn bury(&self, slot: SlotId, before: Fence) -> Result<(), BoxError> {
        let now = self.now();
        let mut places = self.places.lock();
        let place = places.entry(slot).or_default();
        place.memo = None;
        let known = place.tombstone.map_or(before, |(known, _)| known);
        place.tombstone = Some((before.max(known), now + TOMBSTONE));
        Ok(())
    }

    async fn keep(&self, slot: SlotId, fence: Fence, life: Duration) -> Result<bool, BoxError> {
        let now = self.now();
        let mut places = self.places.lock();
        let memo = places
            .get_mut(&slot)
            .and_then(|place| place.memo.as_mut())
            .filter(|(memo, _)| memo.record.fence == fence);
        let Some((memo, until)) = memo else {
            return Ok(false);
        };
        memo.is_evidence = true;
        *until = now.saturating_add(life).max(*until);
        Ok(true)
    }
}
