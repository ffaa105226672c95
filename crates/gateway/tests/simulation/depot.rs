//! The depot: one store for all gateways, on the far side of a wire that fails.
//!
//! A call is a message: it is carried out on the depot's own host, also when the gateway that
//! sent it is gone by then, and its reply may be late, lost or an error.

use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;
use futures_util::StreamExt as _;
use futures_util::poll;
use futures_util::stream::{self, BoxStream};
use onceward::store::{Durability, Error, Filter, Insert, Page, Reply, Swap, Swept};
use onceward::{Fence, Record, SlotId, State, Store, Timestamp};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use crate::gated::Gate;
use crate::notes::Notes;

/// What a call leads to, on the depot's side.
type Errand = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What all gateways have in common.
#[derive(Debug)]
pub(crate) struct Depot {
    notes: Arc<Notes>,
    errands: mpsc::UnboundedSender<Errand>,
    rng: Mutex<Rng>,
    /// Whether calls may fail now.
    faulty: AtomicBool,
    /// The gateways whose calls get lost now.
    cut: Mutex<Vec<bool>>,
    gate: Gate,
    /// The claims that the store granted, by their marks.
    granted: Mutex<BTreeMap<Fence, SlotId>>,
}

/// The depot as one gateway sees it.
#[derive(Debug)]
pub(crate) struct Wired {
    pub(crate) depot: Arc<Depot>,
    /// The store itself, with everything written down.
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) gateway: usize,
    pub(crate) recalls: bool,
    pub(crate) hints: bool,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Good,
    /// The store refuses, and does nothing.
    Error,
    /// The store does it, and the connection breaks.
    Broken,
    /// The store does it, and nothing comes back.
    ReplyLost,
    /// The store never hears of it, and nothing comes back.
    RequestLost,
}

// === impl Depot ===

impl Depot {
    /// Returns a depot, and what its host has to carry out.
    pub(crate) fn new(
        notes: Arc<Notes>,
        gate: Gate,
        gateways: usize,
        faulty: bool,
        rng: Rng,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Errand>) {
        let (errands, received) = mpsc::unbounded_channel();
        let depot = Self {
            notes,
            errands,
            rng: Mutex::new(rng),
            faulty: AtomicBool::new(faulty),
            cut: Mutex::new(vec![false; gateways]),
            gate,
            granted: Mutex::default(),
        };
        (Arc::new(depot), received)
    }

    /// Carries out calls, one beside the other.
    pub(crate) async fn run(mut errands: mpsc::UnboundedReceiver<Errand>) {
        while let Some(errand) = errands.recv().await {
            tokio::spawn(errand);
        }
    }

    /// Cuts a gateway off, or lets it back.
    pub(crate) fn set_cut(&self, gateway: usize, cut: bool) {
        self.cut.lock()[gateway] = cut;
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) {
        self.faulty.store(false, Ordering::Relaxed);
        self.cut.lock().fill(false);
    }

    /// The slot that the claim with this mark was granted for.
    pub(crate) fn granted(&self, mark: Fence) -> Option<SlotId> {
        self.granted.lock().get(&mark).copied()
    }

    fn fate(&self, gateway: usize) -> (Fate, Duration, Duration) {
        let mut rng = self.rng.lock();
        let mut delay = || Duration::from_millis(rng.u64(0..5));
        let (before, after) = (delay(), delay());
        if self.cut.lock()[gateway] {
            self.notes.unsettle("store: cut off");
            return (Fate::RequestLost, before, after);
        }
        if !self.faulty.load(Ordering::Relaxed) {
            return (Fate::Good, before, after);
        }
        let long = Duration::from_millis(rng.u64(100..4_000));
        let (kind, fate, before, after) = match rng.u8(0..100) {
            0..3 => ("store: error", Fate::Error, before, after),
            3..6 => ("store: connection broken", Fate::Broken, before, after),
            6..8 => ("store: reply lost", Fate::ReplyLost, before, after),
            8 => ("store: request lost", Fate::RequestLost, before, after),
            9..12 => ("store: request late", Fate::Good, long, after),
            12..15 => ("store: reply late", Fate::Good, before, long),
            _ => return (Fate::Good, before, after),
        };
        self.notes.unsettle(kind);
        (fate, before, after)
    }

    /// Remembers a claim that the store granted.
    fn note(&self, slot: SlotId, record: &Record) {
        if matches!(record.state, State::Claimed(_)) && record.mark == Some(record.fence) {
            self.granted.lock().insert(record.fence, slot);
        }
    }
}

// === impl Wired ===

impl Wired {
    async fn call<T, F>(&self, call: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let (fate, before, after) = self.depot.fate(self.gateway);
        let (reply, answer) = oneshot::channel();
        // Polled once, so that it is written down here and now that it was asked for.
        let open = self.depot.gate.close();
        let mut call = Box::pin(call);
        if let Poll::Ready(done) = poll!(&mut call) {
            return done;
        }
        let errand = async move {
            sleep(before).await;
            match fate {
                Fate::Error => drop(reply.send(Err(Error::unavailable("depot", "it failed")))),
                Fate::RequestLost => {
                    pending::<()>().await;
                    drop(reply);
                }
                Fate::Good | Fate::Broken | Fate::ReplyLost => {
                    open.open();
                    let done = call.await;
                    sleep(after).await;
                    match fate {
                        Fate::Good => drop(reply.send(done)),
                        Fate::Broken => drop(reply),
                        _ => {
                            pending::<()>().await;
                            drop(reply);
                        }
                    }
                }
            }
        };
        // The depot's host is never stopped.
        drop(self.depot.errands.send(Box::pin(errand)));
        match answer.await {
            Ok(done) => done,
            Err(_) => Err(Error::unavailable("depot", "the connection broke")),
        }
    }
}

#[async_trait]
impl Store for Wired {
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        let (inner, depot) = (self.inner.clone(), self.depot.clone());
        let record = record.clone();
        self.call(async move {
            let reply = inner.insert(slot, &record, not_after).await?;
            if reply.value == Insert::Done {
                depot.note(slot, &record);
            }
            Ok(reply)
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
        let (inner, depot) = (self.inner.clone(), self.depot.clone());
        let record = record.clone();
        self.call(async move {
            let reply = inner.replace(slot, seen, &record, not_after).await?;
            if reply.value == Swap::Done {
                depot.note(slot, &record);
            }
            Ok(reply)
        })
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

    fn recall(&self, slot: SlotId) -> Option<Reply<Arc<Record>>> {
        self.recalls.then(|| self.inner.recall(slot)).flatten()
    }

    async fn forget(&self, slot: SlotId, before: Fence) -> Result<(), Error> {
        self.inner.forget(slot, before).await
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

    fn watch(&self) -> BoxStream<'static, SlotId> {
        match self.hints {
            true => self.inner.watch(),
            false => stream::pending().boxed(),
        }
    }

    /// It survives every gateway.
    fn durability(&self) -> Durability {
        Durability::D2
    }

    fn kind(&self) -> &'static str {
        "depot"
    }
}
