//! Two nodes under a seed, with either side slow, away, emptied or restored from before.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use onceward_rig::hybrid::{self, Counts};
use onceward_rig::tally::Tally;

use crate::budget::Budget;

/// Names one seed to replay, instead of all those there is time for.
const SEED_VAR: &str = "ONCEWARD_SEED";

/// How many seeds there are. The long form goes on for as long as it has time.
const SEEDS: u64 = 5_000;

/// How many seeds are run twice.
const TWICE: u64 = 200;

#[derive(Default)]
struct Sums {
    counts: Counts,
    wrong: Vec<(u64, String)>,
}

#[test]
fn no_seed_gives_a_stale_or_foreign_answer() {
    if let Ok(seed) = std::env::var(SEED_VAR) {
        let seed = seed.parse().expect("a seed is a number");
        let outcome = hybrid::run(seed);
        assert!(outcome.wrong.is_empty(), "{outcome:#?}");
        return;
    }
    let (budget, next) = (Budget::seconds(15), AtomicU64::new(0));
    let sums = Mutex::new(Sums::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= SEEDS && !(Budget::is_long() && budget.lasts()) {
                        break;
                    }
                    sums.lock().unwrap().add(seed, &hybrid::run(seed));
                }
            });
        }
    });
    let seeds = next.into_inner() - 2;
    let Sums { counts, wrong } = sums.into_inner().unwrap();
    let note = format!(
        "{} replays, {} of them with the database away; {} answers lost, {} found out; {} taken \
         away; the cache emptied or restored {} times",
        counts.replays,
        counts.cached,
        counts.lost,
        counts.found_lost,
        counts.taken_away,
        counts.restored
    );
    let proof = "hybrid: two nodes under a seed";
    Tally::record(proof, seeds, Some(0..seeds), wrong.len() as u64, &note);
    println!("{seeds} seeds, {} executions, {note}", counts.executions);
    assert!(wrong.is_empty(), "{:#?}", &wrong[..wrong.len().min(20)]);
    // A run in which nothing happens proves nothing.
    for (what, count) in [
        ("replays", counts.replays),
        ("cached", counts.cached),
        ("mismatches", counts.mismatches),
        ("lost", counts.lost),
        ("found lost", counts.found_lost),
        ("taken away", counts.taken_away),
        ("restored", counts.restored),
    ] {
        assert!(count > seeds / 20, "{what} only {count} times");
    }
}

#[test]
fn the_same_seed_is_the_same_story() {
    for seed in 0..TWICE {
        let (one, two) = (hybrid::run(seed), hybrid::run(seed));
        assert_eq!(format!("{one:?}"), format!("{two:?}"), "seed {seed}");
    }
}

// === impl Sums ===

impl Sums {
    fn add(&mut self, seed: u64, outcome: &hybrid::Outcome) {
        let (sum, more) = (&mut self.counts, &outcome.counts);
        sum.executions += more.executions;
        sum.replays += more.replays;
        sum.cached += more.cached;
        sum.mismatches += more.mismatches;
        sum.taken_away += more.taken_away;
        sum.lost += more.lost;
        sum.found_lost += more.found_lost;
        sum.restored += more.restored;
        let wrong = outcome.wrong.iter().map(|what| (seed, what.clone()));
        self.wrong.extend(wrong);
    }
}
