//! Exploring: one scenario under many schedules, and what they led to.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use onceward::sync::time;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};

use crate::tally;

/// What schedules led to, counted by name.
#[derive(Clone, Default)]
pub(crate) struct Marks(Arc<Mutex<BTreeMap<&'static str, u64>>>);

/// How many schedules were tried, for those who look for the one that broke something.
#[derive(Default)]
struct Tried(Arc<AtomicUsize>);

/// A span of real time to fill with trials.
struct Budget {
    start: Instant,
    span: Duration,
}

/// How many schedules one seed stands for.
const BATCH: usize = 250;

/// The fewest schedules that show anything: a batch of every kind.
const FLOOR: usize = 1_000;

/// How many priorities change within a schedule of the kind that has priorities.
const DEPTHS: [usize; 2] = [2, 4];

/// Runs `scenario` under schedules for about `seconds`, or a hundred times that in the long form.
///
/// A schedule that breaks something, or in which everybody waits for somebody, is written to a
/// file; `ONCEWARD_SCHEDULE` names such a file to have it once more. Each of `expected` has to
/// come about in some schedule: a scenario that nothing happens in shows nothing.
pub(crate) fn explore(
    proof: &str,
    seconds: u64,
    expected: &[&'static str],
    scenario: impl Fn(&Marks) + Send + Sync + 'static,
) {
    let scenario = Arc::new(scenario);
    let (marks, tried) = (Marks::default(), Tried::default());
    let run = {
        let (marks, tried) = (marks.clone(), tried.0.clone());
        move || {
            tried.fetch_add(1, Ordering::Relaxed);
            time::start();
            scenario(&marks);
        }
    };
    if let Ok(file) = std::env::var("ONCEWARD_SCHEDULE") {
        shuttle::replay_from_file(run, file);
        return;
    }
    let first = std::env::var("ONCEWARD_SEED").map_or(0, |seed| {
        seed.parse().expect("ONCEWARD_SEED is a whole number")
    });
    let (mut seed, mut trials) = (first, 0);
    let budget = Budget::seconds(seconds);
    // However slow the machine is.
    while budget.lasts() || trials < FLOOR {
        trials += try_some(seed, run.clone());
        seed += 1;
    }
    let mut note = String::new();
    let marks = marks.0.lock().expect("no schedule panicked");
    for name in expected {
        let times = marks.get(name).copied().unwrap_or(0);
        assert!(times > 0, "{proof}: never {name} in {trials} schedules");
        let between = if note.is_empty() { "" } else { ", " };
        write!(note, "{between}{name} {times}").expect("a text takes more text");
    }
    println!("{proof}: {trials} schedules by seeds {first}..{seed}: {note}");
    tally::record(proof, trials, Some(first..seed), &note);
}

/// Runs the schedules that `seed` stands for: half of the seeds choose at random, the others by
/// random priorities.
fn try_some(seed: u64, run: impl Fn() + Send + Sync + 'static) -> usize {
    let config = config();
    match seed % 4 {
        kind @ (0 | 1) => {
            let depth = DEPTHS[kind as usize];
            let scheduler = PctScheduler::new_from_seed(seed, depth, BATCH);
            Runner::new(scheduler, config).run(run)
        }
        _ => {
            let scheduler = RandomScheduler::new_from_seed(seed, BATCH);
            Runner::new(scheduler, config).run(run)
        }
    }
}

/// How schedules run. The first in a process decides where those that broke something go.
pub(crate) fn config() -> Config {
    let mut config = Config::new();
    config.silence_warnings = true;
    config.stack_size = 0x10_0000;
    config.failure_persistence = FailurePersistence::File(Some(env!("CARGO_TARGET_TMPDIR").into()));
    config
}

// === impl Tried ===

impl Drop for Tried {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let tried = self.0.load(Ordering::Relaxed);
            eprintln!("broken by schedule {tried}; once more, with the file named above:");
            eprintln!("ONCEWARD_SCHEDULE=FILE scripts/schedules TEST");
        }
    }
}

// === impl Budget ===

#[expect(
    clippy::disallowed_methods,
    reason = "how long a proof goes on is real time, whatever it proves"
)]
impl Budget {
    fn seconds(seconds: u64) -> Self {
        let long = std::env::var("ONCEWARD_PROOF").is_ok_and(|form| form == "long");
        Self {
            start: Instant::now(),
            span: Duration::from_secs(if long { seconds * 100 } else { seconds }),
        }
    }

    fn lasts(&self) -> bool {
        self.start.elapsed() < self.span
    }
}

// === impl Marks ===

impl Marks {
    /// Notes that this came about.
    pub(crate) fn hit(&self, name: &'static str) {
        *self
            .0
            .lock()
            .expect("no schedule panicked")
            .entry(name)
            .or_default() += 1;
    }

    /// Notes that this came about, if it did.
    pub(crate) fn hit_if(&self, name: &'static str, is_so: bool) {
        if is_so {
            self.hit(name);
        }
    }
}
