//! A world to test in: a clock moved by hand, a store that fails on demand, an engine on both.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::{ExpectVerdict as _, FaultyStore, ManualClock};
use crate::engine::Limits;
use crate::verdict::Verdict;
use crate::{
    Answer, Attempt, Done, Effect, Engine, Fingerprint, Identity, Key, MemoryStore, Policy, Record,
    RunError, Scope, Slot, SlotId,
};

/// One caller of one engine, with everything under it in a test's hands.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use onceward::testing::{ExpectVerdict, World};
///
/// let world = World::new();
/// let claim = world.begin("k1").await.expect_claim();
/// claim.complete("paid").await.unwrap();
/// assert_eq!(world.begin("k1").await.expect_replay(), "paid");
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct World {
    /// The clock of the engine and of the store.
    pub clock: Arc<ManualClock>,
    /// The rules that the engine was built with.
    pub policy: Policy,
    /// The engine.
    pub engine: Engine,
    /// The store under it.
    pub store: Arc<FaultyStore>,
    limits: Limits,
    tenant: &'static str,
    payload: &'static str,
}

// === impl World ===

impl World {
    /// How finely time passes: finer than any timer of the engine.
    const TICK: Duration = Duration::from_millis(5);

    /// Returns a world with default rules on an empty store.
    pub fn new() -> Self {
        let clock = Arc::new(ManualClock::new());
        let memory = MemoryStore::with_clock(clock.clone());
        let store = Arc::new(FaultyStore::new(Arc::new(memory)));
        let (policy, limits) = (Policy::default(), Limits::default());
        Self {
            engine: engine(&store, &clock, &policy, &limits),
            clock,
            policy,
            store,
            limits,
            tenant: "alice",
            payload: "pay 100",
        }
    }

    /// Changes the rules.
    #[must_use]
    pub fn policy(mut self, change: impl FnOnce(Policy) -> Policy) -> Self {
        self.policy = change(self.policy);
        self.engine = self.engine.with_policy(self.policy.clone());
        self
    }

    /// Sets the class of the work.
    #[must_use]
    pub fn effect(self, effect: Effect) -> Self {
        self.policy(|policy| policy.effect(effect))
    }

    /// Changes the limits, on an engine of its own.
    #[must_use]
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self.node()
    }

    /// The same world with another engine: another process on the same store.
    #[must_use]
    pub fn node(&self) -> Self {
        Self {
            engine: engine(&self.store, &self.clock, &self.policy, &self.limits),
            ..self.clone()
        }
    }

    /// The same world with another caller.
    #[must_use]
    pub fn tenant(&self, tenant: &'static str) -> Self {
        Self {
            tenant,
            ..self.clone()
        }
    }

    /// The same world with a caller that sends another payload.
    #[must_use]
    pub fn payload(&self, payload: &'static str) -> Self {
        Self {
            payload,
            ..self.clone()
        }
    }

    /// The slot of `key`.
    pub fn slot(&self, key: &str) -> Slot {
        let key = Key::parse(key).expect("the key of a test is a key");
        Slot::new(Scope::new(self.tenant, "pay"), key)
    }

    /// The fingerprint of what this caller sends.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self.payload.as_bytes())
    }

    /// Arrives under `key`.
    pub async fn begin(&self, key: &str) -> Verdict {
        self.try_begin(key).await.expect("the store answers")
    }

    /// Arrives under `key` while the store may be away.
    pub async fn try_begin(&self, key: &str) -> Result<Verdict, crate::Error> {
        self.engine.begin(&self.slot(key), self.fingerprint()).await
    }

    /// Arrives under `key` with work that bears these identities.
    pub async fn begin_as(&self, key: &str, identities: &[Identity]) -> Verdict {
        let verdict = self.try_begin_as(key, identities).await;
        verdict.expect("the store answers")
    }

    /// Arrives under `key` with work that bears these identities, while the store may be away.
    pub async fn try_begin_as(
        &self,
        key: &str,
        identities: &[Identity],
    ) -> Result<Verdict, crate::Error> {
        let (slot, fingerprint) = (self.slot(key), self.fingerprint());
        let mut arrival = self.engine.prepare(&slot, &fingerprint).await?;
        let secret = self.engine.secret().await?;
        for identity in identities {
            arrival = arrival.under(identity.clone(), secret);
        }
        self.engine.admit(&arrival).await
    }

    /// Arrives under `key`, in a task of its own.
    pub fn arrive(&self, key: &str) -> JoinHandle<Verdict> {
        let (world, key) = (self.clone(), key.to_owned());
        tokio::spawn(async move { world.begin(&key).await })
    }

    /// Claims `key` and completes it.
    pub async fn complete(&self, key: &str, body: &'static str) {
        let claim = self.begin(key).await.expect_claim();
        claim.complete(body).await.expect("the store answers");
    }

    /// Runs `work` under `key`.
    pub async fn run<W, F>(&self, key: &str, work: W) -> Result<Answer, RunError>
    where
        W: FnOnce(Attempt) -> F + Send + 'static,
        F: Future<Output = Done> + Send + 'static,
    {
        let slot = self.slot(key);
        self.engine.run(&slot, self.fingerprint(), work).await
    }

    /// The name under which the store files `key`.
    pub async fn id(&self, key: &str) -> SlotId {
        let id = self.engine.id_of(&self.slot(key)).await;
        id.expect("the store answers")
    }

    /// The record under `key`, if there is one.
    pub async fn record(&self, key: &str) -> Option<Arc<Record>> {
        let found = self.engine.inspect(self.id(key).await).await;
        found.expect("the store answers").map(|found| found.record)
    }

    /// Lets `span` pass for everybody: the clock and the timers, tick by tick, with every task
    /// running as far as it can. The runtime's time has to be paused.
    pub async fn pass(&self, span: Duration) {
        let mut left = span;
        while !left.is_zero() {
            let tick = left.min(Self::TICK);
            self.clock.advance(tick);
            tokio::time::sleep(tick).await;
            left -= tick;
        }
    }

    /// Lets every task run as far as it can without time passing.
    pub async fn settle(&self) {
        // With paused time a timer fires only once nothing else can run.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

fn engine(
    store: &Arc<FaultyStore>,
    clock: &Arc<ManualClock>,
    policy: &Policy,
    limits: &Limits,
) -> Engine {
    Engine::builder(store.clone())
        .clock(clock.clone())
        .policy(policy.clone())
        .limits(limits.clone())
        .build()
}
