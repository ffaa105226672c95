//! The judge: a store that keeps a log of everything written, and knows what may follow what.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use onceward::store::{Error, Insert, Reply, Swap};
use onceward::sync::{Mutex, point};
use onceward::{Fence, MemoryStore, Record, SlotId, State, Store, Timestamp};
use shuttle::rand::Rng as _;

/// A memory store whose every write is judged against the one before it.
#[derive(Debug)]
pub(crate) struct Judge {
    inner: MemoryStore,
    trail: Mutex<Trail>,
}

#[derive(Debug, Default)]
struct Trail {
    /// What each slot holds by the writes that were applied.
    slots: HashMap<SlotId, Arc<Record>>,
    /// How many of the next renewals fail without being applied.
    failing: usize,
    /// How many of the next writes may fail, applied or not.
    flaky: usize,
    renewed: usize,
    healed: usize,
    taken_over: usize,
}

/// What happened to slots beside being claimed and ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Happened {
    pub(crate) renewed: usize,
    pub(crate) healed: usize,
    pub(crate) taken_over: usize,
}

// === impl Judge ===

impl Judge {
    pub(crate) fn new(inner: MemoryStore) -> Self {
        Self {
            inner,
            trail: Mutex::default(),
        }
    }

    /// Fails this many of the next renewals.
    pub(crate) fn fail_renewals(&self, times: usize) {
        self.trail.lock().failing = times;
    }

    /// Lets this many of the next writes fail, some of which are applied all the same.
    pub(crate) fn fail_some(&self, times: usize) {
        self.trail.lock().flaky = times;
    }

    pub(crate) fn happened(&self) -> Happened {
        let trail = self.trail.lock();
        Happened {
            renewed: trail.renewed,
            healed: trail.healed,
            taken_over: trail.taken_over,
        }
    }

    /// What `slot` holds.
    pub(crate) fn record(&self, slot: SlotId) -> Option<Arc<Record>> {
        self.trail.lock().slots.get(&slot).cloned()
    }

    /// Applies a call and judges what it did, as one: the memory store answers at once.
    fn apply<T>(
        &self,
        slot: SlotId,
        record: Option<&Record>,
        call: impl Future<Output = Result<Reply<T>, Error>>,
        is_done: impl FnOnce(&T) -> bool,
    ) -> Result<Reply<T>, Error> {
        // Callers of a store come and go in any order, which the lock alone would not show when
        // nobody else wants it.
        point();
        let mut trail = self.trail.lock();
        if trail.failing > 0 && trail.is_renewal(slot, record) {
            trail.failing -= 1;
            return Err(Error::unavailable(self.kind(), "told to fail"));
        }
        let mut rng = shuttle::rand::thread_rng();
        let fails = trail.flaky > 0 && rng.gen_ratio(1, 3);
        trail.flaky -= usize::from(fails);
        if fails && rng.gen_bool(0.5) {
            return Err(Error::unavailable(self.kind(), "told to fail"));
        }
        let reply = call
            .now_or_never()
            .expect("a memory store answers at once")?;
        if is_done(&reply.value) {
            trail.note(
                slot,
                record.map(|record| record.stamped(reply.now)),
                reply.now,
            );
        }
        drop(trail);
        point();
        match fails {
            true => Err(Error::unavailable(self.kind(), "told to lose the reply")),
            false => Ok(reply),
        }
    }
}

#[async_trait]
impl Store for Judge {
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        let call = self.inner.insert(slot, record, not_after);
        self.apply(slot, Some(record), call, |it| *it == Insert::Done)
    }

    async fn replace(
        &self,
        slot: SlotId,
        seen: Fence,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        let call = self.inner.replace(slot, seen, record, not_after);
        self.apply(slot, Some(record), call, |it| *it == Swap::Done)
    }

    async fn remove(
        &self,
        slot: SlotId,
        seen: Fence,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        let call = self.inner.remove(slot, seen, not_after);
        self.apply(slot, None, call, |it| *it == Swap::Done)
    }

    async fn get(&self, slot: SlotId) -> Result<Reply<Option<Arc<Record>>>, Error> {
        point();
        self.inner.get(slot).await
    }

    onceward::forward!(recall, forget, list, sweep, watch, durability, kind);
}

// === impl Trail ===

impl Trail {
    fn is_renewal(&self, slot: SlotId, record: Option<&Record>) -> bool {
        let (Some(held), Some(record)) = (self.slots.get(&slot), record) else {
            return false;
        };
        held.mark == record.mark && matches!(record.state, State::Claimed(_))
    }

    /// Judges what a slot holds now, after what it held before.
    fn note(&mut self, slot: SlotId, record: Option<Record>, now: Timestamp) {
        let before = self.slots.remove(&slot);
        let Some(record) = record else {
            let before = before.expect("an empty slot cannot be emptied");
            let may = matches!(before.state, State::Claimed(_) | State::Unknown(_));
            assert!(may && before.attempt == 1, "removed: {before:?}");
            return;
        };
        if let Some(before) = &before {
            self.follows(before, &record, now);
        } else {
            let first = slot == SlotId::RESERVED || matches!(record.state, State::Claimed(_));
            assert!(first, "begins with {record:?}");
        }
        self.slots.insert(slot, Arc::new(record));
    }

    fn follows(&mut self, before: &Record, record: &Record, now: Timestamp) {
        let same = before.mark == record.mark;
        let bad = || panic!("{record:?} follows {before:?} at {now:?}");
        if record.fence <= before.fence {
            bad();
        }
        match (&before.state, &record.state) {
            (State::Claimed(_), State::Claimed(_)) if same => self.renewed += 1,
            (State::Claimed(_), State::Claimed(_)) => {
                self.taken_over += 1;
                let lapsed = before.has_lapsed(now);
                if !lapsed || record.attempt != before.attempt + 1 {
                    bad();
                }
            }
            (State::Claimed(_), State::Completed(_)) if same => {}
            // A silent holder's claim, by somebody else or by its own holder.
            (State::Claimed(_), State::Unknown(_)) if same => {}
            (State::Unknown(_), State::Completed(_)) if same => self.healed += 1,
            // Its own holder says the same in other words; the same words are a renewal.
            (State::Unknown(one), State::Unknown(other)) if same && one != other => {}
            (State::Unknown(_), State::Claimed(_)) => {
                self.taken_over += 1;
                // With the same mark it would be a renewal of what callers were told is unknown.
                if same || record.attempt != before.attempt + 1 {
                    bad();
                }
            }
            _ => bad(),
        }
    }
}
