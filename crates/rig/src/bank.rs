//! The bug bank: mistakes made on purpose, and the proofs that have to notice them.
//!
//! A proof that finds nothing may be blind. So each mistake of [`Bug`] is made in turn, and the
//! layer of the proof that is meant for it has to say what is wrong, for the right reason and
//! soon. Without the mistake the same layer has to be silent.
//!
//! A [`Layer`] is one function from the number of a trial to what was wrong with it; a mistake is
//! one line of [`entries`].

use std::any::Any;
use std::fmt::Write as _;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::time::Duration;

use onceward::bugs::{self, Bug};
use onceward::clock::{Clock as _, SystemClock};
use tempfile::TempDir;

mod contract;
mod damage;
mod faults;
mod hybrid;
mod list;
mod postgres;
mod proxied;
mod redis;
mod rules;
mod seeds;
mod shop;
mod walk;

pub use list::{
    DAMAGE, EMBEDDED, FAULTS, GATEWAY, HYBRID, MEMORY, POSTGRES, REDIS, RULES, SHOP, SIMULATION,
    WALKS, entries,
};

/// A layer of the proof.
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    /// What it does, in a few words.
    pub name: &'static str,
    /// Makes the trial of this number, and returns what was wrong. A panic says it as well.
    pub trial: fn(u64) -> Option<String>,
    /// How many trials it takes to see everything that the layer looks at.
    pub round: fn() -> u64,
}

/// A mistake, and who has to notice it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The mistake.
    pub bug: Bug,
    /// The layer that is meant to notice it.
    pub layer: Layer,
    /// What it has to say, among other things.
    pub reason: &'static str,
}

/// What became of a mistake.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which, and by whom it was to be noticed.
    pub entry: Entry,
    /// How many trials were made with it.
    pub trials: u64,
    /// How long they took.
    pub took: Duration,
    /// What was said.
    pub said: Result<String, Missed>,
}

/// What a layer said without any mistake: how much it tried, or what was wrong.
pub type Clean = (&'static str, Result<Round, String>);

/// A round of trials.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// How many there were.
    pub trials: u64,
    /// How long they took.
    pub took: Duration,
}

/// Why a mistake does not count as caught.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Missed {
    /// Nobody said anything.
    #[error("nobody noticed")]
    Silent,
    /// Something was said, and not what it should be.
    #[error("noticed for another reason: {0}")]
    Otherwise(String),
    /// The same trial is wrong without the mistake.
    #[error("wrong without it as well: {0}")]
    Always(String),
}

/// How long a layer may take to notice a mistake.
pub const LIMIT: Duration = Duration::from_secs(15);

// === impl Layer ===

impl Layer {
    /// Makes a trial; a panic says what was wrong as well.
    fn tried(&self, number: u64) -> Option<String> {
        match panic::catch_unwind(AssertUnwindSafe(|| (self.trial)(number))) {
            Ok(wrong) => wrong,
            Err(panicked) => Some(words(&*panicked)),
        }
    }

    /// Makes a whole round without any mistake. Returns what was wrong with the first trial that
    /// was not clean, if one was not.
    pub fn clean(&self) -> Result<Round, String> {
        bugs::seed(None);
        let began = SystemClock.stopwatch();
        let trials = (self.round)();
        for number in 0..trials {
            if let Some(wrong) = self.tried(number) {
                return Err(format!("{}, trial {number}: {wrong}", self.name));
            }
        }
        let took = SystemClock.stopwatch().saturating_sub(began);
        Ok(Round { trials, took })
    }
}

// === impl Entry ===

impl Entry {
    /// Makes the mistake until its layer says the right thing, or `limit` is over. Then the same
    /// trial is made without it.
    pub fn run(self, limit: Duration) -> Outcome {
        let began = SystemClock.stopwatch();
        let took = || SystemClock.stopwatch().saturating_sub(began);
        let mut said = Err(Missed::Silent);
        let mut trials = 0;
        while said.is_err() && took() < limit {
            bugs::seed(Some(self.bug));
            let wrong = self.layer.tried(trials);
            bugs::seed(None);
            trials += 1;
            match wrong {
                Some(wrong) if wrong.contains(self.reason) => said = Ok(wrong),
                Some(wrong) => said = Err(Missed::Otherwise(wrong)),
                None => {}
            }
        }
        let took = took();
        if said.is_ok()
            && let Some(wrong) = self.layer.tried(trials - 1)
        {
            said = Err(Missed::Always(wrong));
        }
        Outcome {
            entry: self,
            trials,
            took,
            said,
        }
    }
}

// === impl Outcome ===

impl Outcome {
    /// Which mistake was missed, and why; `None` if it was caught.
    pub fn missed(&self) -> Option<String> {
        let missed = self.said.as_ref().err()?;
        Some(format!("{:?}: {missed}", self.entry.bug))
    }

    /// What was said, on one line: the part of it with the reason.
    fn line(&self) -> String {
        let reason = self.entry.reason;
        match &self.said {
            Ok(said) => {
                let lines = said.lines().map(str::trim);
                let line = { lines }.find(|line| line.contains(reason));
                line.unwrap_or(reason).to_owned()
            }
            Err(missed) => {
                let text = missed.to_string();
                format!("MISSED: {}", text.lines().next().unwrap_or_default())
            }
        }
    }
}

/// The table of a run: what each layer took without a mistake; then mistake, layer, trials until
/// it was caught, and what was said.
pub fn table(clean: &[Clean], outcomes: &[Outcome]) -> String {
    const SAID_MAX: usize = 100;
    let mut table = String::new();
    for (name, clean) in clean {
        let (trials, said) = match clean {
            Ok(round) => (
                round.trials,
                format!("{} ms  clean", round.took.as_millis()),
            ),
            Err(wrong) => (
                0,
                format!("WRONG: {}", wrong.lines().next().unwrap_or_default()),
            ),
        };
        let written = writeln!(table, "{:<26} {name:<22} {trials:>5} {said}", "(none)");
        written.expect("a String takes whatever is written to it");
    }
    for outcome in outcomes {
        let Entry { bug, layer, .. } = outcome.entry;
        let mut said = outcome.line();
        said.truncate(said.floor_char_boundary(SAID_MAX));
        let (name, millis) = (bug.name(), outcome.took.as_millis());
        let trials = outcome.trials;
        let layer = layer.name;
        let written = writeln!(
            table,
            "{name:<26} {layer:<22} {trials:>5} {millis:>6} ms  {said}"
        );
        written.expect("a String takes whatever is written to it");
    }
    table
}

/// What a panic said.
fn words(panicked: &(dyn Any + Send)) -> String {
    let owned = panicked.downcast_ref::<String>().cloned();
    let text = owned.or_else(|| panicked.downcast_ref::<&str>().map(|&text| text.to_owned()));
    text.unwrap_or_else(|| "a panic without words".to_owned())
}

/// A runtime whose time runs on when nothing else can.
fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime starts")
}

/// A folder in memory, where there is such a place: what does not depend on the disk need not be
/// on one.
fn scratch() -> TempDir {
    let made = match Path::new("/dev/shm").is_dir() {
        true => tempfile::tempdir_in("/dev/shm"),
        false => tempfile::tempdir(),
    };
    made.expect("a folder can be made")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at a mistake that nothing in this process can make meanwhile.
    fn run(trial: fn(u64) -> Option<String>) -> Outcome {
        let layer = Layer {
            name: "test",
            trial,
            round: || 3,
        };
        let entry = Entry {
            bug: Bug::ProbeUnfenced,
            layer,
            reason: "two effects",
        };
        entry.run(Duration::from_millis(20))
    }

    fn is_seeded() -> bool {
        bugs::seeded(Bug::ProbeUnfenced)
    }

    /// One after the other: what is chosen is chosen for the whole process.
    #[test]
    fn only_the_right_words_about_a_mistake_count() {
        let caught = run(|number| (is_seeded() && number == 2).then(|| "two effects".into()));
        assert_eq!((caught.trials, caught.missed()), (3, None));
        let panicked = run(|_| is_seeded().then(|| panic!("there are two effects")));
        assert_eq!((panicked.trials, panicked.missed()), (1, None));
        let other = run(|_| is_seeded().then(|| "no answer".into()));
        assert_eq!(other.said, Err(Missed::Otherwise("no answer".into())));
        let blind = run(|_| None);
        assert_eq!(blind.said, Err(Missed::Silent));
        let always = run(|_| Some("two effects".into()));
        assert!(matches!(always.said, Err(Missed::Always(_))));
        assert!(!is_seeded());
    }
}
