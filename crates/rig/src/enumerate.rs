//! Every fault at every step: the enumeration of single faults.
//!
//! A scenario is run once without a fault, to count its store calls and the awaits of its
//! caller. Then it is run again for each of them and each way to fail there. Afterwards the
//! process is gone, a new one retries every key, and the judge reads the whole history.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use onceward::testing::ManualClock;
use onceward::{Effect, Engine, Store};

use crate::history::{self, Judgement};
use crate::lab::Lab;

mod faulty;
mod scenarios;

use faulty::FaultyStore;
pub use faulty::Mode;
pub use scenarios::SCENARIOS;

/// A short piece of protocol, as the process under test lives it.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// What happens in it, in a few words.
    pub name: &'static str,
    /// The class that its work is declared to have.
    pub effect: Effect,
    /// The class of the service behind.
    pub service: Effect,
    /// The keys it uses, which a new process retries afterwards, and how those retries end when
    /// there was no fault.
    pub keys: &'static [(&'static str, End)],
    run: fn(Arc<Stage>) -> Scene,
}

/// How a key ends without a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// With an answer, and it was never in doubt.
    Answered,
    /// With an answer, though its outcome was unknown on the way.
    Settled,
    /// Unknown, and so it stays until somebody settles it.
    Unknown,
}

type Scene = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a scenario has to work with.
#[derive(Debug)]
pub struct Stage {
    lab: Arc<Lab>,
    /// The process under test, whose store fails once.
    first: Engine,
    /// Another process, whose store does not.
    second: Engine,
}

/// Where one fault strikes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Nowhere: the run that counts.
    Nowhere,
    /// At this store call, counted from 0.
    Call(u64, Mode),
    /// At this await of the caller, counted from 0: its future is dropped.
    Await(u64),
}

/// What one run of a scenario came to.
#[derive(Debug)]
pub struct Trial {
    /// How many store calls the process under test made.
    pub calls: u64,
    /// How often the caller's future was polled.
    pub polls: u64,
    /// Whether the fault that was planned did strike.
    pub struck: bool,
    /// Whether every key has an answer that has one without a fault.
    pub answered: bool,
    /// What is wrong with it, in the judge's words.
    pub wrong: Option<String>,
}

/// What all trials of a store came to.
#[derive(Debug, Default)]
pub struct Enumeration {
    /// How many runs there were.
    pub trials: u64,
    /// How many of them ended with every answer that there is without a fault.
    pub answered: u64,
    /// How many had a fault planned for a place that they did not come to: none, unless the
    /// store's threads make some runs shorter than the one that counted.
    pub missed: u64,
    /// What went wrong, with the scenario and the place.
    pub wrong: Vec<String>,
}

/// Stores for trials: all of them may be one, since every trial has a tenant of its own.
pub trait Stores {
    /// Returns a store that uses `clock`.
    fn store(&self, clock: &Arc<ManualClock>) -> Arc<dyn Store>;

    /// The clock for the next trial.
    fn clock(&self) -> Arc<ManualClock>;

    /// Whether the store answers from another thread, so that time must wait for it.
    fn is_threaded(&self) -> bool;
}

/// Runs each of `scenarios` with every single fault.
///
/// A system that answers nothing breaks no promise either, so at least half of the trials of
/// each scenario have to end as they do without a fault. Those whose caller was dropped do not
/// count: nobody goes on with its work.
pub fn enumerate(stores: &dyn Stores, scenarios: &[Scenario]) -> Enumeration {
    let mut all = Enumeration::default();
    for scenario in scenarios {
        let before = (all.trials, all.answered);
        let counted = all.run(stores, scenario, Place::Nowhere);
        for call in 0..counted.calls {
            for mode in Mode::ALL {
                all.run(stores, scenario, Place::Call(call, mode));
            }
        }
        let (trials, answered) = (all.trials - before.0, all.answered - before.1);
        if answered * 2 < trials {
            let name = scenario.name;
            all.wrong
                .push(format!("{name}: only {answered} of {trials} are answered"));
        }
        for poll in 0..counted.polls {
            all.run(stores, scenario, Place::Await(poll));
        }
    }
    all
}

// === impl Scenario ===

impl Scenario {
    /// What is not as expected, where there was no fault: `answered` has for each key whether it
    /// has an answer.
    fn unexpected(&self, answered: &[bool]) -> Option<String> {
        let mut ends = self.keys.iter().zip(answered);
        let ((key, end), _) = ends.find(|((_, end), got)| **got == (*end == End::Unknown))?;
        Some(format!("{key} does not end as {end:?}"))
    }
}

// === impl Enumeration ===

impl Enumeration {
    fn run(&mut self, stores: &dyn Stores, scenario: &Scenario, place: Place) -> Trial {
        let trial = trial(stores, scenario, place, self.trials);
        self.trials += 1;
        self.answered += u64::from(trial.answered);
        self.missed += u64::from(!trial.struck);
        if let Some(wrong) = &trial.wrong {
            let name = scenario.name;
            self.wrong
                .push(format!("{name}, fault at {place:?}: {wrong}"));
        }
        trial
    }
}

/// Runs one scenario with one fault, lets a new process retry, and asks the judge.
pub fn trial(stores: &dyn Stores, scenario: &Scenario, place: Place, number: u64) -> Trial {
    let clock = stores.clock();
    let store = stores.store(&clock);
    let tenant = format!("tenant-{number}");
    let lab = Lab::new(store, clock, (scenario.effect, scenario.service), &tenant);
    let faulty = Arc::new(FaultyStore::new(&lab, 1, place, stores.is_threaded()));

    let first_process = runtime();
    let (polls, dropped) = first_process.block_on(act(scenario, &lab, faulty.clone(), place));
    // The process ends here, with whatever it had under way.
    drop(first_process);

    // A new process comes when every lease has lapsed, and retries what the first one did.
    lab.clock.advance(2 * Lab::LEASE);
    let (retried, mut history) = runtime().block_on(async {
        let store = FaultyStore::new(&lab, 1, Place::Nowhere, stores.is_threaded());
        let engine = lab.engine(Arc::new(store));
        let retries = retry(&lab, &engine, scenario.keys);
        let within = tokio::time::timeout(Duration::from_secs(600), retries);
        let late = |_| Err("a retry after the fault is not answered".to_owned());
        (within.await.unwrap_or_else(late), lab.history().await)
    });
    let calm = scenario.keys.iter().all(|(_, end)| *end == End::Answered);
    history.expectations.fault_free = place == Place::Nowhere && calm;
    let answered = retried.as_ref().is_ok_and(|got| {
        let mut ends = scenario.keys.iter().zip(got);
        ends.all(|((_, end), got)| *got || *end == End::Unknown)
    });
    let struck = match place {
        Place::Nowhere => true,
        Place::Call(..) => faulty.has_struck(),
        Place::Await(_) => dropped,
    };
    let report = history::check(&history);
    let wrong = match (retried, &report.judgement) {
        (Err(wrong), _) => Some(wrong),
        (Ok(_), Judgement::Fail(_) | Judgement::Unknown(_)) => {
            Some(format!("{report}\n{history:#?}"))
        }
        (Ok(got), Judgement::Pass) if place == Place::Nowhere => scenario.unexpected(&got),
        (Ok(_), Judgement::Pass) => None,
    };
    Trial {
        calls: faulty.calls(),
        polls,
        struck,
        answered,
        wrong,
    }
}

/// Lives through the scenario until its end, or until the fault ends the process. Returns how
/// often it was polled, and whether it was dropped before its end.
async fn act(
    scenario: &Scenario,
    lab: &Arc<Lab>,
    faulty: Arc<FaultyStore>,
    place: Place,
) -> (u64, bool) {
    let stage = Arc::new(Stage {
        first: lab.engine(faulty.clone()),
        second: lab.engine(Arc::new(faulty.sound(lab, 2))),
        lab: lab.clone(),
    });
    let limit = match place {
        Place::Await(poll) => poll,
        Place::Nowhere | Place::Call(..) => u64::MAX,
    };
    let mut scene = Counted {
        scene: Some((scenario.run)(stage)),
        polls: 0,
        limit,
    };
    tokio::select! {
        () = &mut scene => {
            // What goes on in the background goes on: a process outlives its callers.
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        () = faulty.crashed() => {}
    }
    (scene.polls, scene.scene.is_none())
}

/// Retries every key as a caller would, twice: what the first retry says, the second repeats.
/// Returns for each key whether it has an answer.
async fn retry(lab: &Lab, engine: &Engine, keys: &[(&str, End)]) -> Result<Vec<bool>, String> {
    let mut answered = Vec::new();
    for (key, _) in keys {
        let first = lab.pay(engine, key).await.map(|answer| answer.outcome);
        let second = lab.pay(engine, key).await.map(|answer| answer.outcome);
        let settled = |answer: &Result<_, onceward::RunError>| {
            matches!(answer, Ok(_) | Err(onceward::RunError::Unknown(_)))
        };
        if !settled(&first) || !settled(&second) {
            return Err(format!("retries of {key} end as {first:?} and {second:?}"));
        }
        answered.push(first.is_ok());
        if first.ok() != second.ok() {
            return Err(format!("two retries of {key} are answered differently"));
        }
    }
    Ok(answered)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime starts")
}

/// A scene whose polls are counted, and which is dropped at one of them.
struct Counted {
    scene: Option<Scene>,
    polls: u64,
    limit: u64,
}

// === impl Counted ===

impl Future for Counted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.polls >= self.limit {
            self.scene = None;
        }
        self.polls += 1;
        match &mut self.scene {
            Some(scene) => scene.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }
}
