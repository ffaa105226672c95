//! Every fault at every step: the enumeration of single faults, and of several in one run.
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
use onceward::{Answer, Effect, Elsewhere, Engine, Identity, RunError, Store, Then, Twin};

use crate::history::{self, Judgement, Order};
use crate::lab::Lab;

mod faulty;
mod plan;
mod scenarios;
mod several;

use faulty::FaultyStore;
pub use faulty::Mode;
use plan::Faults;
pub use plan::{Fault, Plan};
pub use scenarios::SCENARIOS;
pub use several::Plans;

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
    /// The rules under which all of its keys are for one thing, and what a twin gets.
    pub identities: &'static [(&'static str, Then)],
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

/// What one run of a scenario came to.
#[derive(Debug)]
pub struct Trial {
    /// How many store calls the processes under the faults made.
    pub calls: u64,
    /// How often the caller's future was polled.
    pub polls: u64,
    /// How many calls there were when the caller was dropped, if it was.
    pub calls_when_dropped: u64,
    /// How often it was polled when the last fault struck.
    pub polls_when_struck: u64,
    /// Whether every fault that was planned did strike.
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

    /// How far the ideas that two processes have of the store's time may be apart: as long as an
    /// answer took. `None` where answers take no time.
    fn reckoning(&self) -> Option<Duration> {
        None
    }
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
        let counted = all.run(stores, scenario, &Plan::none());
        for call in 0..counted.calls {
            for mode in Mode::ALL {
                all.run(stores, scenario, &Plan::call(call, mode));
            }
        }
        let (trials, answered) = (all.trials - before.0, all.answered - before.1);
        if answered * 2 < trials {
            let name = scenario.name;
            all.wrong
                .push(format!("{name}: only {answered} of {trials} are answered"));
        }
        for poll in 0..counted.polls {
            all.run(stores, scenario, &Plan::none().dropped(poll));
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

    fn identities(&self) -> Vec<Identity> {
        let named = self.identities.iter();
        let identities = named.map(|(rule, then)| Identity::unique(*rule, "1001", *then));
        identities.collect()
    }
}

// === impl Enumeration ===

impl Enumeration {
    /// How often a fault is planned again that came to nothing, because the threads of a store
    /// were quicker than in the run that counted.
    const AGAIN: usize = 4;

    fn run(&mut self, stores: &dyn Stores, scenario: &Scenario, plan: &Plan) -> Trial {
        let mut trial = self.once(stores, scenario, plan);
        for _ in 0..Self::AGAIN {
            if trial.struck || !stores.is_threaded() {
                break;
            }
            trial = self.once(stores, scenario, plan);
        }
        self.missed += u64::from(!trial.struck);
        trial
    }

    fn once(&mut self, stores: &dyn Stores, scenario: &Scenario, plan: &Plan) -> Trial {
        let trial = trial(stores, scenario, plan, self.trials);
        self.trials += 1;
        self.answered += u64::from(trial.answered);
        if let Some(wrong) = &trial.wrong {
            let name = scenario.name;
            // A whole history each: a few are enough to learn from.
            let told = match self.wrong.len() {
                0..10 => wrong,
                _ => "the same, or another one",
            };
            self.wrong.push(format!("{name}, {plan}: {told}"));
        }
        trial
    }
}

/// Runs one scenario under a plan, lets new processes retry, and asks the judge.
pub fn trial(stores: &dyn Stores, scenario: &Scenario, plan: &Plan, number: u64) -> Trial {
    // The jitter of whoever waits: it is the same in the run that counts and in those that fail.
    fastrand::seed(1);
    let clock = stores.clock();
    let store = stores.store(&clock);
    let tenant = format!("tenant-{number}");
    let mut lab = Lab::new(store, clock, (scenario.effect, scenario.service), &tenant);
    if let Some(lab) = Arc::get_mut(&mut lab) {
        lab.identities = scenario.identities();
    }
    let faults = Arc::new(Faults::new(plan));
    let threaded = stores.is_threaded();
    let failing = || Arc::new(FaultyStore::sound(&lab, 1, threaded).under(&faults));

    // Each process ends with whatever it has under way, and a new one comes when every lease has
    // lapsed, and retries what the first one did.
    let dropped = runtime().block_on(act(scenario, &lab, &failing(), &faults));
    lab.clock.advance(2 * Lab::LEASE);
    if plan.in_retries {
        runtime().block_on(async {
            let store = failing();
            let engine = lab.engine(store.clone());
            // How these end is the judge's matter: with a fault there are many ways.
            live(&store, retry(&lab, &engine, scenario.keys)).await;
        });
        lab.clock.advance(2 * Lab::LEASE);
    }
    let (retried, mut history) = runtime().block_on(async {
        let engine = lab.engine(Arc::new(FaultyStore::sound(&lab, 1, threaded)));
        let retries = retry(&lab, &engine, scenario.keys);
        let within = tokio::time::timeout(Duration::from_secs(600), retries);
        let late = |_| Err("a retry after the fault is not answered".to_owned());
        (within.await.unwrap_or_else(late), lab.history().await)
    });
    let calm = scenario.keys.iter().all(|(_, end)| *end == End::Answered);
    history.expectations.fault_free = plan.is_none() && calm;
    let reckoning = stores.reckoning();
    history.expectations.reckoning_ns = reckoning.map(|span| span.as_nanos() as u64);
    let answered = retried.as_ref().is_ok_and(|got| {
        let mut ends = scenario.keys.iter().zip(got);
        ends.all(|((_, end), got)| *got || *end == End::Unknown)
    });
    let report = history::check(&history);
    let orders = match scenario.identities.is_empty() {
        true => Vec::new(),
        false => vec![Order::of_all(&history)],
    };
    let twins = history::check_orders(&history, &orders);
    let wrong = match (retried, &report.judgement) {
        (_, _) if !twins.is_empty() => Some(format!("{}\n{history:#?}", twins.join("\n"))),
        (Err(wrong), _) => Some(wrong),
        (Ok(_), Judgement::Fail(_) | Judgement::Unknown(_)) => {
            Some(format!("{report}\n{history:#?}"))
        }
        (Ok(got), Judgement::Pass) if plan.is_none() => scenario.unexpected(&got),
        (Ok(_), Judgement::Pass) => None,
    };
    let (calls_when_dropped, polls_when_struck) = faults.since();
    Trial {
        calls: faults.calls(),
        polls: faults.polls(),
        calls_when_dropped,
        polls_when_struck,
        struck: faults.have_struck() && (dropped || plan.dropped_at.is_none()),
        answered,
        wrong,
    }
}

/// Lives through the scenario until its end, or until a fault ends the process. Returns whether
/// it was dropped before its end.
async fn act(
    scenario: &Scenario,
    lab: &Arc<Lab>,
    store: &Arc<FaultyStore>,
    faults: &Arc<Faults>,
) -> bool {
    let stage = Arc::new(Stage {
        first: lab.engine(store.clone()),
        second: lab.engine(Arc::new(store.another(2))),
        lab: lab.clone(),
    });
    let mut scene = Counted {
        scene: Some((scenario.run)(stage)),
        faults: faults.clone(),
    };
    live(store, &mut scene).await;
    scene.scene.is_none()
}

/// Lives until `life` ends and what it left behind is done, or until a fault ends the process.
async fn live(store: &FaultyStore, life: impl Future) {
    let life = async {
        life.await;
        // What goes on in the background goes on: a process outlives its callers.
        tokio::time::sleep(Duration::from_secs(60)).await;
    };
    tokio::select! {
        // Nothing happens in a process that is dead.
        biased;
        () = store.crashed() => {}
        () = life => {}
    }
}

/// Retries every key as a caller would, twice: what the first retry says, the second repeats.
/// Returns for each key whether it has an answer; that the work is done under another one is one.
async fn retry(lab: &Lab, engine: &Engine, keys: &[(&str, End)]) -> Result<Vec<bool>, String> {
    let mut answered = Vec::new();
    for (key, _) in keys {
        let outcome = |answer| match answer {
            Ok(Answer { outcome, .. }) => Ok(outcome),
            Err(RunError::Elsewhere(Elsewhere {
                twin: Twin::Done(replay),
                ..
            })) => Ok(replay.outcome),
            Err(error) => Err(error),
        };
        let first = outcome(lab.pay(engine, key).await);
        let second = outcome(lab.pay(engine, key).await);
        let settled =
            |answer: &Result<_, RunError>| matches!(answer, Ok(_) | Err(RunError::Unknown(_)));
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
    faults: Arc<Faults>,
}

// === impl Counted ===

impl Future for Counted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.faults.polled() {
            self.scene = None;
        }
        match &mut self.scene {
            Some(scene) => scene.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }
}
