//! Every single fault at every step, on Redis.

use std::sync::Arc;
use std::time::Duration;

use onceward::testing::ManualClock;
use onceward::{Engine, Store};
use onceward_rig::enumerate::{self, SCENARIOS, Stores};
use onceward_rig::redis::{Options, RedisServer};

use super::aged::Keys;
use super::site;
use crate::aged::AgedStore;
use crate::enumeration::judge;

/// One store for all trials: opening one takes longer than a trial.
struct Redis {
    clock: Arc<ManualClock>,
    store: Arc<AgedStore>,
}

impl Stores for Redis {
    fn store(&self, _: &Arc<ManualClock>) -> Arc<dyn Store> {
        self.store.clear();
        self.store.clone()
    }

    fn clock(&self) -> Arc<ManualClock> {
        self.clock.clone()
    }

    fn is_threaded(&self) -> bool {
        true
    }

    fn reckoning(&self) -> Option<Duration> {
        Some(self.store.slowest())
    }
}

#[test]
fn no_single_fault_breaks_the_promise_on_redis() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let server = runtime.block_on(RedisServer::start(Options::default()));
    let clock = Arc::new(ManualClock::new());
    let store = site::store(&format!("{}?prefix=steps", server.url()));
    let store = AgedStore::new(store, clock.clone(), Keys::of(&server, "steps"));
    let store = Arc::new(store);
    // The first engine on a store writes its secret, and every trial is to make the same calls.
    let engine = Engine::builder(store.clone()).clock(clock.clone()).build();
    let secret = runtime.block_on(engine.secret());
    secret.expect("a new store answers");
    let all = enumerate::enumerate(&Redis { clock, store }, SCENARIOS);
    judge("faults at every step, redis", &all);
    // Its threads may answer sooner than in the run that counted.
    assert!(all.missed * 20 < all.trials, "{} faults missed", all.missed);
}
