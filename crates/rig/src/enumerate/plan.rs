//! Plans: where faults strike in one run, and whether they did.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Mode;

/// A fault at one store call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The call, counted from 0 over all processes that are under the faults.
    pub call: u64,
    /// How it fails.
    pub mode: Mode,
}

/// Where faults strike in one run.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Plan {
    /// At these store calls, in order.
    pub faults: Vec<Fault>,
    /// At this await of the caller, counted from 0: its future is dropped.
    pub dropped_at: Option<u64>,
    /// Whether the first process that retries is under the faults too, and another one retries
    /// after it.
    pub in_retries: bool,
}

/// The faults of one run, which its processes share.
#[derive(Debug)]
pub(super) struct Faults {
    plan: Plan,
    calls: AtomicU64,
    struck: AtomicU64,
    /// How often the caller was polled so far.
    polls: AtomicU64,
    /// How many calls there were when it was dropped.
    calls_when_dropped: AtomicU64,
    /// How many polls there were at the last fault.
    polls_when_struck: AtomicU64,
}

// === impl Plan ===

impl Plan {
    /// No fault at all: the run that counts.
    pub fn none() -> Self {
        Self::default()
    }

    /// One fault, at a store call.
    pub fn call(call: u64, mode: Mode) -> Self {
        Self {
            faults: vec![Fault { call, mode }],
            ..Self::default()
        }
    }

    /// The same, and the caller's future is dropped at this await.
    #[must_use]
    pub fn dropped(mut self, poll: u64) -> Self {
        self.dropped_at = Some(poll);
        self
    }

    /// The same, with the first retries under its faults.
    #[must_use]
    pub fn in_retries(mut self) -> Self {
        self.in_retries = true;
        self
    }

    /// The same, and then one more fault.
    #[must_use]
    pub fn then(&self, fault: Fault) -> Self {
        let mut plan = self.clone();
        plan.faults.push(fault);
        plan
    }

    /// Whether nothing is to fail.
    pub fn is_none(&self) -> bool {
        self.faults.is_empty() && self.dropped_at.is_none()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("no fault");
        }
        let mut between = "";
        if let Some(poll) = self.dropped_at {
            write!(f, "dropped at await {poll}")?;
            between = " and ";
        }
        for Fault { call, mode } in &self.faults {
            write!(f, "{between}{mode:?} at call {call}")?;
            between = ", then ";
        }
        Ok(())
    }
}

// === impl Faults ===

impl Faults {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            plan: plan.clone(),
            calls: AtomicU64::new(0),
            struck: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            calls_when_dropped: AtomicU64::new(0),
            polls_when_struck: AtomicU64::new(0),
        }
    }

    /// Counts one call, and returns how it fails, if it does.
    pub(super) fn next(&self) -> Option<Mode> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut faults = self.plan.faults.iter();
        let mode = faults.find(|fault| fault.call == number)?.mode;
        self.struck.fetch_add(1, Ordering::Relaxed);
        self.polls_when_struck
            .store(self.polls(), Ordering::Relaxed);
        Some(mode)
    }

    /// Counts one poll of the caller, and returns whether it is dropped instead.
    pub(super) fn polled(&self) -> bool {
        let number = self.polls.fetch_add(1, Ordering::Relaxed);
        let dropped = self.plan.dropped_at.is_some_and(|at| at <= number);
        if dropped {
            self.calls_when_dropped
                .store(self.calls(), Ordering::Relaxed);
        }
        dropped
    }

    /// How often the caller was polled so far.
    pub(super) fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// What is still to come after the last fault so far: the calls and the polls there were.
    pub(super) fn since(&self) -> (u64, u64) {
        let calls = self.calls_when_dropped.load(Ordering::Relaxed);
        (calls, self.polls_when_struck.load(Ordering::Relaxed))
    }

    /// How many calls were made so far.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Whether every call that was to fail was made.
    pub(super) fn have_struck(&self) -> bool {
        self.struck.load(Ordering::Relaxed) == self.plan.faults.len() as u64
    }
}
