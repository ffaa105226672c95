//! The world of a run: everything that its parts share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use onceward::{MemoryStore, Secret, Store};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::coverage::{Coverage, Mark};
use super::network::Link;
use super::plan::Plan;
use super::process::Process;
use super::service::Services;
use super::time::{Machine, Time};
use super::{Settings, Wrap};
use crate::lab::Recorder;

/// One store, some nodes, services, and a seed.
#[derive(Debug)]
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) secret: Secret,
    pub(super) time: Arc<Time>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) services: Services,
    /// The clock of the machine that the store runs on.
    pub(super) store_clock: Arc<Machine>,
    pub(super) store: Arc<dyn Store>,
    pub(super) wrap: Option<Wrap>,
    /// How each node reaches the store; one more for operators.
    pub(super) links: Vec<Link>,
    /// How often the store was started: what was under way before is lost.
    pub(super) epoch: AtomicU32,
    pub(super) store_is_down: AtomicBool,
    /// The process of each node, unless it is down.
    nodes: Mutex<Vec<Option<Arc<Process>>>>,
    processes: AtomicU32,
    rng: Mutex<Rng>,
    coverage: Mutex<Coverage>,
    faults: Option<Mutex<Vec<Fault>>>,
    wrong: Mutex<Vec<String>>,
    pub(super) operations: AtomicU64,
    /// In nanoseconds.
    reckoned_off: AtomicU64,
    calm: AtomicBool,
    calmed: Notify,
}

/// A line of the trace that tells of something that went wrong on purpose.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Fault {
    mono_ns: u64,
    what: &'static str,
    node: usize,
}

// === impl World ===

impl World {
    /// Makes the world of a seed. Only within a runtime whose time is paused.
    pub(super) fn new(seed: u64, settings: &Settings) -> Arc<Self> {
        let mut rng = Rng::with_seed(seed);
        let secret = Secret::from_bytes([7; Secret::LEN]);
        let time = Time::begin();
        let store_clock = Machine::new(time.clone(), Duration::from_secs(1_000));
        let recorder = Arc::new(Recorder::new(Machine::new(time.clone(), Duration::ZERO)));
        // Half of the runs have orders in them; the others are as fast as they were.
        let with_orders = matches!(seed % 4, 1 | 2);
        let plan = Plan::draw(&mut rng, with_orders, &secret, &recorder);
        Arc::new(Self {
            services: Services::new(recorder.clone()),
            store: Arc::new(MemoryStore::with_clock(store_clock.clone())),
            links: (0..=plan.nodes).map(|_| Link::default()).collect(),
            nodes: Mutex::new(vec![None; plan.nodes]),
            faults: settings.trace.then(Mutex::default),
            wrap: settings.wrap,
            rng: Mutex::new(rng),
            plan,
            secret,
            time,
            recorder,
            store_clock,
            epoch: AtomicU32::new(0),
            store_is_down: AtomicBool::new(false),
            processes: AtomicU32::new(0),
            coverage: Mutex::default(),
            wrong: Mutex::default(),
            operations: AtomicU64::new(0),
            reckoned_off: AtomicU64::new(0),
            calm: AtomicBool::new(false),
            calmed: Notify::new(),
        })
    }

    // What chance decides.

    /// A number below `limit`.
    pub(super) fn pick(&self, limit: u64) -> u64 {
        self.rng.lock().u64(..limit)
    }

    /// One of many.
    pub(super) fn one_of<'a, T>(&self, all: &'a [T]) -> &'a T {
        &all[self.pick(all.len() as u64) as usize]
    }

    /// Whether something happens that happens this often.
    pub(super) fn chance(&self, share: f64) -> bool {
        self.rng.lock().f64() < share
    }

    /// A span between two bounds, in milliseconds.
    pub(super) fn span(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.rng.lock().u64(from..=to))
    }

    // What is written down.

    pub(super) fn hit(&self, mark: Mark) {
        self.coverage.lock().hit(mark);
    }

    /// Notes that something goes wrong on purpose.
    pub(super) fn strike(&self, mark: Mark, node: usize) {
        self.hit(mark);
        if let Some(faults) = &self.faults {
            faults.lock().push(Fault {
                mono_ns: self.recorder.now(),
                what: mark.name(),
                node,
            });
        }
    }

    /// Notes that something is wrong that the judge does not see.
    pub(super) fn blame(&self, what: String) {
        self.wrong.lock().push(what);
    }

    pub(super) fn take_coverage(&self) -> Coverage {
        self.coverage.lock().clone()
    }

    pub(super) fn take_faults(&self) -> Vec<Fault> {
        let faults = self.faults.as_ref();
        faults.map_or_else(Vec::new, |faults| faults.lock().clone())
    }

    pub(super) fn take_wrong(&self) -> Vec<String> {
        std::mem::take(&mut self.wrong.lock())
    }

    // Nodes.

    pub(super) fn next_process(&self) -> u32 {
        self.processes.fetch_add(1, Ordering::Relaxed)
    }

    /// The process of a node, unless it is down.
    pub(super) fn process(&self, node: usize) -> Option<Arc<Process>> {
        self.nodes.lock()[node].clone()
    }

    /// Starts a process on a node that has none.
    pub(super) fn start(self: &Arc<Self>, node: usize) {
        if self.process(node).is_none() {
            let process = Process::start(self, node);
            self.nodes.lock()[node] = Some(process);
        }
    }

    /// Ends the process of a node where it stands.
    pub(super) fn kill(&self, node: usize) {
        let process = self.nodes.lock()[node].take();
        if let Some(process) = process {
            process.die();
            if process.has_panicked() {
                self.blame(format!("a task on node {node} panicked"));
            }
        }
    }

    /// How far the fences of two claims may be apart whose processes had different ideas of the
    /// store's time: by as long as the quickest reply took that either had heard.
    pub(super) fn reckoning_ns(&self) -> u64 {
        20_000_000 + self.reckoned_off.load(Ordering::Relaxed)
    }

    /// Notes how far the idea is off by which a fence is minted.
    pub(super) fn reckons(&self, off: Duration) {
        let off = off.as_nanos() as u64;
        self.reckoned_off.fetch_max(off, Ordering::Relaxed);
    }

    // The end of trouble.

    /// Says that nothing goes wrong any more: the service and the network are prompt.
    pub(super) fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
        self.calmed.notify_waiters();
    }

    pub(super) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    /// Lets time pass, less of it once trouble is over.
    pub(super) async fn rest(&self, span: Duration) {
        // Too short to be worth more than a timer.
        let short = Duration::from_millis(20);
        if span <= short || self.is_calm() {
            return match span.is_zero() {
                true => {}
                false => tokio::time::sleep(span.min(short)).await,
            };
        }
        let calmed = self.calmed.notified();
        tokio::select! {
            biased;
            () = tokio::time::sleep(span) => {}
            () = calmed => {}
        }
    }
}
