//! How long a proof may take: trials are counted, minutes are kept.

use std::time::{Duration, Instant};

/// A span of real time to fill with trials.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    start: Instant,
    span: Duration,
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a proof goes on is real time, whatever it proves"
)]
impl Budget {
    /// Starts a span of `seconds`, or a hundred times that in the long form.
    pub(crate) fn seconds(seconds: u64) -> Self {
        let times = if Self::is_long() { 100 } else { 1 };
        Self {
            start: Instant::now(),
            span: Duration::from_secs(seconds * times),
        }
    }

    /// Whether the long form is asked for.
    pub(crate) fn is_long() -> bool {
        std::env::var("ONCEWARD_PROOF").is_ok_and(|form| form == "long")
    }

    /// Whether there is time for another trial.
    pub(crate) fn lasts(&self) -> bool {
        self.start.elapsed() < self.span
    }
}
