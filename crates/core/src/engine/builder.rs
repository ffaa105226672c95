//! Building an engine.

use std::sync::Arc;
use std::time::Duration;

use super::{Engine, Shared};
use crate::clock::{Clock, SystemClock};
use crate::fence::Mint;
use crate::store::Store;
use crate::{Policy, Secret};

/// Builds an [`Engine`]: one method per thing to choose.
///
/// ```
/// use std::sync::Arc;
/// use onceward::{Engine, MemoryStore, Policy, Secret};
///
/// let engine = Engine::builder(Arc::new(MemoryStore::new()))
///     .policy(Policy::default())
///     .secret(Secret::random())
///     .build();
/// ```
#[derive(Debug)]
pub struct Builder {
    store: Arc<dyn Store>,
    policy: Policy,
    limits: Limits,
    clock: Arc<dyn Clock>,
    secret: Option<Secret>,
    seed: Option<u64>,
    #[cfg(any(test, feature = "testing"))]
    host: Option<Arc<dyn crate::testing::Host>>,
}

/// How much an engine takes upon itself, and how long it waits for its store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// How many wait for one slot. Default: 10,000. One more is told that the slot is busy.
    pub waiters_per_slot: usize,
    /// How many of one tenant wait. Default: 10,000.
    pub waiters_per_tenant: usize,
    /// How many wait in all. Default: 20,000.
    pub waiters: usize,
    /// How long a call of the store may take. Default: 5 s.
    pub store_patience: Duration,
    /// How long a caller whose work is done waits for its outcome to be stored. Default: 5 s.
    pub answer_within: Duration,
}

// === impl Builder ===

impl Builder {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            policy: Policy::default(),
            limits: Limits::default(),
            clock: Arc::new(SystemClock),
            secret: None,
            seed: None,
            #[cfg(any(test, feature = "testing"))]
            host: None,
        }
    }

    /// Sets the rules. Default: [`Policy::default`].
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the limits. Default: [`Limits::default`].
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Uses this secret instead of one that the store keeps. Every engine on the store has to be
    /// given the same one.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Uses another clock than the machine's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Mints the same fences for the same seed. For simulations only: two engines with one seed
    /// on one store would take each other's marks for their own.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Lets the engine's tasks live and die with a process of a simulation.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn host(mut self, host: Arc<dyn crate::testing::Host>) -> Self {
        self.host = Some(host);
        self
    }

    /// Returns the engine.
    pub fn build(self) -> Engine {
        let mint = self.seed.map_or_else(Mint::random, Mint::seeded);
        let mut shared = Shared::new(self.store, self.clock, mint, self.limits);
        shared.given = self.secret;
        #[cfg(any(test, feature = "testing"))]
        {
            shared.tasks.host = self.host;
        }
        Engine {
            shared: Arc::new(shared),
            rules: self.policy.into(),
        }
    }
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            waiters_per_slot: 10_000,
            waiters_per_tenant: 10_000,
            waiters: 20_000,
            store_patience: Duration::from_secs(5),
            answer_within: Duration::from_secs(5),
        }
    }
}
