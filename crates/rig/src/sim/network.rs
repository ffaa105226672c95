//! The network between the nodes and the store.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::{self, BoxFuture};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use onceward::store::{Durability, Error, Filter, Insert, Page, Reply, Swap, Swept};
use onceward::{Fence, Record, SlotId, Store, Timestamp};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::coverage::Mark;
use super::fate::{Fate, Goes};
use super::nemesis;
use super::world::World;
use crate::lab::RecordedStore;

/// How well a node reaches the store.
#[derive(Debug, Default)]
pub(super) struct Link(Mutex<Weather>);

/// What a link is like at the moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weather {
    /// Nothing gets through.
    pub(super) cut: bool,
    /// How many of all calls go wrong, beside those that always may.
    pub(super) loss: f64,
    /// How much longer a message may take, in milliseconds.
    pub(super) slow: u64,
}

/// The store as a process reaches it.
pub(super) struct Line {
    world: Arc<World>,
    node: usize,
    store: Arc<dyn Store>,
    /// How far the process's idea of the store's time is off, at the most, and since when.
    idea: Mutex<Option<(Duration, Duration)>>,
}

type Call<T> = BoxFuture<'static, Result<Reply<T>, Error>>;

// === impl Link ===

impl Link {
    pub(super) fn set(&self, change: impl FnOnce(&mut Weather)) {
        change(&mut self.0.lock());
    }

    pub(super) fn weather(&self) -> Weather {
        *self.0.lock()
    }
}

// === impl Line ===

impl Line {
    /// Returns the line of process `number` on `node`.
    pub(super) fn new(world: &Arc<World>, node: usize, number: u32) -> Self {
        let recorder = world.recorder.clone();
        let recorded = RecordedStore::new(world.store.clone(), recorder, number);
        let recorded: Arc<dyn Store> = Arc::new(recorded);
        Self {
            store: world.wrap.map_or(recorded.clone(), |wrap| wrap(recorded)),
            world: world.clone(),
            node,
            idea: Mutex::default(),
        }
    }

    /// Whether it is a node's, rather than an operator's.
    fn is_nodes(&self) -> bool {
        self.node < self.world.plan.nodes
    }

    fn is_cut(&self) -> bool {
        self.world.links[self.node].weather().cut
            || self.world.store_is_down.load(Ordering::Relaxed)
    }

    /// Makes a call as its fate has it.
    async fn call<T: Send + 'static>(
        &self,
        apply: impl Fn(Arc<dyn Store>) -> Call<T> + Clone + Send + 'static,
    ) -> Result<Reply<T>, Error> {
        let fate = Fate::draw(&self.world, self.node);
        match fate.goes {
            Goes::Refused => return Err(Error::unavailable("simulated", "it failed")),
            // The driver notices that a reply is lost, and sends the request once more.
            Goes::Twice => drop(self.sent(fate, apply.clone()).await),
            Goes::Death { after } => {
                if after && !self.is_cut() {
                    drop(apply(self.store.clone()).await);
                }
                nemesis::die(&self.world, self.node);
                return future::pending().await;
            }
            _ => {}
        }
        // What is sent once more is there at once: a copy that outlives its caller is another matter,
        // of which docs/proof.md speaks.
        let is_prompt = fate.is_prompt() || matches!(fate.goes, Goes::Twice);
        let (reply, at) = match (is_prompt, self.is_cut()) {
            (true, true) => future::pending().await,
            (true, false) => (apply(self.store.clone()).await, self.world.time.passed()),
            (false, _) => match self.sent(fate, apply).await {
                Some(answer) => answer,
                None => future::pending().await,
            },
        };
        match fate.goes {
            Goes::Broken => return Err(Error::unavailable("simulated", "the line broke")),
            Goes::Pause => {
                tokio::spawn(nemesis::pause(self.world.clone(), self.node));
                // Lets that task begin; from then on the process stands.
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
            }
            _ => {}
        }
        self.heard(at);
        reply
    }

    /// Sends a request, and waits for what comes back, and when that left the store. `None` if
    /// it is lost.
    async fn sent<T: Send + 'static>(
        &self,
        fate: Fate,
        apply: impl Fn(Arc<dyn Store>) -> Call<T> + Send + 'static,
    ) -> Option<(Result<Reply<T>, Error>, Duration)> {
        let (answer, answered) = oneshot::channel();
        let world = self.world.clone();
        let (store, node) = (self.store.clone(), self.node);
        let epoch = world.epoch.load(Ordering::Relaxed);
        // What is under way arrives whether or not anybody still waits for it.
        tokio::spawn(async move {
            let lost = || {
                let gone = world.epoch.load(Ordering::Relaxed) != epoch;
                gone || world.links[node].weather().cut
                    || world.store_is_down.load(Ordering::Relaxed)
            };
            world.rest(fate.there).await;
            if fate.goes == Goes::RequestLost || lost() {
                return;
            }
            let reply = apply(store).await;
            let at = world.time.passed();
            world.rest(fate.back).await;
            if fate.goes != Goes::ReplyLost && !lost() {
                // Nobody may be waiting any more.
                let _ = answer.send((reply, at));
            }
        });
        answered.await.ok()
    }

    /// Notes that a reply which left the store at this time has come.
    fn heard(&self, at: Duration) {
        let now = self.world.time.passed();
        let off = now.saturating_sub(at);
        let mut idea = self.idea.lock();
        let known = idea.map(|idea| self.world.plan.grown(idea, now));
        *idea = Some((known.map_or(off, |known| known.min(off)), now));
    }

    /// Notes that a claim is sent, whose fence is as good as this process's idea of the store's
    /// time.
    fn claims(&self, mark: Fence) {
        let world = &self.world;
        world.recorder.sent(mark);
        if let Some(idea) = *self.idea.lock() {
            world.reckons(world.plan.grown(idea, world.time.passed()));
        }
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Line {
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        let record = Arc::new(record.clone());
        self.claims(record.fence);
        self.call(move |store| {
            let record = record.clone();
            async move { store.insert(slot, &record, not_after).await }.boxed()
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
        let record = Arc::new(record.clone());
        self.call(move |store| {
            let record = record.clone();
            async move { store.replace(slot, seen, &record, not_after).await }.boxed()
        })
        .await
    }

    async fn remove(
        &self,
        slot: SlotId,
        seen: Fence,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        self.call(move |store| async move { store.remove(slot, seen, not_after).await }.boxed())
            .await
    }

    async fn get(&self, slot: SlotId) -> Result<Reply<Option<Arc<Record>>>, Error> {
        // An operator reads and concludes at once: what it knows is then still true.
        if !self.is_nodes() {
            return self.store.get(slot).await;
        }
        self.call(move |store| async move { store.get(slot).await }.boxed())
            .await
    }

    fn recall(&self, slot: SlotId) -> Option<Reply<Arc<Record>>> {
        let near = self.world.plan.near && !self.is_cut();
        near.then(|| self.store.recall(slot)).flatten()
    }

    async fn forget(&self, slot: SlotId, before: Fence) -> Result<(), Error> {
        self.store.forget(slot, before).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<SlotId>,
        limit: usize,
    ) -> Result<Reply<Page>, Error> {
        let filter = filter.clone();
        self.call(move |store| {
            let filter = filter.clone();
            async move { store.list(&filter, after, limit).await }.boxed()
        })
        .await
    }

    async fn sweep(&self, before: Timestamp, limit: usize) -> Result<Reply<Swept>, Error> {
        let reply = self
            .call(move |store| async move { store.sweep(before, limit).await }.boxed())
            .await?;
        if reply.value.removed > 0 {
            self.world.hit(Mark::Swept);
        }
        if !reply.value.lapsed.is_empty() {
            self.world.hit(Mark::SweptLapsed);
        }
        Ok(reply)
    }

    fn watch(&self) -> BoxStream<'static, SlotId> {
        match self.world.plan.hints {
            true => self.store.watch(),
            false => stream::pending().boxed(),
        }
    }

    fn durability(&self) -> Durability {
        self.store.durability()
    }

    fn kind(&self) -> &'static str {
        "simulated"
    }
}
