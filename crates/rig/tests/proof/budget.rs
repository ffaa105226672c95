//! How long a proof may take: trials are counted, minutes are kept.

use std::time::{Duration, Instant};

/// A span of real time to fill with trials.
#[derive(Debug)]
pub(crate) struct Budget {
    start: Instant,
    span: Duration,
}

#[allow(clippy::disallowed_methods)] // how long a proof goes on is real time, whatever it proves
impl Budget {
    /// Whether this is the long form.
    pub(crate) fn is_long() -> bool {
        std::env::var("ONCEWARD_PROOF").is_ok_and(|form| form == "long")
    }

    /// Starts a span of `seconds`, or a hundred times that in the long form.
    pub(crate) fn seconds(seconds: u64) -> Self {
        Self {
            start: Instant::now(),
            span: Self::span(seconds),
        }
    }

    /// What `seconds` are in this form.
    pub(crate) fn span(seconds: u64) -> Duration {
        let times = if Self::is_long() { 100 } else { 1 };
        Duration::from_secs(seconds * times)
    }

    /// Whether there is time for another trial.
    pub(crate) fn lasts(&self) -> bool {
        self.start.elapsed() < self.span
    }
}
