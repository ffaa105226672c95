//! Processes: an engine and its callers, which stand still and die together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use onceward::testing::{Admission, Host, Hosted};
use onceward::{Engine, Pace, Store, Sweeper};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::network::Line;
use super::plan::Route;
use super::time::Machine;
use super::world::World;

/// One life of a node: a process with its engine.
#[derive(Debug)]
pub(super) struct Process {
    body: Arc<Body>,
    /// An engine per route; all of them share one.
    engines: Vec<Engine>,
    /// Sweeps for as long as the process lives.
    _sweeper: Option<Sweeper>,
}

/// What the tasks of a process share: whether they may run.
#[derive(Debug, Default)]
struct Body {
    state: AtomicU8,
    /// Tasks that wait for the process to go on.
    held: Mutex<Vec<Waker>>,
    panicked: AtomicBool,
}

const RUNS: u8 = 0;
const STANDS: u8 = 1;
const GONE: u8 = 2;

// === impl Process ===

impl Process {
    /// Starts a process on the node `node`.
    pub(super) fn start(world: &Arc<World>, node: usize) -> Arc<Self> {
        let number = world.next_process();
        let body = Arc::new(Body::default());
        let line: Arc<dyn Store> = Arc::new(Line::new(world, node, number));
        // Processes of one machine see one monotonic clock; where it began nobody may rely on.
        let booted = Duration::from_secs(1 + world.pick(1_000_000));
        let clock = Machine::new(world.time.clone(), booted);
        if world.plan.steps {
            clock.step(world.pick(7_200) as i64 - 3_600);
        }
        let engine = Engine::builder(line)
            .policy(world.plan.policy(Route::Opaque))
            .limits(world.plan.limits())
            .clock(clock)
            .secret(world.secret.clone())
            .seed(world.pick(u64::MAX))
            .host(body.clone())
            .build();
        let pace = Pace {
            every: world.span(20_000, 120_000),
            step: 20,
            ..Pace::default()
        };
        Arc::new(Self {
            _sweeper: world.chance(0.5).then(|| engine.sweeper(pace)),
            engines: Route::ALL
                .iter()
                .map(|route| engine.with_policy(world.plan.policy(*route)))
                .collect(),
            body,
        })
    }

    /// The engine as the callers of a route use it.
    pub(super) fn engine(&self, route: Route) -> &Engine {
        &self.engines[route as usize]
    }

    /// Runs a caller's task in this process.
    pub(super) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        tokio::spawn(Hosted::new(self.body.clone(), task))
    }

    /// Holds the process up: none of its tasks runs until it goes on.
    pub(super) fn stand(&self) {
        let state = &self.body.state;
        let _ = state.compare_exchange(RUNS, STANDS, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Lets it go on.
    pub(super) fn go_on(&self) {
        let state = &self.body.state;
        let _ = state.compare_exchange(STANDS, RUNS, Ordering::Relaxed, Ordering::Relaxed);
        for waker in self.body.held.lock().drain(..) {
            waker.wake();
        }
    }

    /// Ends the process where it stands. Its tasks are dropped as soon as anything wakes them;
    /// none of them runs again.
    pub(super) fn die(&self) {
        self.body.state.store(GONE, Ordering::Relaxed);
        for waker in self.body.held.lock().drain(..) {
            waker.wake();
        }
    }

    /// Whether a task of the engine panicked, or one of its callers.
    pub(super) fn has_panicked(&self) -> bool {
        self.body.panicked.load(Ordering::Relaxed)
    }
}

// === impl Body ===

impl Host for Body {
    fn admit(&self, cx: &mut Context<'_>) -> Admission {
        match self.state.load(Ordering::Relaxed) {
            RUNS => Admission::Run,
            STANDS => {
                self.held.lock().push(cx.waker().clone());
                Admission::Wait
            }
            _ => Admission::Gone,
        }
    }

    fn panicked(&self) {
        self.panicked.store(true, Ordering::Relaxed);
    }
}
