//! Plans: how often both sides of a comparison are measured in turn, and for how long.

use std::time::Duration;

/// How often both sides of a comparison are measured in turn, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    /// How long a side runs before it is measured.
    pub(crate) warm: Duration,
    pub(crate) span: Duration,
}

// === impl Plan ===

impl Plan {
    /// Returns the plan of a whole run, or of one that is to be over soon.
    pub(crate) fn new(is_quick: bool) -> Self {
        let (rounds, warm, span) = match is_quick {
            true => (2, 500, 1_500),
            false => (7, 1_000, 4_000),
        };
        Self {
            rounds,
            warm: Duration::from_millis(warm),
            span: Duration::from_millis(span),
        }
    }

    /// Returns a plan with more rounds, for a ratio that has a goal.
    pub(crate) fn thorough(self) -> Self {
        Self {
            rounds: self.rounds + 2,
            ..self
        }
    }

    /// Returns a plan with so many times as many rounds that are shorter by as much: whatever else
    /// the machine does for a moment then burdens few of them, and not the median.
    pub(crate) fn finer(self, times: u32) -> Self {
        Self {
            rounds: self.rounds * times as usize,
            span: self.span / times,
            ..self
        }
    }

    /// Returns a plan whose rounds last so many times as long.
    pub(crate) fn scaled(self, times: f64) -> Self {
        Self {
            warm: self.warm.mul_f64(times),
            span: self.span.mul_f64(times),
            ..self
        }
    }
}
