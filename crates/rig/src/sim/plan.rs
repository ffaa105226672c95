//! The plan of a run: what its seed decides before it begins.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use onceward::{Effect, Fingerprint, Key, Limits, OnBusy, Policy, Scope, Secret, Slot, SlotId};

use super::order::Order;
use crate::lab::Recorder;

/// A kind of work, and the service that does it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Route {
    /// Opaque work before a service that does whatever it is asked.
    Opaque,
    /// Keyed work before a service that deduplicates on the key.
    Keyed,
    /// Probed work before a service that refuses older fences and can be asked.
    Probed,
    /// Opaque work with a recovery point, after which the service deduplicates.
    Staged,
    /// Work that may be repeated.
    Repeatable,
}

/// What the seed decides.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) nodes: usize,
    pub(super) lease: Duration,
    pub(super) retention: Duration,
    wait: Duration,
    /// How much goes wrong, from 0 to 1.
    pub(super) trouble: f64,
    /// Whether clocks are set forward and back.
    pub(super) steps: bool,
    /// Whether stores tell of changes.
    pub(super) hints: bool,
    /// Whether completed records are at hand.
    pub(super) near: bool,
    pub(super) jobs: Vec<Arc<Job>>,
    /// What some of the jobs are for, in some of the runs.
    pub(super) orders: Vec<Order>,
}

/// What a caller brings.
#[derive(Debug)]
pub(super) struct Payload {
    pub(super) fingerprint: Fingerprint,
    /// What histories call it.
    pub(super) name: Arc<str>,
    /// The number of the order that whoever brings it means.
    pub(super) order: Option<usize>,
}

/// A piece of work that callers ask for, again and again.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) route: Route,
    pub(super) slot: Slot,
    pub(super) id: SlotId,
    /// The payload that callers bring, and the one that some bring instead.
    pub(super) payloads: [Payload; 2],
}

// === impl Route ===

impl Route {
    pub(super) const ALL: [Self; 5] = [
        Self::Opaque,
        Self::Keyed,
        Self::Probed,
        Self::Staged,
        Self::Repeatable,
    ];

    /// Whether the service recognises a request that it was sent before.
    pub(super) fn deduplicates(self) -> bool {
        matches!(self, Self::Keyed | Self::Probed | Self::Staged)
    }

    fn effect(self) -> Effect {
        match self {
            Self::Opaque | Self::Staged => Effect::Opaque,
            Self::Keyed => Effect::Keyed,
            Self::Probed => Effect::Probed,
            Self::Repeatable => Effect::Repeatable,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Opaque => "opaque",
            Self::Keyed => "keyed",
            Self::Probed => "probed",
            Self::Staged => "staged",
            Self::Repeatable => "repeatable",
        }
    }
}

// === impl Plan ===

impl Plan {
    /// The share of runs in which clocks are set.
    const STEPS: f64 = 0.3;

    /// Draws the plan of a run, with orders in it or without. They are drawn in the end, so that
    /// runs without them are what they would be if there were no orders at all.
    pub(super) fn draw(
        rng: &mut Rng,
        with_orders: bool,
        secret: &Secret,
        recorder: &Recorder,
    ) -> Self {
        let lease = [3, 5, 10, 30][rng.usize(..4)];
        let retention = [120, 300, 900][rng.usize(..3)];
        let wait = [0, 1, 4, 10][rng.usize(..4)];
        // Mostly enough of them to see many through; sometimes few, for which many compete.
        let count = match rng.f64() < 0.2 {
            true => rng.usize(3..8),
            false => rng.usize(24..40),
        };
        let jobs = (0..count).map(|at| Job::draw(rng, at, secret, recorder));
        let jobs = jobs.map(Arc::new).collect();
        let mut plan = Self {
            nodes: rng.usize(2..=5),
            lease: Duration::from_secs(lease),
            retention: Duration::from_secs(retention),
            wait: Duration::from_secs(wait),
            trouble: rng.f64(),
            steps: rng.f64() < Self::STEPS,
            hints: rng.bool(),
            near: rng.f64() < 0.2,
            jobs,
            orders: Vec::new(),
        };
        if with_orders {
            plan.orders = Order::draw_all(rng, secret, recorder);
            let jobs = plan.orders.iter().flat_map(|order| &order.jobs);
            plan.jobs.extend(jobs.cloned());
        }
        plan
    }

    /// Everything that can be asked for, also after the trouble.
    pub(super) fn all_jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        let spares = self.orders.iter().map(|order| &order.spare);
        self.jobs.iter().chain(spares)
    }

    /// How far an idea of the store's time may be off by now. A store whose clock was set works
    /// that off at a tenth of the speed of time, and a process that hears nothing does not know.
    pub(super) fn grown(&self, (off, since): (Duration, Duration), now: Duration) -> Duration {
        match self.steps {
            true => off + now.saturating_sub(since) / 10,
            false => off,
        }
    }

    pub(super) fn policy(&self, route: Route) -> Policy {
        Policy::default()
            .effect(route.effect())
            .lease(self.lease)
            .retention(self.retention)
            .on_busy(match self.wait.is_zero() {
                true => OnBusy::Refuse,
                false => OnBusy::Wait(self.wait),
            })
            .route(route.name())
    }

    /// Few waiters per slot, so that some find no seat.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            waiters_per_slot: 3,
            store_patience: self.lease.min(Duration::from_secs(5)),
            ..Limits::default()
        }
    }
}

// === impl Job ===

impl Job {
    /// Two tenants use the same keys.
    fn draw(rng: &mut Rng, at: usize, secret: &Secret, recorder: &Recorder) -> Self {
        let route = Route::ALL[rng.usize(..Route::ALL.len())];
        let scope = Scope::new(["ada", "bob"][at % 2], route.name());
        let key = Key::parse(&format!("order-{}", at / 2)).expect("the key is printable");
        let slot = Slot::new(scope, key);
        let id = slot.id(secret);
        let payloads = [b"100", b"900"].map(|bytes| {
            let fingerprint = Fingerprint::of(bytes);
            Payload {
                name: recorder.payload(&fingerprint.seal(secret, id)),
                fingerprint,
                order: None,
            }
        });
        Self {
            route,
            slot,
            id,
            payloads,
        }
    }

    pub(super) fn tenant(&self) -> &str {
        self.slot.scope().tenant()
    }
}
