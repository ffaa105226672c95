//! Every single fault at every step, on PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use onceward::testing::ManualClock;
use onceward::{Engine, Store};
use onceward_rig::enumerate::{self, SCENARIOS, Stores};
use onceward_rig::postgres::scratch;

use super::aged::Table;
use super::site;
use crate::aged::AgedStore;
use crate::enumeration::judge;

/// One store for all trials: opening one takes longer than a trial.
struct Postgres {
    clock: Arc<ManualClock>,
    store: Arc<AgedStore>,
}

impl Stores for Postgres {
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
fn no_single_fault_breaks_the_promise_on_postgres() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let (url, scratch) = runtime.block_on(scratch());
    let clock = Arc::new(ManualClock::new());
    let store = AgedStore::new(site::store(&url), clock.clone(), Table::of(&scratch));
    let store = Arc::new(store);
    // The first engine on a store writes its secret, and every trial is to make the same calls.
    let engine = Engine::builder(store.clone()).clock(clock.clone()).build();
    let secret = runtime.block_on(engine.secret());
    secret.expect("a new store answers");
    let all = enumerate::enumerate(&Postgres { clock, store }, SCENARIOS);
    judge("faults at every step, postgres", &all);
    // Its threads may answer sooner than in the run that counted.
    assert!(all.missed * 20 < all.trials, "{} faults missed", all.missed);
}
