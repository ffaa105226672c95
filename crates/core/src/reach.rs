//! How the engine reaches its store: with a deadline, and an ear for the store's clock.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future;

use crate::bugs::{Bug, seeded};
use crate::clock::{Clock, micros};
use crate::fence::Mint;
use crate::meters::StoreMeters;
use crate::store::{Error, Reply, Store};
use crate::sync::Timer;
use crate::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use crate::{Fence, Timestamp};

/// A store, as far away as it is.
#[derive(Debug)]
pub(crate) struct Reach {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) meters: StoreMeters,
    /// How long one call may take before it counts as failed.
    pub(crate) patience: Duration,
    mint: Mint,
    time: StoreTime,
}

/// What is known of the store's clock.
#[derive(Debug)]
struct StoreTime {
    /// The latest time any reply carried, in microseconds.
    latest: AtomicU64,
    /// The store's time less our monotonic time, in microseconds, by the quickest reply.
    offset: AtomicI64,
}

/// The store did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {0:?}")]
struct NoAnswer(Duration);

// === impl Reach ===

impl Reach {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        mint: Mint,
        patience: Duration,
    ) -> Self {
        Self {
            mint,
            meters: StoreMeters::new(store.kind(), store.durability()),
            time: StoreTime {
                latest: AtomicU64::new(0),
                offset: AtomicI64::new(i64::MIN),
            },
            store,
            clock,
            patience,
        }
    }

    /// Waits for an answer of the store, as long as patience lasts, and learns the time from it.
    pub(crate) async fn ask<T>(
        &self,
        call: impl Future<Output = Result<Reply<T>, Error>> + Unpin,
    ) -> Result<Reply<T>, Error> {
        let mut began = None;
        let wait = || began = Some(self.clock.stopwatch());
        let answered = within(self.patience, wait, call).await;
        if let (Some(_), Some(began)) = (&answered, began) {
            let took = self.clock.stopwatch().saturating_sub(began);
            self.meters.answered(took);
        }
        let answer = answered.unwrap_or_else(|| {
            let no_answer = NoAnswer(self.patience);
            Err(Error::unavailable(self.store.kind(), no_answer))
        });
        match &answer {
            Ok(reply) => self.learn(reply.now),
            Err(_) => self.meters.errors.increment(1),
        }
        answer
    }

    /// The latest time the store is known to have told.
    pub(crate) fn latest(&self) -> Timestamp {
        Timestamp::from_micros(self.time.latest.load(Ordering::Relaxed))
    }

    /// The store's time past which a write sent now changes nothing any more.
    ///
    /// Nobody waits longer than that for its reply, so a write that arrives later is nobody's.
    pub(crate) fn not_after(&self) -> Timestamp {
        match self.time.latest.load(Ordering::Relaxed) {
            0 => Timestamp::NEVER,
            _ if seeded(Bug::ClaimWithoutNotAfter) => Timestamp::NEVER,
            _ => self.now() + self.patience,
        }
    }

    /// The time by which a holder judges its own lease: it has to pass, and must never step.
    pub(crate) fn own_time(&self) -> Duration {
        if seeded(Bug::WallClockDeadline) {
            return self.clock.wall().since(Timestamp::ZERO);
        }
        self.clock.monotonic()
    }

    /// The store's time by the last reply and our own monotonic clock.
    pub(crate) fn now(&self) -> Timestamp {
        let monotonic = micros(self.clock.monotonic());
        let offset = self.time.offset.load(Ordering::Relaxed);
        Timestamp::from_micros(monotonic.saturating_add_signed(offset))
    }

    fn learn(&self, now: Timestamp) {
        let monotonic = micros(self.clock.monotonic());
        let offset = now.as_micros() as i64 - monotonic as i64;
        // A reply that took long tells too early a time, so the latest idea counts. Looked at first,
        // because threads that write the same word wait for each other.
        if offset > self.time.offset.load(Ordering::Relaxed) {
            self.time.offset.fetch_max(offset, Ordering::Relaxed);
        }
        if now > self.latest() {
            self.time
                .latest
                .fetch_max(now.as_micros(), Ordering::Relaxed);
        }
    }

    /// A span between half of `span` and all of it, so that many who wait do not ask at once.
    pub(crate) fn jittered(&self, span: Duration) -> Duration {
        let half = span / 2;
        half + Duration::from_micros(self.mint.chance() % micros(half).max(1))
    }

    /// Mints a fence for a write over `seen`.
    ///
    /// Its time is the store's by our own reckoning: a process that has not heard of the store
    /// for an hour would otherwise mint fences that are an hour old.
    pub(crate) fn fence(&self, seen: Option<Fence>) -> Fence {
        self.mint.next(seen, self.now().max(self.latest()))
    }
}

/// Waits for `call`, `limit` at the most: `None` is no answer by then. Where there is something to
/// wait for, `wait` is called first.
///
/// Whoever calls pins the future: taken by value it would stand twice in this one, and a claim
/// would spend more time moving it than storing.
pub(crate) async fn within<T>(
    limit: Duration,
    wait: impl FnOnce(),
    mut call: impl Future<Output = T> + Unpin,
) -> Option<T> {
    // Stores in this process mostly answer at once, and a timer costs more than such a call.
    let first = future::poll_fn(|cx| Poll::Ready(Pin::new(&mut call).poll(cx))).await;
    if let Poll::Ready(answer) = first {
        return Some(answer);
    }
    wait();
    let mut timer = Timer::new(limit);
    let answered = future::poll_fn(|cx| match Pin::new(&mut call).poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => timer.poll(cx).map(|()| None),
    });
    answered.await
}
