//! A clock moved by hand.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Timestamp;
use crate::clock::{Clock, micros};

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock {
    wall: AtomicU64,
    monotonic: AtomicU64,
}

// === impl ManualClock ===

impl ManualClock {
    /// Returns a clock at some moment of 2026.
    pub fn new() -> Self {
        Self {
            wall: AtomicU64::new(1_777_777_777_000_000),
            monotonic: AtomicU64::new(1_000_000_000),
        }
    }

    /// Lets time pass.
    pub fn advance(&self, span: Duration) {
        self.monotonic.fetch_add(micros(span), Ordering::Relaxed);
        self.step_forward(span);
    }

    /// Sets the time of day forward, without time passing.
    pub fn step_forward(&self, span: Duration) {
        self.wall.fetch_add(micros(span), Ordering::Relaxed);
    }

    /// Sets the time of day back, without time passing.
    pub fn step_back(&self, span: Duration) {
        self.wall.fetch_sub(micros(span), Ordering::Relaxed);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(self.wall.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.monotonic.load(Ordering::Relaxed))
    }

    fn stopwatch(&self) -> Duration {
        self.monotonic()
    }
}
