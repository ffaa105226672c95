//! Two nodes on one server: what `tests/postgres` and `tests/redis` share.

use std::sync::Arc;
use std::time::Duration;

use onceward::testing::ExpectVerdict as _;
use onceward::{
    Claim, Effect, Engine, Fingerprint, Key, OnBusy, Policy, Scope, Slot, Store, Verdict,
};

use crate::shared::{Place, open, place};

/// How long a claim lives that is to lapse in a test.
const LEASE: Duration = Duration::from_millis(600);

/// How long a test waits for what has to come about.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Two nodes, each with a store and an engine of its own, in one place that nobody else uses.
pub(crate) struct Nodes {
    pub(crate) a: Engine,
    pub(crate) b: Engine,
    pub(crate) url: String,
    // Goes last: the stores are closed by then.
    _place: Option<Place>,
}

// === impl Nodes ===

impl Nodes {
    pub(crate) async fn new(effect: Effect) -> Self {
        let (url, place) = place().await;
        let nodes = Self::at(&url, effect);
        Self {
            _place: Some(place),
            ..nodes
        }
    }

    /// Two nodes in the place of `url`.
    pub(crate) fn at(url: &str, effect: Effect) -> Self {
        let policy = Policy::default()
            .effect(effect)
            .lease(LEASE)
            .on_busy(OnBusy::Wait(PATIENCE));
        let node = || Engine::builder(shared(url)).policy(policy.clone()).build();
        Self {
            a: node(),
            b: node(),
            url: url.to_owned(),
            _place: None,
        }
    }

    /// Returns the claim of a third node, which dies with it: nobody renews it.
    pub(crate) async fn claim_of_the_dead(&self, key: &str) -> Claim {
        let node = self.a.policy().clone();
        let engine = Engine::builder(shared(&self.url)).policy(node).build();
        let doomed = tokio::runtime::Runtime::new().unwrap();
        let key = key.to_owned();
        let claim = doomed.spawn(async move { begin(&engine, &key).await.expect_claim() });
        let claim = claim.await.unwrap();
        doomed.shutdown_background();
        claim
    }

    /// Waits until a record came due, by the store's own clock.
    pub(crate) async fn until_due(&self, slot: &Slot) {
        let id = self.a.id_of(slot).await.unwrap();
        loop {
            let found = self.a.inspect(id).await.unwrap().expect("it is there");
            if found.record.due() < found.now {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A store on `url`, for engines.
fn shared(url: &str) -> Arc<dyn Store> {
    Arc::new(open(url))
}

/// The slot of a key.
pub(crate) fn slot(key: &str) -> Slot {
    Slot::new(Scope::new("shop", "pay"), Key::parse(key).unwrap())
}

/// What every caller sends.
pub(crate) fn payload() -> Fingerprint {
    Fingerprint::of(b"100")
}

/// The verdict on a newcomer.
pub(crate) async fn begin(engine: &Engine, key: &str) -> Verdict {
    engine.begin(&slot(key), payload()).await.unwrap()
}
