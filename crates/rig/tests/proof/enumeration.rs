//! Every single fault at every step, on every store that runs in this process, and on the memory
//! store as many pairs of faults as there is time for: all of them in the long form.

use std::sync::Arc;
use std::time::Duration;

use onceward::testing::ManualClock;
use onceward::{Engine, MemoryStore, Store};
use onceward_rig::enumerate::{self, Enumeration, Mode, Plans, SCENARIOS, Stores};
use onceward_rig::tally::Tally;
use onceward_stores::embedded::EmbeddedStore;
use tokio::runtime::Runtime;

use crate::aged::{AgedStore, BackDoor};
use crate::budget::Budget;

/// What orders the pairs, and draws the triples.
const SEED: u64 = 7;

/// How many of a hundred runs of each scenario have to end as without a fault.
const ANSWERED: u64 = 50;

/// One store on a server for all trials: opening one takes longer than a trial.
struct Served {
    clock: Arc<ManualClock>,
    store: Arc<AgedStore>,
}

impl Stores for Served {
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
    let all = enumerate::enumerate(&Memory, SCENARIOS);
    judge("faults at every step, memory", &all);
    assert_eq!(all.missed, 0, "every planned fault strikes");
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
    let store: Arc<dyn Store> = Arc::new(store);
    // The first engine on a store writes its secret, and every trial is to make the same calls.
    let engine = Engine::builder(store.clone()).clock(clock.clone()).build();
    let runtime = Runtime::new().expect("a runtime starts");
    runtime
        .block_on(engine.secret())
        .expect("a new store answers");
    let embedded = Embedded { clock, store };
    let all = enumerate::enumerate(&embedded, SCENARIOS);
    judge("faults at every step, embedded", &all);
    // Its threads may answer sooner than in the run that counted.
    assert!(all.missed * 20 < all.trials, "{} faults missed", all.missed);
}

#[test]
fn no_two_faults_break_the_promise_on_the_memory_store() {
    let mut singles = Enumeration::default();
    let mut plans = Plans::pairs(&Memory, SCENARIOS, SEED, &mut singles);
    assert_eq!(singles.wrong.first(), None, "with one fault");
    assert_eq!(singles.missed, 0, "every planned fault strikes");

    let budget = Budget::seconds(100);
    let pairs = plans.run(&Memory, ANSWERED, &|| budget.lasts());
    let (ran, planned) = (pairs.trials, plans.len() as u64);
    let share = match ran < planned {
        true => format!(
            "as many pairs of faults as there is time for, {:.1} % of {planned}",
            ran as f64 / planned as f64 * 100.0
        ),
        false => format!("all {planned} pairs of faults"),
    };
    let how = format!(
        "{share}; {} scenarios, 7 modes and every await",
        SCENARIOS.len()
    );
    judge_several("pairs of faults, memory", &pairs, &how);
    assert!(!Budget::is_long() || ran == planned, "not all: {how}");
    assert!(plans.len() >= 50_000, "only {} pairs", plans.len());
    assert!(pairs.trials >= 10_000, "only {} trials", pairs.trials);

    let budget = Budget::seconds(6);
    let triples = plans.triples(&Memory, &|| budget.lasts());
    judge_several("triples of faults, memory", &triples, "drawn by lot");
    assert!(triples.trials >= 500, "only {} trials", triples.trials);
}

fn judge_several(proof: &str, all: &Enumeration, how: &str) {
    let note = format!(
        "{how}; {} of {} end as without a fault, {} faults missed",
        all.answered, all.trials, all.missed
    );
    println!("{proof}: {} trials; {note}", all.trials);
    let wrong = all.wrong.len() as u64;
    Tally::record(proof, all.trials, Some(SEED..SEED + 1), wrong, &note);
    if let Some(first) = all.wrong.first() {
        panic!("{wrong} of {} trials, the first: {first}", all.trials);
    }
    assert_eq!(all.missed, 0, "every planned fault strikes");
}

fn judge(proof: &str, all: &Enumeration) {
    assert!(SCENARIOS.len() >= 28 && Mode::ALL.len() == 7);
    let note = format!(
        "{} scenarios, 7 modes, every await; {} of {} trials end as without a fault, {} faults missed",
        SCENARIOS.len(),
        all.answered,
        all.trials,
        all.missed
    );
    Tally::record(proof, all.trials, None, all.wrong.len() as u64, &note);
    if let Some(wrong) = all.wrong.first() {
        panic!(
            "{} of {} trials, the first: {wrong}",
            all.wrong.len(),
            all.trials
        );
    }
    assert!(all.trials >= 1_300, "only {} trials", all.trials);
}

/// Judges every single fault at every step on a store that is on a server.
pub(crate) fn judge_served<D: BackDoor>(
    proof: &str,
    store: Arc<dyn Store>,
    door: impl Future<Output = D>,
) {
    let clock = Arc::new(ManualClock::new());
    let store = Arc::new(AgedStore::new(store, clock.clone(), door));
    // The first engine on a store writes its secret, and every trial is to make the same calls.
    let engine = Engine::builder(store.clone()).clock(clock.clone()).build();
    let runtime = Runtime::new().expect("a runtime starts");
    let secret = runtime.block_on(engine.secret());
    secret.expect("a new store answers");
    let all = enumerate::enumerate(&Served { clock, store }, SCENARIOS);
    judge(proof, &all);
    // Its threads may answer sooner than in the run that counted.
    assert!(all.missed * 20 < all.trials, "{} faults missed", all.missed);
}
