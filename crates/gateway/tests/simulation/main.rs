//! The gateway in a simulated world: its hosts, wires and clocks are a seed's, and nothing else.
//!
//! Built with `--cfg onceward_simulated`, which puts the gateway on the simulated network. Nothing
//! here or in the gateway lets tokio draw lots: what waits for several things looks at them in
//! order. `ONCEWARD_SEED=n` plays one seed and prints what happened.
#![cfg(onceward_simulated)]

mod budget;
mod caller;
mod depot;
mod frayed;
mod gated;
mod judge;
mod nemesis;
mod notes;
mod plan;
mod run;
mod service;
mod wire;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{self, UnwindSafe};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onceward_rig::tally::Tally;
use parking_lot::Mutex;

use crate::budget::Budget;
use crate::run::{Ran, play};

/// The sums of many runs.
#[derive(Debug, Default)]
struct Sums {
    settled: u64,
    unknown: u64,
    replays: u64,
    slowest: Duration,
    simulated: Duration,
    faults: BTreeMap<&'static str, u64>,
    /// Seeds that broke the promise, and how.
    broken: Vec<(u64, Vec<String>)>,
    /// Seeds in which nothing was settled.
    idle: u64,
}

#[test]
fn every_seed_keeps_the_promise() {
    if let Ok(seed) = std::env::var("ONCEWARD_SEED") {
        let seed = seed.parse().expect("ONCEWARD_SEED is a number");
        let ran = played(seed);
        ran.trace.iter().for_each(|line| println!("{line}"));
        assert!(ran.broken.is_empty(), "seed {seed}: {:#?}", ran.broken);
        return;
    }
    let budget = Budget::seconds(75);
    let next = AtomicU64::new(0);
    let sums = Mutex::new(Sums::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while budget.lasts() && sums.lock().broken.len() < 5 {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let ran = played(seed);
                    sums.lock().add(seed, ran);
                }
            });
        }
    });
    let (seeds, sums) = (next.into_inner(), sums.into_inner());
    println!("{seeds} seeds: {sums:#?}");
    let note = format!(
        "{} keys settled, {} unknown, {} replays, {} faults of {} kinds, {} simulated minutes, slowest {} ms",
        sums.settled,
        sums.unknown,
        sums.replays,
        sums.faults.values().sum::<u64>(),
        sums.faults.len(),
        sums.simulated.as_secs() / 60,
        sums.slowest.as_millis(),
    );
    let violations = sums.broken.len() as u64;
    Tally::record(
        "gateway, simulated",
        seeds,
        Some(0..seeds),
        violations,
        &note,
    );
    for (seed, broken) in &sums.broken {
        println!("seed {seed}: {broken:#?}\nreplay it: {}", replay(*seed));
    }
    assert_eq!(violations, 0, "the promise was broken");
    sums.check_floors(seeds);
}

#[test]
fn a_seed_repeats_itself() {
    if std::env::var_os("ONCEWARD_SEED").is_some() {
        return;
    }
    let budget = Budget::seconds(60);
    let mut seeds = 0;
    let most = if Budget::is_long() { 2_000 } else { 200 };
    while budget.lasts() && seeds < most {
        let (first, second) = (played(seeds), played(seeds));
        let differs = first.trace.iter().zip(&second.trace).find(|(a, b)| a != b);
        assert_eq!(
            differs,
            None,
            "seed {seeds} differs; replay it: {}",
            replay(seeds)
        );
        assert_eq!(
            first.trace.len(),
            second.trace.len(),
            "seed {seeds} differs"
        );
        seeds += 1;
    }
    assert!(seeds >= 3, "only {seeds} seeds were tried");
    Tally::record(
        "gateway, simulated twice",
        seeds,
        Some(0..seeds),
        0,
        "traces are equal",
    );
}

#[test]
fn a_panic_of_a_task_that_nobody_waits_for_is_noticed() {
    let ran = watched(|| {
        let mut sim = turmoil::Builder::new().build();
        sim.client("lone", async {
            tokio::spawn(async { panic!("nobody hears this") });
            tokio::task::yield_now().await;
            Ok(())
        });
        sim.run().expect("nothing else is wrong");
        Ran::default()
    });
    let [broken] = &ran.broken[..] else {
        panic!("{:?}", ran.broken);
    };
    assert!(broken.contains("nobody hears this"), "{broken}");
}

/// Plays a seed.
fn played(seed: u64) -> Ran {
    watched(|| play(seed))
}

/// Plays something; a panic breaks the promise, too, also that of a task nobody waits for.
fn watched(play: impl FnOnce() -> Ran + UnwindSafe) -> Ran {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| {
        let told = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            PANICS.with_borrow_mut(|panics| panics.push(format!("panicked: {panic}")));
            told(panic);
        }));
    });
    let ran = panic::catch_unwind(play);
    let mut panics = PANICS.take();
    if ran.is_err() && panics.is_empty() {
        panics.push("panicked, and said nothing".to_owned());
    }
    let mut ran = ran.unwrap_or_default();
    ran.broken.append(&mut panics);
    ran
}

thread_local! {
    /// What panicked on this thread, which plays one seed at a time.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The command that plays a seed.
fn replay(seed: u64) -> String {
    format!(
        "ONCEWARD_SEED={seed} RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/rustc/onceward_simulated \
         cargo --config scripts/proof.toml test --workspace --all-features --test simulation \
         -- --nocapture every_seed"
    )
}

// === impl Sums ===

impl Sums {
    fn add(&mut self, seed: u64, ran: Ran) {
        self.settled += ran.settled;
        self.unknown += ran.unknown;
        self.replays += ran.replays;
        self.slowest = self.slowest.max(ran.slowest);
        self.simulated += ran.simulated;
        self.idle += u64::from(ran.settled == 0);
        for (kind, count) in ran.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        if !ran.broken.is_empty() {
            self.broken.push((seed, ran.broken));
        }
    }

    /// Holds the runs against what makes them worth something.
    fn check_floors(&self, seeds: u64) {
        assert!(seeds >= 20, "only {seeds} seeds were tried");
        assert!(
            self.settled >= 5 * seeds,
            "only {} keys were settled",
            self.settled
        );
        assert!(self.replays >= 4 * seeds, "only {} replays", self.replays);
        assert!(self.unknown > 0, "nothing was ever unknown");
        assert!(
            self.idle * 50 <= seeds,
            "{} seeds settled nothing",
            self.idle
        );
        for kind in KINDS {
            let count = self.faults.get(kind).copied().unwrap_or(0);
            assert!(count >= seeds / 50, "{kind}: only {count} in {seeds} seeds");
        }
    }
}

/// Every kind of fault there is.
const KINDS: [&str; 29] = [
    "caller: duplicates side by side",
    "caller: hangs up while reading",
    "caller: hangs up while sending",
    "caller: loses patience",
    "caller: other payload",
    "caller: resets",
    "crash: gateway",
    "crash: gateway dies",
    "crash: gateway shuts down",
    "crash: upstream",
    "network: hold",
    "network: partition",
    "network: partition one way",
    "store: connection broken",
    "store: cut off",
    "store: error",
    "store: reply late",
    "store: reply lost",
    "store: request late",
    "store: request lost",
    "upstream: 502 or 504",
    "upstream: 503",
    "upstream: answer lost",
    "upstream: answer to a probe lost",
    "upstream: closed",
    "upstream: cut",
    "upstream: late",
    "upstream: reset",
    "upstream: slow",
];
