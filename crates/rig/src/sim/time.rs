//! Simulated time: one for the whole run, and clocks that show it differently.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use onceward::Timestamp;
use onceward::clock::Clock;
use tokio::time::Instant;

use crate::lab::Passing;

/// The time that really passes in a run: the paused time of its runtime, and the moments that
/// store calls take.
#[derive(Debug)]
pub(super) struct Time {
    start: Instant,
    moments: AtomicU64,
}

/// The clocks of one machine.
#[derive(Debug)]
pub(super) struct Machine {
    time: Arc<Time>,
    /// What the monotonic clock showed when the run began: no two machines agree on it.
    booted: Duration,
    /// How far the time of day is from the beginning of 2026, less what has passed, in
    /// microseconds.
    off: AtomicI64,
}

/// The time of day at which runs begin, in microseconds since 1970.
const DAWN: u64 = 1_777_777_777_000_000;

// === impl Time ===

impl Time {
    /// Begins now. Only within a runtime whose time is paused.
    pub(super) fn begin() -> Arc<Self> {
        Arc::new(Self {
            start: instant(),
            moments: AtomicU64::new(0),
        })
    }

    /// How long the run has been going on.
    pub(super) fn passed(&self) -> Duration {
        let moments = self.moments.load(Ordering::Relaxed);
        instant().duration_since(self.start) + Duration::from_micros(moments)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is simulated time")]
fn instant() -> Instant {
    Instant::now()
}

// === impl Machine ===

impl Machine {
    pub(super) fn new(time: Arc<Time>, booted: Duration) -> Arc<Self> {
        Arc::new(Self {
            time,
            booted,
            off: AtomicI64::new(0),
        })
    }

    /// Sets the time of day forward or back by this many seconds, without time passing.
    pub(super) fn step(&self, seconds: i64) {
        self.off.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
    }
}

impl Clock for Machine {
    fn wall(&self) -> Timestamp {
        let off = self.off.load(Ordering::Relaxed);
        let passed = self.time.passed().as_micros() as u64;
        Timestamp::from_micros((DAWN + passed).saturating_add_signed(off))
    }

    fn monotonic(&self) -> Duration {
        self.booted + self.time.passed()
    }

    fn stopwatch(&self) -> Duration {
        self.monotonic()
    }
}

impl Passing for Machine {
    fn pass(&self, span: Duration) {
        let micros = span.as_micros() as u64;
        self.time.moments.fetch_add(micros, Ordering::Relaxed);
    }
}
