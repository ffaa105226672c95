//! A database and a cache that are slow, lose answers, hang and go away.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use onceward::store::{Error, Filter, Hints, Insert, Page, Reply, Swap, Swept};
use onceward::{BoxError, Durability, Fence, MemoryStore, Record, SlotId, Store, Timestamp};
use onceward_stores::hybrid::{Cache, Memo, MemoryCache, Truth};
use parking_lot::Mutex;
use tokio::time::sleep;

/// A database across a network.
#[derive(Debug)]
pub(super) struct FlakyTruth {
    inner: Arc<MemoryStore>,
    is_down: AtomicBool,
    random: Mutex<fastrand::Rng>,
}

/// A cache across a network. A memo may be on its way for as long as a store sends it late.
#[derive(Debug)]
pub(super) struct FlakyCache {
    inner: MemoryCache,
    truth: Arc<MemoryStore>,
    is_down: AtomicBool,
    is_hanging: AtomicBool,
    random: Mutex<fastrand::Rng>,
}

tokio::task_local! {
    /// Whether the cache has shown this caller a memo that counts.
    pub(super) static SHOWN: Cell<bool>;
}

/// How long a memo may be on its way: less than a tombstone stays.
const LATE_MAX: Duration = Duration::from_secs(1800);

// === impl FlakyTruth ===

impl FlakyTruth {
    pub(super) fn new(inner: Arc<MemoryStore>, random: fastrand::Rng) -> Self {
        Self {
            inner,
            is_down: AtomicBool::new(false),
            random: Mutex::new(random),
        }
    }

    pub(super) fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }

    pub(super) fn is_up(&self) -> bool {
        !self.is_down.load(Ordering::Relaxed)
    }

    /// Lets a call through, or not, and may lose its answer.
    async fn call<T>(
        &self,
        apply: impl Future<Output = Result<Reply<T>, Error>>,
    ) -> Result<Reply<T>, Error> {
        let lost = || Err(Error::unavailable("postgres", "the network"));
        let (before, after, fate) = {
            let mut random = self.random.lock();
            let mut moment = || Duration::from_micros(random.u64(100..4_000));
            (moment(), moment(), random.u8(0..100))
        };
        sleep(before).await;
        if !self.is_up() || fate == 0 {
            return lost();
        }
        let reply = apply.await;
        sleep(after).await;
        match fate {
            1 => lost(),
            _ => reply,
        }
    }
}

#[async_trait]
impl Store for FlakyTruth {
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        self.call(self.inner.insert(slot, record, not_after)).await
    }

    async fn replace(
        &self,
        slot: SlotId,
        seen: Fence,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        let replace = self.inner.replace(slot, seen, record, not_after);
        self.call(replace).await
    }

    async fn remove(
        &self,
        slot: SlotId,
        seen: Fence,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        self.call(self.inner.remove(slot, seen, not_after)).await
    }

    async fn get(&self, slot: SlotId) -> Result<Reply<Option<Arc<Record>>>, Error> {
        let found = self.call(self.inner.get(slot)).await;
        if !matches!(&found, Ok(reply) if reply.value.is_none()) {
            // Whoever wanted to compare a memo with it begins anew, or goes by what is there: that
            // may be its own claim, granted by a try whose answer was lost.
            let _ = SHOWN.try_with(|shown| shown.set(false));
        }
        found
    }

    fn recall(&self, _: SlotId) -> Option<Reply<Arc<Record>>> {
        None
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<SlotId>,
        limit: usize,
    ) -> Result<Reply<Page>, Error> {
        self.call(self.inner.list(filter, after, limit)).await
    }

    async fn sweep(&self, before: Timestamp, limit: usize) -> Result<Reply<Swept>, Error> {
        self.call(self.inner.sweep(before, limit)).await
    }

    fn watch(&self) -> Hints {
        self.inner.watch()
    }

    fn durability(&self) -> Durability {
        Durability::D2
    }

    onceward::forward!(forget, kind);
}

impl Truth for FlakyTruth {
    fn now(&self) -> Timestamp {
        Truth::now(&*self.inner)
    }
}

// === impl FlakyCache ===

impl FlakyCache {
    pub(super) fn new(inner: MemoryCache, truth: Arc<MemoryStore>, random: fastrand::Rng) -> Self {
        Self {
            inner,
            truth,
            is_down: AtomicBool::new(false),
            is_hanging: AtomicBool::new(false),
            random: Mutex::new(random),
        }
    }

    pub(super) fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }

    pub(super) fn set_hanging(&self, is_hanging: bool) {
        self.is_hanging.store(is_hanging, Ordering::Relaxed);
    }

    /// Lets a call through, or not.
    async fn pass(&self) -> Result<(), BoxError> {
        let (moment, fails) = {
            let mut random = self.random.lock();
            (
                Duration::from_micros(random.u64(10..500)),
                random.u8(0..100) == 0,
            )
        };
        sleep(moment).await;
        if self.is_hanging.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if fails || self.is_down.load(Ordering::Relaxed) {
            return Err("the network".into());
        }
        Ok(())
    }
}

#[async_trait]
impl Cache for FlakyCache {
    async fn look(&self, slot: SlotId) -> Result<Option<Memo>, BoxError> {
        self.pass().await?;
        let memo = self.inner.look(slot).await?;
        let counts = { memo.as_ref() }.is_some_and(|memo| memo.counts_at(self.truth.now()));
        // What is looked at in the background is nobody's.
        let _ = SHOWN.try_with(|shown| shown.set(counts));
        Ok(memo)
    }

    async fn note(&self, slot: SlotId, memo: &Memo, life: Duration) -> Result<(), BoxError> {
        self.pass().await?;
        let late = {
            let mut random = self.random.lock();
            let is_late = random.u8(0..10) == 0;
            is_late.then(|| LATE_MAX.mul_f64(random.f64()))
        };
        match late {
            None => self.inner.note(slot, memo, life).await,
            // It goes on by itself, whoever still waits for it.
            Some(late) => {
                let (inner, memo) = (self.inner.clone(), memo.clone());
                tokio::spawn(async move {
                    sleep(late).await;
                    let _ = inner.note(slot, &memo, life).await;
                });
                Err("no answer".into())
            }
        }
    }

    async fn bury(&self, slot: SlotId, before: Fence) -> Result<(), BoxError> {
        self.pass().await?;
        self.inner.bury(slot, before).await
    }

    async fn keep(&self, slot: SlotId, fence: Fence, life: Duration) -> Result<bool, BoxError> {
        // What is not confirmed, because the cache is gone or lost it meanwhile, was not shown.
        let _ = SHOWN.try_with(|shown| shown.set(false));
        self.pass().await?;
        let is_there = self.inner.keep(slot, fence, life).await?;
        let _ = SHOWN.try_with(|shown| shown.set(is_there));
        Ok(is_there)
    }
}
