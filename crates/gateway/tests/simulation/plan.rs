//! Plans: what one seed asks for.

use std::time::Duration;

use fastrand::Rng;

/// Everything about a run that is decided before it begins.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) gateways: usize,
    pub(crate) clients: usize,
    pub(crate) jobs: Vec<Job>,
    /// How finely simulated time is cut.
    pub(crate) tick: Duration,
    /// The slowest message.
    pub(crate) latency_max: Duration,
    /// When faults end.
    pub(crate) heal_at: Duration,
    /// Which kinds of faults there are.
    pub(crate) chaos: Chaos,
    /// Whether the store has replays at hand, and whether it gives hints.
    pub(crate) recalls: bool,
    pub(crate) hints: bool,
}

/// Which kinds of faults a run has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chaos {
    pub(crate) callers: bool,
    pub(crate) upstream: bool,
    pub(crate) store: bool,
    pub(crate) network: bool,
    pub(crate) crashes: bool,
}

/// Work under one key.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) key: String,
    pub(crate) class: Class,
    /// Who asks for it, and with which payload.
    pub(crate) askers: Vec<(usize, String)>,
}

/// What the service behind a route can do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Class {
    Opaque,
    Keyed,
    Probed,
}

// === impl Plan ===

impl Plan {
    pub(crate) fn of(rng: &mut Rng) -> Self {
        let gateways = rng.usize(1..=3);
        // Crowds are rarer than handfuls, for they take longer.
        let clients = match rng.u8(0..8) {
            0 => rng.usize(13..=20),
            1 | 2 => rng.usize(9..=12),
            _ => rng.usize(5..=8),
        };
        let count = rng.usize(clients / 2..=clients);
        Self {
            gateways,
            clients,
            jobs: (0..count)
                .map(|number| Job::new(number, clients, rng))
                .collect(),
            tick: Duration::from_millis(*pick(rng, &[5, 10, 10, 20])),
            latency_max: Duration::from_millis(*pick(rng, &[10, 50, 100, 300])),
            heal_at: Duration::from_millis(rng.u64(1_500..6_000)),
            chaos: Chaos::of(rng),
            recalls: rng.bool(),
            hints: rng.bool(),
        }
    }
}

// === impl Chaos ===

impl Chaos {
    fn of(rng: &mut Rng) -> Self {
        let mut on = |of_ten| rng.u8(0..10) < of_ten;
        let mut chaos = Self {
            callers: on(8),
            upstream: on(7),
            store: on(6),
            network: on(6),
            crashes: on(6),
        };
        // What is left in doubt without a reason is seen best where there are few reasons.
        if on(3) {
            chaos = Self {
                upstream: on(5),
                store: false,
                network: false,
                crashes: false,
                ..chaos
            };
        }
        chaos
    }
}

// === impl Job ===

impl Job {
    fn new(number: usize, clients: usize, rng: &mut Rng) -> Self {
        let payload = format!("{{\"amount\":{}}}", rng.u32(1..10_000));
        let mut askers: Vec<_> = (0..rng.usize(1..=3))
            .map(|_| (rng.usize(0..clients), payload.clone()))
            .collect();
        // Somebody uses the key for something else, and may even be first.
        if rng.u8(0..6) == 0 {
            askers.push((rng.usize(0..clients), format!("{payload} ")));
        }
        Self {
            key: format!("key-{number}-{}", rng.alphanumeric()),
            class: *pick(
                rng,
                &[Class::Opaque, Class::Opaque, Class::Keyed, Class::Probed],
            ),
            askers,
        }
    }
}

// === impl Class ===

impl Class {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Opaque => "/opaque",
            Self::Keyed => "/keyed",
            Self::Probed => "/probed",
        }
    }

    pub(crate) fn at(path: &str) -> Option<Self> {
        let all = [Self::Opaque, Self::Keyed, Self::Probed];
        all.into_iter().find(|class| class.path() == path)
    }
}

pub(crate) fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.usize(0..from.len())]
}
