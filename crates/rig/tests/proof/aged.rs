//! A store on a server whose time can be moved by hand.
//!
//! The server's clock is its own, so time is not moved there: the records are. Whenever the lab's
//! clock has gone forward, every record is made that much older, and what callers see is the
//! server's time plus all that was added so far. Both together are the same as time going by. And
//! as real time goes by on the server, the lab's clock is moved along.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use onceward::clock::{Clock as _, SystemClock};
use onceward::store::{Error, Filter, Insert, Page, Reply, Swap, Swept};
use onceward::testing::ManualClock;
use onceward::{Fence, Record, SlotId, Store, Timestamp};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

/// A store, a way around it, and a clock that is moved by hand.
#[derive(Debug)]
pub(crate) struct AgedStore {
    inner: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    door: Arc<dyn BackDoor>,
    /// Where that lives: those who ask have no network on their runtime.
    runtime: Runtime,
    past: Mutex<Past>,
    /// How long the slowest answer took, in microseconds.
    slowest: AtomicU64,
    began: Duration,
}

/// A way around a store to the records that it keeps on a server.
#[async_trait]
pub(crate) trait BackDoor: fmt::Debug + Send + Sync + 'static {
    /// Makes every record older.
    async fn age(&self, by: Duration);

    /// Removes whatever trials left; the secret stays.
    async fn clear(&self);
}

/// Where the lab's time comes from.
#[derive(Debug)]
struct Past {
    /// By how much every record was made older so far.
    added: Duration,
    /// How much of the lab's time was real.
    real: Duration,
    /// When real time was last looked at.
    looked: Duration,
}

// === impl AgedStore ===

impl AgedStore {
    /// Steps below this are left to the server's own clock: calls take longer than that.
    const STEP: Duration = Duration::from_millis(100);

    /// Returns `inner` on `clock`. What keeps the records is reached through a door, which is
    /// opened on a runtime of its own.
    pub(crate) fn new<D: BackDoor>(
        inner: Arc<dyn Store>,
        clock: Arc<ManualClock>,
        door: impl Future<Output = D>,
    ) -> Self {
        let runtime = Runtime::new().expect("a runtime starts");
        Self {
            began: clock.monotonic(),
            door: Arc::new(runtime.block_on(door)),
            past: Mutex::new(Past {
                added: Duration::ZERO,
                real: Duration::ZERO,
                looked: SystemClock.stopwatch(),
            }),
            slowest: AtomicU64::new(0),
            inner,
            clock,
            runtime,
        }
    }

    /// Forgets what earlier trials left, so that there is little to age; the secret stays.
    pub(crate) fn clear(&self) {
        self.runtime.block_on(self.door.clear());
    }

    /// Makes every record older by what the clock has gone forward, and returns how much was
    /// added so far, and when that was in real time.
    async fn age(&self) -> (Duration, Duration) {
        let sent = SystemClock.stopwatch();
        let mut past = self.past.lock().await;
        self.follow(&mut past);
        let lived = self.clock.monotonic() - self.began;
        let step = lived.saturating_sub(past.added + past.real);
        if step >= Self::STEP {
            let door = self.door.clone();
            let aging = self.runtime.spawn(async move { door.age(step).await });
            aging.await.expect("the server answers");
            past.added += step;
        }
        self.follow(&mut past);
        (past.added, sent)
    }

    /// How long the slowest answer took.
    pub(crate) fn slowest(&self) -> Duration {
        Duration::from_micros(self.slowest.load(Ordering::Relaxed))
    }

    /// Moves the lab's clock along with real time.
    fn follow(&self, past: &mut Past) {
        let now = SystemClock.stopwatch();
        let passed = now - past.looked;
        self.clock.advance(passed);
        past.real += passed;
        past.looked = now;
    }

    /// A reply of the server as the lab has it, once the lab's clock has caught up with it.
    async fn ours<T>(
        &self,
        reply: Result<Reply<T>, Error>,
        (added, sent): (Duration, Duration),
        value: impl FnOnce(T) -> T,
    ) -> Result<Reply<T>, Error> {
        let mut past = self.past.lock().await;
        self.follow(&mut past);
        let took = past.looked - sent;
        self.slowest
            .fetch_max(took.as_micros() as u64, Ordering::Relaxed);
        drop(past);
        let reply = reply?;
        Ok(Reply::new(value(reply.value), reply.now + added))
    }
}

/// A moment of the lab as the server has it.
fn theirs(at: Timestamp, added: Duration) -> Timestamp {
    match at {
        Timestamp::NEVER => at,
        _ => at.before(added),
    }
}

fn shown(record: &Arc<Record>, added: Duration) -> Arc<Record> {
    Arc::new(record.stamped(record.written + added))
}

fn swapped(swap: Swap, added: Duration) -> Swap {
    match swap {
        Swap::Moved(found) => Swap::Moved(found.map(|found| shown(&found, added))),
        done => done,
    }
}

fn all(records: Vec<(SlotId, Arc<Record>)>, added: Duration) -> Vec<(SlotId, Arc<Record>)> {
    let records = records.into_iter();
    records
        .map(|(slot, record)| (slot, shown(&record, added)))
        .collect()
}

#[async_trait]
impl Store for AgedStore {
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        let (added, sent) = self.age().await;
        let insert = self.inner.insert(slot, record, theirs(not_after, added));
        self.ours(insert.await, (added, sent), |insert| match insert {
            Insert::Taken(found) => Insert::Taken(shown(&found, added)),
            done => done,
        })
        .await
    }

    async fn replace(
        &self,
        slot: SlotId,
        seen: Fence,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        let (added, sent) = self.age().await;
        let not_after = theirs(not_after, added);
        let replace = self.inner.replace(slot, seen, record, not_after);
        self.ours(replace.await, (added, sent), |swap| swapped(swap, added))
            .await
    }

    async fn remove(
        &self,
        slot: SlotId,
        seen: Fence,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        let (added, sent) = self.age().await;
        let remove = self.inner.remove(slot, seen, theirs(not_after, added));
        self.ours(remove.await, (added, sent), |swap| swapped(swap, added))
            .await
    }

    async fn get(&self, slot: SlotId) -> Result<Reply<Option<Arc<Record>>>, Error> {
        let (added, sent) = self.age().await;
        let reply = self.inner.get(slot).await;
        self.ours(reply, (added, sent), |found| {
            found.map(|found| shown(&found, added))
        })
        .await
    }

    /// What is at hand may have aged meanwhile.
    fn recall(&self, _: SlotId) -> Option<Reply<Arc<Record>>> {
        None
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<SlotId>,
        limit: usize,
    ) -> Result<Reply<Page>, Error> {
        let (added, sent) = self.age().await;
        let filter = Filter {
            written_before: filter.written_before.map(|at| theirs(at, added)),
            ..filter.clone()
        };
        let reply = self.inner.list(&filter, after, limit).await;
        self.ours(reply, (added, sent), |page| Page {
            records: all(page.records, added),
            ..page
        })
        .await
    }

    async fn sweep(&self, before: Timestamp, limit: usize) -> Result<Reply<Swept>, Error> {
        let (added, sent) = self.age().await;
        let reply = self.inner.sweep(theirs(before, added), limit).await;
        self.ours(reply, (added, sent), |swept| Swept {
            lapsed: all(swept.lapsed, added),
            ..swept
        })
        .await
    }

    onceward::forward!(forget, watch, durability, kind);
}
