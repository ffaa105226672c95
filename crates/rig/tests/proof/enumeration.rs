//! Every single fault at every step, on every store that runs in this process.

use std::sync::Arc;

use onceward::testing::ManualClock;
use onceward::{MemoryStore, Store};
use onceward_rig::enumerate::{self, Enumeration, Mode, SCENARIOS, Stores};
use onceward_rig::tally::Tally;
use onceward_stores::embedded::EmbeddedStore;

/// A fresh store for each trial.
struct Memory;

impl Stores for Memory {
    fn store(&self, clock: &Arc<ManualClock>) -> Arc<dyn Store> {
        Arc::new(MemoryStore::with_clock(clock.clone()))
    }

    fn clock(&self) -> Arc<ManualClock> {
        Arc::new(ManualClock::new())
    }

    fn is_threaded(&self) -> bool {
        false
    }
}

/// One store for all trials: opening one takes longer than a trial.
struct Embedded {
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
}

impl Stores for Embedded {
    fn store(&self, _: &Arc<ManualClock>) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn clock(&self) -> Arc<ManualClock> {
        self.clock.clone()
    }

    fn is_threaded(&self) -> bool {
        true
    }
}

#[test]
fn no_single_fault_breaks_the_promise_on_the_memory_store() {
    judge(
        "faults at every step, memory",
        &enumerate::enumerate(&Memory),
    );
}

#[test]
fn no_single_fault_breaks_the_promise_on_the_embedded_store() {
    let folder = tempfile::tempdir().expect("a folder for the store");
    let clock = Arc::new(ManualClock::new());
    let store = EmbeddedStore::at(folder.path().join("store"))
        .sync(false) // what is proved here does not depend on the disk
        .clock(clock.clone())
        .open()
        .expect("a new store opens");
    let embedded = Embedded {
        clock,
        store: Arc::new(store),
    };
    judge(
        "faults at every step, embedded",
        &enumerate::enumerate(&embedded),
    );
}

fn judge(proof: &str, all: &Enumeration) {
    assert!(SCENARIOS.len() >= 16 && Mode::ALL.len() == 7);
    let note = format!("{} scenarios, 7 modes, every await", SCENARIOS.len());
    Tally::record(proof, all.trials, None, all.wrong.len() as u64, &note);
    if let Some(wrong) = all.wrong.first() {
        panic!(
            "{} of {} trials, the first: {wrong}",
            all.wrong.len(),
            all.trials
        );
    }
    assert!(all.trials >= 1_000, "only {} trials", all.trials);
}
