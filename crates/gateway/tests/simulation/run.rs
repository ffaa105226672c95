//! Runs: a seed, played from the first message to the judgement.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use onceward::clock::Clock as _;
use onceward::testing::ManualClock;
use onceward::{Effect, MemoryStore, Secret};
use onceward_gateway::config::{Config, Overrides};
use onceward_gateway::{Gateway, Given};
use onceward_rig::lab::Lab;
use tokio::sync::Notify;
use tokio::time::sleep;
use turmoil::Sim;
use turmoil::net::TcpListener;

use crate::caller::{self, Caller, Street};
use crate::depot::{Depot, Wired};
use crate::gated::{Gate, Gated};
use crate::judge;
use crate::nemesis::Nemesis;
use crate::notes::Notes;
use crate::plan::Plan;
use crate::service::Service;

/// What came of a run.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    /// What happened, with simulated times.
    pub(crate) trace: Vec<String>,
    /// How the promise was broken.
    pub(crate) broken: Vec<String>,
    /// Faults by their kind.
    pub(crate) faults: BTreeMap<&'static str, u64>,
    /// Keys with a final answer, and keys of which nobody knows.
    pub(crate) settled: u64,
    pub(crate) unknown: u64,
    /// Answers that were marked as replays.
    pub(crate) replays: u64,
    /// The longest time from the end of the faults to an answer.
    pub(crate) slowest: Duration,
    /// How much time was simulated.
    pub(crate) simulated: Duration,
}

/// A run under way.
struct Run {
    plan: Plan,
    clock: Arc<ManualClock>,
    start: Duration,
    notes: Arc<Notes>,
    service: Rc<Service>,
    street: Rc<Street>,
    lab: Arc<Lab>,
}

/// What ends a gateway from within.
#[derive(Debug, Default)]
pub(crate) struct Lever {
    pub(crate) die: Notify,
    pub(crate) shut_down: Notify,
    /// Whether either was pulled since it started.
    pub(crate) is_ending: Cell<bool>,
}

const CONFIG: &str = r#"
upstream = { url = "http://upstream:3000", connect_timeout = "1s" }

[store]
url = "memory:"

[admin]
listen = "off"

[defaults]
lease = "2s"
retention = "1h"
on_busy = "wait"
wait = "1s"
upstream_timeout = "2s"

[[route]]
match = "POST /opaque"

[[route]]
match = "POST /keyed"
effect = "keyed"

[[route]]
match = "POST /probed"
effect = "probed"
probe = { url = "/probe/{key}" }
"#;

/// Plays `seed` and judges it.
pub(crate) fn play(seed: u64) -> Ran {
    // What the product draws at random comes from here, too.
    fastrand::seed(seed);
    let mut rng = Rng::with_seed(seed);
    let plan = Plan::of(&mut rng);
    let mut sim = turmoil::Builder::new()
        .rng_seed(rng.u64(..))
        .epoch(SystemTime::UNIX_EPOCH)
        .simulation_duration(Duration::from_secs(600))
        .tick_duration(plan.tick)
        .min_message_latency(Duration::ZERO)
        .max_message_latency(plan.latency_max)
        .tcp_capacity(1024)
        .enable_random_order()
        .build();

    let clock = Arc::new(ManualClock::new());
    let notes = Arc::new(Notes::new(clock.clone()));
    notes.say(format_args!("plan: {plan:?}"));
    let gate = Gate::default();
    let store = Arc::new(Gated {
        inner: MemoryStore::with_clock(clock.clone()),
        gate: gate.clone(),
    });
    // The class of each route is the service's own matter; the lab only keeps the ledger.
    let lab = Lab::new(
        store,
        clock.clone(),
        (Effect::Opaque, Effect::Opaque),
        "shared",
    );
    let secret = Secret::from_bytes([7; 32]);
    let (depot, errands) = Depot::new(
        notes.clone(),
        gate,
        plan.gateways,
        plan.chaos.store,
        rng.fork(),
    );
    let service = Rc::new(Service {
        notes: notes.clone(),
        depot: depot.clone(),
        lab: lab.clone(),
        secret: secret.clone(),
        rng: RefCell::new(rng.fork()),
        faulty: Cell::new(plan.chaos.upstream),
        accounts: RefCell::default(),
        busy: Cell::new(0),
    });
    let street = Rc::new(Street {
        notes: notes.clone(),
        gateways: plan.gateways,
        answers: RefCell::default(),
        healed: Cell::new(None),
        slowest: Cell::default(),
        rude: plan.chaos.callers,
    });

    let errands = Cell::new(Some(errands));
    sim.host("depot", move || {
        let errands = errands.take().expect("the depot is started once");
        async move {
            Depot::run(errands).await;
            Ok(())
        }
    });
    let upstream = service.clone();
    sim.host("upstream", move || upstream.clone().run());
    let levers: Vec<Rc<Lever>> = (0..plan.gateways).map(|_| Rc::default()).collect();
    for (number, lever) in levers.iter().cloned().enumerate() {
        let store = Arc::new(Wired {
            depot: depot.clone(),
            inner: lab.recorded(number as u32),
            gateway: number,
            recalls: plan.recalls,
            hints: plan.hints,
        });
        let (clock, secret) = (clock.clone(), secret.clone());
        sim.host(format!("gateway-{number}"), move || {
            gateway(store.clone(), clock.clone(), secret.clone(), lever.clone())
        });
    }
    caller::settle(&mut sim, &plan, &street, &mut rng);
    let nemesis = Nemesis::new(&plan, notes.clone(), depot, levers, &mut rng);
    let run = Run {
        plan,
        start: clock.monotonic(),
        clock,
        notes,
        service,
        street,
        lab,
    };
    run.finish(sim, nemesis)
}

/// A gateway, as its supervisor keeps it up.
async fn gateway(
    store: Arc<Wired>,
    clock: Arc<ManualClock>,
    secret: Secret,
    lever: Rc<Lever>,
) -> turmoil::Result {
    lever.is_ending.set(false);
    let gateway = loop {
        let config = Config::parse(CONFIG, "simulation", Overrides::default());
        let config = config.expect("the configuration is good");
        let given = Given {
            secret: Some(secret.clone()),
            store: Some(store.clone()),
            clock: Some(clock.clone()),
            ..Given::default()
        };
        match Gateway::start(config, given).await {
            Ok(gateway) => break gateway,
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    };
    let listener = TcpListener::bind(("0.0.0.0", Caller::PORT)).await?;
    tokio::select! {
        biased;
        () = lever.die.notified() => std::future::pending().await,
        _ = gateway.serve(listener, lever.shut_down.notified()) => Ok(()),
    }
}

// === impl Run ===

impl Run {
    fn finish(self, mut sim: Sim<'_>, mut nemesis: Nemesis) -> Ran {
        let mut calm = false;
        loop {
            if !calm {
                nemesis.act(&mut sim);
            }
            let all_answered = match sim.step() {
                Ok(all_answered) => all_answered,
                Err(error) => {
                    self.notes.broken(format!("the run did not end: {error}"));
                    break;
                }
            };
            self.keep_time(&sim);
            if !calm && self.notes.now() >= self.plan.heal_at {
                calm = true;
                self.notes.say(format_args!("healed"));
                self.service.faulty.set(false);
                nemesis.heal(&mut sim);
                self.street.healed.set(Some(self.notes.now()));
            }
            // What is late may still do harm.
            if all_answered && self.service.busy.get() == 0 {
                break;
            }
        }
        let simulated = sim.elapsed();
        drop(sim);
        let mut ran = judge::judge(
            &self.notes,
            &self.service,
            &self.street,
            &self.lab,
            &self.clock,
        );
        ran.simulated = simulated;
        ran.slowest = self.street.slowest.get();
        ran
    }

    /// Moves the clock of the store and of the gateways along with the simulation.
    fn keep_time(&self, sim: &Sim<'_>) {
        let (now, due) = (self.clock.monotonic(), self.start + sim.elapsed());
        self.clock.advance(due.saturating_sub(now));
    }
}
