//! Notes: what happened in a run and when, in simulated time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use onceward::clock::Clock as _;
use onceward::testing::ManualClock;
use parking_lot::Mutex;

/// What everybody in a run writes down.
#[derive(Debug)]
pub(crate) struct Notes {
    clock: Arc<ManualClock>,
    start: Duration,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    lines: Vec<String>,
    faults: BTreeMap<&'static str, u64>,
    broken: Vec<String>,
    /// When something first happened that leaves the fate of any key in doubt.
    unsettled: Option<Duration>,
    /// When it first happened to one key alone.
    doubts: BTreeMap<String, Duration>,
}

// === impl Notes ===

impl Notes {
    pub(crate) fn new(clock: Arc<ManualClock>) -> Self {
        Self {
            start: clock.monotonic(),
            clock,
            inner: Mutex::default(),
        }
    }

    /// The simulated time since the run began.
    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.start)
    }

    /// The same as histories count it.
    pub(crate) fn mono_ns(&self) -> u64 {
        self.clock.monotonic().as_nanos() as u64
    }

    /// Writes down a line of the trace.
    pub(crate) fn say(&self, what: fmt::Arguments<'_>) {
        let line = format!("{:>12?} {what}", self.now());
        self.inner.lock().lines.push(line);
    }

    /// Counts a fault that leaves nothing in doubt.
    pub(crate) fn fault(&self, kind: &'static str) {
        self.say(format_args!("fault: {kind}"));
        *self.inner.lock().faults.entry(kind).or_default() += 1;
    }

    /// Counts a fault that leaves the fate of any key in doubt.
    pub(crate) fn unsettle(&self, kind: &'static str) {
        self.fault(kind);
        let now = self.now();
        self.inner.lock().unsettled.get_or_insert(now);
    }

    /// Counts a fault that leaves the fate of one key in doubt.
    pub(crate) fn doubt(&self, kind: &'static str, key: &str) {
        self.fault(kind);
        let now = self.now();
        let mut inner = self.inner.lock();
        inner.doubts.entry(key.to_owned()).or_insert(now);
    }

    /// Writes down that the promise was broken.
    pub(crate) fn broken(&self, what: String) {
        self.say(format_args!("BROKEN: {what}"));
        self.inner.lock().broken.push(what);
    }

    /// Whether anybody could be in doubt about `key` at `when`.
    pub(crate) fn may_doubt(&self, key: &str, when: Duration) -> bool {
        let inner = self.inner.lock();
        let own = inner.doubts.get(key).copied();
        [inner.unsettled, own]
            .iter()
            .flatten()
            .any(|since| *since <= when)
    }

    /// Returns the trace, the faults by kind, and what was broken.
    pub(crate) fn take(&self) -> (Vec<String>, BTreeMap<&'static str, u64>, Vec<String>) {
        let inner = std::mem::take(&mut *self.inner.lock());
        (inner.lines, inner.faults, inner.broken)
    }
}
