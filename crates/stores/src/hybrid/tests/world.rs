//! A database and a cache that fail on demand, and a hybrid store on both.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use onceward::store::{Insert, Swap};
use onceward::testing::{FaultyStore, ManualClock};
use onceward::{
    BoxError, Engine, Fence, Fingerprint, Key, MemoryStore, Policy, Record, Scope, Slot, SlotId,
    Store, Timestamp, Verdict, forward, store,
};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::hybrid::{Cache, Chores, HybridStore, Memo, MemoryCache, Truth};

/// One node, with everything under it in a test's hands.
#[derive(Clone)]
pub(super) struct World {
    pub(super) clock: Arc<ManualClock>,
    pub(super) truth: Arc<FaultyStore>,
    pub(super) cache: Arc<LameCache>,
    pub(super) memory: MemoryCache,
    pub(super) store: HybridStore,
    pub(super) engine: Engine,
    pub(super) policy: Policy,
    far: Arc<FarTruth>,
    payload: &'static str,
    chores: Arc<Mutex<Option<Chores>>>,
}

/// The truth across a network: nothing of it is at hand but its time.
#[derive(Debug)]
struct FarTruth {
    inner: Arc<FaultyStore>,
    memory: Arc<MemoryStore>,
}

/// A cache that is down, hangs, or is slow to write.
#[derive(Debug)]
pub(super) struct LameCache {
    inner: MemoryCache,
    down: AtomicBool,
    hanging: AtomicBool,
    holding: watch::Sender<bool>,
    noted: AtomicUsize,
    in_vain: AtomicUsize,
}

// === impl World ===

impl World {
    /// Returns a world whose chores are done.
    pub(super) fn new() -> Self {
        let world = Self::asleep();
        world.wake();
        world
    }

    /// Returns a world whose chores wait for [`World::running_late`].
    pub(super) fn asleep() -> Self {
        let clock = Arc::new(ManualClock::new());
        let memory = Arc::new(MemoryStore::with_clock(clock.clone()));
        let truth = Arc::new(FaultyStore::new(memory.clone()));
        truth.set_far(true);
        let far = Arc::new(FarTruth {
            inner: truth.clone(),
            memory,
        });
        let memory = MemoryCache::new(clock.clone());
        let cache = Arc::new(LameCache {
            inner: memory.clone(),
            down: AtomicBool::new(false),
            hanging: AtomicBool::new(false),
            holding: watch::Sender::new(false),
            noted: AtomicUsize::new(0),
            in_vain: AtomicUsize::new(0),
        });
        Self::on(clock, truth, far, cache, memory)
    }

    fn on(
        clock: Arc<ManualClock>,
        truth: Arc<FaultyStore>,
        far: Arc<FarTruth>,
        cache: Arc<LameCache>,
        memory: MemoryCache,
    ) -> Self {
        let (store, chores) = HybridStore::new(far.clone(), cache.clone(), clock.clone());
        let engine = Engine::builder(Arc::new(store.clone())).clock(clock.clone());
        Self {
            engine: engine.build(),
            clock,
            truth,
            cache,
            memory,
            store,
            policy: Policy::default(),
            far,
            payload: "pay 100",
            chores: Arc::new(Mutex::new(Some(chores))),
        }
    }

    fn wake(&self) {
        if let Some(chores) = self.chores.lock().take() {
            tokio::spawn(chores.run());
        }
    }

    pub(super) fn running_late(self) -> Self {
        self.wake();
        self
    }

    /// Returns the store for the conformance suite, on a clock that moves by itself.
    pub(super) fn running(self) -> HybridStore {
        let memory = Arc::new(MemoryStore::new());
        let inner = Arc::new(FaultyStore::new(memory.clone()));
        inner.set_far(true);
        let clock = Arc::new(onceward::clock::SystemClock);
        let cache = Arc::new(MemoryCache::new(clock.clone()));
        let (store, chores) = HybridStore::new(Arc::new(FarTruth { inner, memory }), cache, clock);
        tokio::spawn(chores.run());
        store
    }

    /// Another node on the same truth and cache.
    pub(super) fn node(&self) -> Self {
        let node = Self::on(
            self.clock.clone(),
            self.truth.clone(),
            self.far.clone(),
            self.cache.clone(),
            self.memory.clone(),
        );
        node.wake();
        node
    }

    /// The same node again.
    pub(super) fn node_beside(&self) -> Self {
        self.clone()
    }

    /// The same node, for a caller with another payload.
    pub(super) fn payload(&self, payload: &'static str) -> Self {
        Self {
            payload,
            ..self.clone()
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.far.now()
    }

    fn slot(key: &str) -> Slot {
        Slot::new(Scope::new("alice", "pay"), Key::parse(key).unwrap())
    }

    pub(super) async fn id(&self, key: &str) -> SlotId {
        self.engine.id_of(&Self::slot(key)).await.unwrap()
    }

    pub(super) async fn begin(&self, key: &str) -> Verdict {
        let fingerprint = Fingerprint::of(self.payload.as_bytes());
        let begun = self.engine.begin(&Self::slot(key), fingerprint).await;
        begun.unwrap()
    }

    /// Executes the work of `key`, and waits until the cache has heard of it.
    pub(super) async fn complete(&self, key: &str, answer: &'static str) {
        let Verdict::Execute(claim) = self.begin(key).await else {
            panic!("{key} was used before");
        };
        claim.complete(answer).await.unwrap();
        self.quiet().await;
    }

    /// Waits until nothing is under way in the background.
    pub(super) async fn quiet(&self) {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }

    /// Inserts a record, and returns it as it is stored.
    pub(super) async fn put(&self, slot: SlotId, record: &Record) -> Arc<Record> {
        assert_eq!(self.insert(slot, record).await, Insert::Done);
        self.truth.get(slot).await.unwrap().value.unwrap()
    }

    pub(super) async fn insert(&self, slot: SlotId, record: &Record) -> Insert {
        let insert = self.store.insert(slot, record, Timestamp::NEVER);
        insert.await.unwrap().value
    }

    /// Whether an insert is answered at all.
    pub(super) async fn can_insert(&self, slot: SlotId, record: &Record) -> bool {
        let insert = self.store.insert(slot, record, Timestamp::NEVER);
        insert.await.is_ok()
    }

    pub(super) async fn try_replace(&self, slot: SlotId, seen: Fence, record: &Record) -> Swap {
        let replace = self.store.replace(slot, seen, record, Timestamp::NEVER);
        replace.await.unwrap().value
    }

    pub(super) async fn replace(&self, slot: SlotId, seen: Fence, record: &Record) {
        assert_eq!(self.try_replace(slot, seen, record).await, Swap::Done);
    }

    pub(super) async fn forget(&self, slot: SlotId, before: Fence) -> Result<(), store::Error> {
        self.store.forget(slot, before).await
    }

    /// Takes a record out of the truth, as a restored backup does.
    pub(super) async fn lose(&self, slot: SlotId) {
        let found = self.truth.get(slot).await.unwrap().value.unwrap();
        let removed = self.truth.remove(slot, found.fence, Timestamp::NEVER).await;
        assert_eq!(removed.unwrap().value, Swap::Done);
    }

    /// Puts a record into the truth, as a restored backup does.
    pub(super) async fn plant(&self, slot: SlotId, record: &Record) {
        let inserted = self.truth.insert(slot, record, Timestamp::NEVER).await;
        assert_eq!(inserted.unwrap().value, Insert::Done);
    }
}

/// A claim over a silent holder.
pub(super) fn claim_over(silent: &Record) -> Record {
    let fence = Fence::mint(Some(silent.fence), silent.written);
    Record {
        fence,
        mark: Some(fence),
        attempt: silent.attempt + 1,
        ..silent.clone()
    }
}

// === impl FarTruth ===

#[async_trait]
impl Store for FarTruth {
    forward!(
        insert, replace, remove, get, recall, forget, list, sweep, watch, durability, kind
    );
}

impl Truth for FarTruth {
    fn now(&self) -> Timestamp {
        self.memory.now()
    }
}

// === impl LameCache ===

impl LameCache {
    pub(super) fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
    }

    pub(super) fn set_hanging(&self, hanging: bool) {
        self.hanging.store(hanging, Ordering::Relaxed);
    }

    /// Holds memos back, or lets them go.
    pub(super) fn hold_notes(&self, hold: bool) {
        self.holding.send_replace(hold);
    }

    /// How many memos arrived.
    pub(super) fn noted(&self) -> usize {
        self.noted.load(Ordering::Relaxed)
    }

    /// How often it was asked while it was down.
    pub(super) fn looks_in_vain(&self) -> usize {
        self.in_vain.load(Ordering::Relaxed)
    }

    async fn pass(&self) -> Result<(), BoxError> {
        if self.hanging.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        match self.down.load(Ordering::Relaxed) {
            true => Err("told to be down".into()),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Cache for LameCache {
    async fn look(&self, slot: SlotId) -> Result<Option<Memo>, BoxError> {
        let passed = self.pass().await;
        if passed.is_err() {
            self.in_vain.fetch_add(1, Ordering::Relaxed);
        }
        passed?;
        self.inner.look(slot).await
    }

    async fn note(&self, slot: SlotId, memo: &Memo, life: Duration) -> Result<(), BoxError> {
        self.pass().await?;
        let mut holding = self.holding.subscribe();
        let _ = holding.wait_for(|hold| !hold).await;
        self.noted.fetch_add(1, Ordering::Relaxed);
        self.inner.note(slot, memo, life).await
    }

    async fn bury(&self, slot: SlotId, before: Fence) -> Result<(), BoxError> {
        self.pass().await?;
        self.inner.bury(slot, before).await
    }

    async fn keep(&self, slot: SlotId, fence: Fence, life: Duration) -> Result<bool, BoxError> {
        self.pass().await?;
        self.inner.keep(slot, fence, life).await
    }
}
