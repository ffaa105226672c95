//! The simulation: many engines on one store, under one seed, with everything going wrong.
//!
//! A run has two to five nodes, an hour or more of simulated time and several hundred calls. The
//! network loses, delays and repeats; nodes are cut off, stand still, die and come back; the store
//! restarts and its clock is set; services are slow, lose answers and execute late; callers go
//! away, come back, make up new keys for old orders and cheat; operators settle what nobody knows. Then all trouble ends, every
//! key is retried, and the judge reads the history.
//!
//! Everything that chance decides comes from the seed, so a run can be repeated, byte for byte:
//!
//! ```
//! use onceward_rig::sim::{self, Settings};
//!
//! let settings = Settings { trace: true, ..Settings::default() };
//! let outcome = sim::run(7, &settings);
//! assert_eq!(outcome.wrong, Vec::<String>::new());
//! assert_eq!(outcome.trace, sim::run(7, &settings).trace);
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use onceward::Store;

use crate::history::{self, Expectations, History, wgl};

mod caller;
mod coverage;
mod fate;
mod heal;
mod nemesis;
mod network;
mod operator;
mod order;
mod plan;
mod process;
mod service;
mod time;
mod trace;
mod world;

pub use coverage::{Coverage, Mark};
use world::World;

/// Puts something between a process and its store, which is otherwise sound: what a bug bank
/// breaks.
pub type Wrap = fn(Arc<dyn Store>) -> Arc<dyn Store>;

/// How to run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How many calls there are at least.
    pub operations: u64,
    /// How long the trouble lasts at least, in simulated time.
    pub span: Duration,
    /// Whether to keep the trace.
    pub trace: bool,
    /// Whether to ask for a second opinion about every slot.
    pub second_opinion: bool,
    /// What to put between every process and its store.
    pub wrap: Option<Wrap>,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// A digest of everything that happened.
    pub trace_hash: u64,
    /// How many lines the processes and callers wrote.
    pub events: u64,
    /// How many calls there were.
    pub operations: u64,
    /// How much time was simulated.
    pub simulated: Duration,
    /// What the run has been through.
    pub coverage: Coverage,
    /// The second opinion, if it was asked for.
    pub opinion: Option<wgl::Opinion>,
    /// What is wrong, in the words of the judge and of the simulation.
    pub wrong: Vec<String>,
    /// The whole history and all faults, one JSON object per line, if it was asked for.
    pub trace: Option<String>,
}

/// One call in so many is answered at least, if only that its work is done under another key: a
/// system that answers nothing breaks no promise.
const ANSWERED_SHARE: u64 = 4;

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            operations: 300,
            span: Duration::from_secs(3_600),
            trace: false,
            second_opinion: false,
            wrap: None,
        }
    }
}

/// Plays the run of a seed, and judges it.
pub fn run(seed: u64, settings: &Settings) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime starts");
    let (world, history) = runtime.block_on(async {
        let world = World::new(seed, settings);
        play(&world, settings).await;
        let history = last_reads(&world).await;
        (world, history)
    });
    let simulated = Duration::from_nanos(history.finals.first().map_or(0, |it| it.mono_ns));
    drop(runtime);
    judge(seed, &world, history, simulated, settings)
}

/// Lets the callers call and the nemesis strike, then heals.
async fn play(world: &Arc<World>, settings: &Settings) {
    for node in 0..world.plan.nodes {
        world.start(node);
    }
    let trouble = tokio::spawn(nemesis::trouble(world.clone()));
    let rounds = tokio::spawn(operator::rounds(world.clone()));
    let mut sessions = Vec::new();
    loop {
        let left = settings.span.saturating_sub(world.time.passed());
        let done = world.operations.load(Ordering::Relaxed);
        if left.is_zero() && done >= settings.operations {
            break;
        }
        sessions.push(tokio::spawn(caller::session(world.clone())));
        // So that the calls are spread over the time there is: about five to a session.
        let calls = settings.operations.saturating_sub(done).max(5);
        let mean = left.as_millis() as u64 * 5 / calls;
        let pause = world.span(0, (2 * mean).clamp(200, 600_000));
        tokio::time::sleep(pause).await;
    }
    heal::heal(world).await;
    sessions.extend([trouble, rounds]);
    for task in sessions {
        let ended = tokio::time::timeout(Duration::from_secs(30), task).await;
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(_)) => world.blame("a task of the simulation panicked".to_owned()),
            Err(_) => world.blame("somebody waits though trouble is over".to_owned()),
        }
    }
}

/// Reads every slot, and returns everything that was seen. The nodes end with it.
async fn last_reads(world: &Arc<World>) -> History {
    for node in 0..world.plan.nodes {
        world.kill(node);
    }
    let mut history = world.recorder.take();
    for job in world.plan.all_jobs() {
        if world.recorder.slots().binary_search(&job.id).is_ok() {
            let reply = world.store.get(job.id).await;
            let reply = reply.expect("the memory store answers");
            let read = world.recorder.last_read(job.tenant(), job.id, &reply);
            history.finals.push(read);
        }
    }
    history
}

fn judge(
    seed: u64,
    world: &World,
    mut history: History,
    simulated: Duration,
    settings: &Settings,
) -> Outcome {
    let retention = world.plan.retention.as_nanos() as u64;
    // A store's guarded clock works a step off at a tenth of the speed of time.
    let ahead = if world.plan.steps { retention / 10 } else { 0 };
    history.expectations = Expectations {
        retention_ns: Some(retention),
        slack_ns: ahead + 1_000_000,
        reckoning_ns: Some(world.reckoning_ns()),
        ..Expectations::default()
    };
    let report = history::check(&history);
    let mut wrong = world.take_wrong();
    if !report.is_pass() {
        wrong.push(report.to_string());
    }
    let orders = world.plan.orders.iter().enumerate();
    let orders = orders.map(|(number, order)| order.judged(number, world.plan.all_jobs()));
    wrong.extend(history::check_orders(&history, &orders.collect::<Vec<_>>()));
    // The operators of a simulation settle nothing while a request is on its way, and a holder
    // whose claim has lapsed sends none.
    if report.counts.after_resolve > 0 {
        wrong.push("work was done after an operator found that it was not".to_owned());
    }
    let mut coverage = world.take_coverage();
    coverage.read(&history, report.counts.take_overs);
    let operations = world.operations.load(Ordering::Relaxed);
    let answered = coverage.of(Mark::Answered) + coverage.of(Mark::Elsewhere);
    if answered * ANSWERED_SHARE < operations {
        wrong.push(format!(
            "only {answered} of {operations} calls are answered"
        ));
    }
    let opinion = settings
        .second_opinion
        .then(|| wgl::search(&history))
        .and_then(|opinion| match opinion {
            Ok(opinion) => {
                let refused = opinion.refused.iter();
                let refused = refused.map(|(tenant, key)| format!("no order of {tenant}/{key}"));
                wrong.extend(refused);
                Some(opinion)
            }
            Err(contradiction) => {
                wrong.push(contradiction.to_string());
                None
            }
        });
    let faults = world.take_faults();
    Outcome {
        seed,
        trace_hash: trace::digest(&history),
        events: history.events.len() as u64,
        operations,
        simulated,
        coverage,
        opinion,
        trace: settings.trace.then(|| trace::write(&history, &faults)),
        wrong,
    }
}
