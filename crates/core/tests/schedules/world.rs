//! The world of a schedule: an engine on a judged store, and time that passes when told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use onceward::sync::{Waiting, point, time, waiting};
use onceward::testing::ManualClock;
use onceward::{
    Effect, Engine, Fingerprint, Key, Limits, MemoryStore, OnBusy, Policy, Record, Scope, Secret,
    Slot, SlotId, Verdict,
};
use shuttle::future::block_on;

use crate::judge::Judge;

/// One engine, in the hands of a schedule.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<Judge>,
    clock: Arc<ManualClock>,
    limits: Limits,
    policy: Policy,
    seed: u64,
}

/// Work that has to be done once.
#[derive(Clone, Default)]
pub(crate) struct Work(Arc<Counts>);

#[derive(Default)]
struct Counts {
    /// How often it was begun.
    begun: AtomicUsize,
    /// How many are at it.
    under_way: AtomicUsize,
}

/// Lets time pass from one timer to the next until it is dropped.
pub(crate) struct Passing(Arc<AtomicBool>);

// === impl World ===

impl World {
    pub(crate) const LEASE: Duration = Duration::from_secs(30);
    /// Longer than any schedule lasts.
    pub(crate) const AGES: Duration = Duration::from_secs(1 << 32);

    pub(crate) fn new() -> Self {
        Self::with(Limits::default(), Effect::Opaque)
    }

    pub(crate) fn with(limits: Limits, effect: Effect) -> Self {
        let policy = Policy::default()
            .effect(effect)
            .lease(Self::LEASE)
            .on_busy(OnBusy::Wait(Duration::from_secs(600)));
        Self::on(limits, policy)
    }

    /// A world in which no lease lapses and no waiter gives up, however long a schedule lasts.
    pub(crate) fn patient() -> Self {
        let policy = Policy::default()
            .lease(Self::AGES)
            .on_busy(OnBusy::Wait(Self::AGES));
        Self::on(Limits::default(), policy)
    }

    fn on(mut limits: Limits, policy: Policy) -> Self {
        // However long a schedule lasts, the store answers in time.
        limits.store_patience = Self::AGES;
        limits.answer_within = Self::AGES;
        let clock = Arc::new(ManualClock::new());
        let store = Arc::new(Judge::new(MemoryStore::with_clock(clock.clone())));
        let world = Self {
            engine: engine(&store, &clock, &policy, &limits, 1),
            store,
            clock,
            limits,
            policy,
            seed: 1,
        };
        // Found before anything is chosen: it is the same in every schedule.
        block_on(world.engine.secret()).expect("the store answers");
        world
    }

    /// Another engine on the same store.
    pub(crate) fn node(&self) -> Self {
        let seed = self.seed + 1;
        let world = Self {
            engine: engine(&self.store, &self.clock, &self.policy, &self.limits, seed),
            seed,
            ..self.clone()
        };
        block_on(world.engine.secret()).expect("the store answers");
        world
    }

    pub(crate) fn slot(&self, key: &str) -> Slot {
        let key = Key::parse(key).expect("the key of a test is a key");
        Slot::new(Scope::new("alice", "pay"), key)
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(b"pay 100")
    }

    pub(crate) async fn begin(&self, key: &str) -> Verdict {
        let begun = self.engine.begin(&self.slot(key), self.fingerprint()).await;
        begun.expect("the store answers")
    }

    pub(crate) async fn id(&self, key: &str) -> SlotId {
        let id = self.engine.id_of(&self.slot(key)).await;
        id.expect("the store answers")
    }

    pub(crate) fn record(&self, id: SlotId) -> Option<Arc<Record>> {
        self.store.record(id)
    }

    pub(crate) fn waiting(&self) -> Waiting {
        waiting(&self.engine)
    }

    /// Lets `span` pass, for clocks and timers.
    pub(crate) fn pass(&self, span: Duration) {
        self.clock.advance(span);
        time::advance(span);
    }

    /// Lets time pass in a task of its own, as far as the next timer each time.
    pub(crate) fn passing(&self) -> Passing {
        let over = Arc::new(AtomicBool::new(false));
        let (world, ended) = (self.clone(), over.clone());
        drop(shuttle::future::spawn(async move {
            while !ended.load(Ordering::Relaxed) {
                world.pass(time::until_next().unwrap_or_default().min(World::LEASE));
                // Says to schedulers with priorities that others should have their turn.
                shuttle::future::yield_now().await;
            }
        }));
        Passing(over)
    }

    /// Whether nobody waits, by any count.
    pub(crate) fn nobody_waits(&self) {
        assert_eq!(
            self.waiting(),
            Waiting::default(),
            "somebody was left behind"
        );
    }
}

fn engine(
    store: &Arc<Judge>,
    clock: &Arc<ManualClock>,
    policy: &Policy,
    limits: &Limits,
    seed: u64,
) -> Engine {
    Engine::builder(store.clone())
        .clock(clock.clone())
        .policy(policy.clone())
        .limits(limits.clone())
        .secret(Secret::from_bytes([7; Secret::LEN]))
        .seed(seed)
        .build()
}

// === impl Work ===

impl Work {
    /// Begins it. Whoever else is at it at the same time is one too many.
    pub(crate) fn begin(&self) -> usize {
        assert_eq!(
            self.0.under_way.fetch_add(1, Ordering::Relaxed),
            0,
            "two at it"
        );
        point();
        self.0.begun.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn end(&self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// How often it was begun.
    pub(crate) fn times(&self) -> usize {
        self.0.begun.load(Ordering::Relaxed)
    }
}

// === impl Passing ===

impl Drop for Passing {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
