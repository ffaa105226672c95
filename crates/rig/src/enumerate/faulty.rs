//! A store that fails at chosen calls, in chosen ways.

use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;

use async_trait::async_trait;
use onceward::store::{Error, Filter, Insert, Page, Reply, Swap, Swept};
use onceward::{Fence, Record, SlotId, Store, Timestamp};
use tokio::sync::Notify;

use super::plan::Faults;
use crate::lab::Lab;

/// The ways to fail at a store call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The process dies before the call reaches the store.
    CrashBefore,
    /// The process dies after the store has done it.
    CrashAfter,
    /// The store says that something went wrong, and did nothing.
    Error,
    /// The store does it, and its answer is lost.
    AnswerLost,
    /// The store never hears of it, and nothing is answered.
    RequestLost,
    /// The process is paused for longer than a lease before the call goes out.
    PauseBefore,
    /// The process is paused for longer than a lease before it reads the answer.
    PauseAfter,
}

/// The recorded store of one process, with a fault in front of it.
pub(super) struct FaultyStore {
    inner: Arc<dyn Store>,
    lab: Arc<Lab>,
    /// Where it fails; another process has none.
    faults: Option<Arc<Faults>>,
    threaded: bool,
    crash: Notify,
}

// === impl Mode ===

impl Mode {
    /// Every way to fail.
    pub const ALL: [Self; 7] = [
        Self::CrashBefore,
        Self::CrashAfter,
        Self::Error,
        Self::AnswerLost,
        Self::RequestLost,
        Self::PauseBefore,
        Self::PauseAfter,
    ];
}

// === impl FaultyStore ===

impl FaultyStore {
    /// Returns the store of process `number` of `lab`, which never fails.
    pub(super) fn sound(lab: &Arc<Lab>, number: u32, threaded: bool) -> Self {
        Self {
            inner: lab.recorded(number),
            lab: lab.clone(),
            faults: None,
            threaded,
            crash: Notify::new(),
        }
    }

    /// Returns the store of another process of the same lab, which never fails.
    pub(super) fn another(&self, number: u32) -> Self {
        Self::sound(&self.lab, number, self.threaded)
    }

    /// The same, where `faults` strike.
    #[must_use]
    pub(super) fn under(mut self, faults: &Arc<Faults>) -> Self {
        self.faults = Some(faults.clone());
        self
    }

    /// Waits for the process to die.
    pub(super) async fn crashed(&self) {
        self.crash.notified().await;
    }

    /// Makes one call, unless this is the one that fails.
    async fn call<T, F>(&self, call: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let mode = self.faults.as_ref().and_then(|faults| faults.next());
        // An await before and after each call, so that a caller can be dropped there.
        tokio::task::yield_now().await;
        match mode {
            Some(Mode::CrashBefore) => self.die().await,
            Some(Mode::Error) => return Err(Error::unavailable("faulty", "it failed")),
            Some(Mode::RequestLost) => pending().await,
            Some(Mode::PauseBefore) => self.lab.clock.advance(2 * Lab::LEASE),
            Some(Mode::CrashAfter | Mode::AnswerLost | Mode::PauseAfter) | None => {}
        }
        let answer = self.done(call).await;
        match mode {
            Some(Mode::CrashAfter) => self.die().await,
            Some(Mode::AnswerLost) => pending().await,
            Some(Mode::PauseAfter) => self.lab.clock.advance(2 * Lab::LEASE),
            _ => {}
        }
        tokio::task::yield_now().await;
        answer
    }

    /// Does the call. A store on another thread is waited for in a way that keeps the paused
    /// time from running on meanwhile.
    async fn done<T, F>(&self, call: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        if !self.threaded {
            return call.await;
        }
        let runtime = tokio::runtime::Handle::current();
        let waiting = tokio::task::spawn_blocking(move || runtime.block_on(call));
        waiting.await.expect("the store does not panic")
    }

    async fn die(&self) {
        self.crash.notify_one();
        pending::<()>().await;
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        let (inner, record) = (self.inner.clone(), record.clone());
        self.call(async move { inner.insert(slot, &record, not_after).await })
            .await
    }

    async fn replace(
        &self,
        slot: SlotId,
        seen: Fence,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        let (inner, record) = (self.inner.clone(), record.clone());
        self.call(async move { inner.replace(slot, seen, &record, not_after).await })
            .await
    }

    async fn remove(
        &self,
        slot: SlotId,
        seen: Fence,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        let inner = self.inner.clone();
        self.call(async move { inner.remove(slot, seen, not_after).await })
            .await
    }

    async fn get(&self, slot: SlotId) -> Result<Reply<Option<Arc<Record>>>, Error> {
        let inner = self.inner.clone();
        self.call(async move { inner.get(slot).await }).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<SlotId>,
        limit: usize,
    ) -> Result<Reply<Page>, Error> {
        let (inner, filter) = (self.inner.clone(), filter.clone());
        self.call(async move { inner.list(&filter, after, limit).await })
            .await
    }

    async fn sweep(&self, before: Timestamp, limit: usize) -> Result<Reply<Swept>, Error> {
        let inner = self.inner.clone();
        self.call(async move { inner.sweep(before, limit).await })
            .await
    }

    onceward::forward!(recall, forget, watch, durability, kind);
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyStore({:?})", self.faults)
    }
}
