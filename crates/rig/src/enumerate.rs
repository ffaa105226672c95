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
    /// The keys it uses, which a new process retries afterwards.
    pub keys: &'static [&'static str],
    run: fn(Arc<Stage>) -> Scene,
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
    /// What is wrong with it, in the judge's words.
    pub wrong: Option<String>,
}

/// What all trials of a store came to.
#[derive(Debug, Default)]
pub struct Enumeration {
    /// How many runs there were.
    pub trials: u64,
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

/// Runs every scenario with every single fault.
pub fn enumerate(stores: &dyn Stores) -> Enumeration {
    let mut all = Enumeration::default();
    for scenario in SCENARIOS {
        let counted = all.run(stores, scenario, Place::Nowhere);
        for call in 0..counted.calls {
            for mode in Mode::ALL {
                all.run(stores, scenario, Place::Call(call, mode));
            }
        }
        for poll in 0..counted.polls {
            all.run(stores, scenario, Place::Await(poll));
        }
    }
    all
}

// === impl Enumeration ===

impl Enumeration {
    fn run(&mut self, stores: &dyn Stores, scenario: &Scenario, place: Place) -> Trial {
        let trial = trial(stores, scenario, place, self.trials);
        self.trials += 1;
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
    let faulty = Arc::new(FaultyStore::new(&lab, place, stores.is_threaded()));

    let first_process = runtime();
    let polls = first_process.block_on(act(scenario, &lab, faulty.clone(), place));
    // The process ends here, with whatever it had under way.
    drop(first_process);

    // A new process comes when every lease has lapsed, and retries what the first one did.
    lab.clock.advance(2 * Lab::LEASE);
    let healed = runtime().block_on(async {
        let store = FaultyStore::new(&lab, Place::Nowhere, stores.is_threaded());
        let engine = lab.engine(Arc::new(store));
        let retries = retry(&lab, &engine, scenario.keys);
        let within = tokio::time::timeout(Duration::from_secs(600), retries);
        let wrong = match within.await {
            Ok(wrong) => wrong,
            Err(_) => Some("a retry after the fault is not answered".to_owned()),
        };
        (wrong, lab.history().await)
    });
    let (wrong, history) = healed;
    let report = history::check(&history);
    Trial {
        calls: faulty.calls(),
        polls,
        wrong: wrong.or_else(|| match report.judgement {
            Judgement::Pass => None,
            Judgement::Fail(_) | Judgement::Unknown(_) => Some(format!("{report}\n{history:#?}")),
        }),
    }
}

/// Lives through the scenario until its end, or until the fault ends the process.
async fn act(scenario: &Scenario, lab: &Arc<Lab>, faulty: Arc<FaultyStore>, place: Place) -> u64 {
    let stage = Arc::new(Stage {
        first: lab.engine(faulty.clone()),
        second: lab.engine(lab.recorded(2)),
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
    scene.polls
}

/// Retries every key as a caller would, twice: what the first retry says, the second repeats.
async fn retry(lab: &Lab, engine: &Engine, keys: &[&str]) -> Option<String> {
    for key in keys {
        let first = lab.pay(engine, key).await.map(|answer| answer.outcome);
        let second = lab.pay(engine, key).await.map(|answer| answer.outcome);
        let settled = |answer: &Result<_, onceward::RunError>| {
            matches!(answer, Ok(_) | Err(onceward::RunError::Unknown(_)))
        };
        if !settled(&first) || !settled(&second) {
            return Some(format!("retries of {key} end as {first:?} and {second:?}"));
        }
        if first.ok() != second.ok() {
            return Some(format!("two retries of {key} are answered differently"));
        }
    }
    None
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
