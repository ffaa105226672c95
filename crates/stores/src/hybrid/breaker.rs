//! The breaker: a cache that does not answer is left out for a while, so that nobody waits for it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Whether the cache is asked.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    /// Failures since the last success.
    failures: AtomicU32,
    /// When the cache is tried again, in microseconds of monotonic time; 0 while it answers.
    again: AtomicU64,
}

// === impl Breaker ===

impl Breaker {
    /// This many failures in a row are not chance.
    const FAILURES: u32 = 3;
    /// How long the cache is first left out; longer with every failure that follows.
    const FIRST: Duration = Duration::from_secs(1);
    /// How often the longest pause is twice the one before.
    const DOUBLINGS: u32 = 3;

    /// Whether to ask the cache now. While it is left out, one caller at a time tries it.
    pub(super) fn lets_pass(&self, now: Duration) -> bool {
        let again = self.again.load(Ordering::Relaxed);
        if again == 0 {
            return true;
        }
        if micros(now) < again {
            return false;
        }
        let next = micros(now + Self::FIRST);
        let won = self
            .again
            .compare_exchange(again, next, Ordering::Relaxed, Ordering::Relaxed);
        won.is_ok()
    }

    /// Whether the cache answers, as far as is known.
    pub(super) fn is_closed(&self) -> bool {
        self.again.load(Ordering::Relaxed) == 0
    }

    /// Takes note of an answer.
    pub(super) fn succeeded(&self) {
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
            self.again.store(0, Ordering::Relaxed);
        }
    }

    /// Takes note of a failure. Returns whether the cache is left out from now on.
    pub(super) fn failed(&self, now: Duration) -> bool {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if failures < Self::FAILURES {
            return false;
        }
        let doublings = (failures - Self::FAILURES).min(Self::DOUBLINGS);
        let pause = Self::FIRST * (1 << doublings);
        // Nodes that lost the cache together do not come back to it together.
        let pause = pause.mul_f64(0.75 + fastrand::f64() / 2.0);
        self.again.store(micros(now + pause), Ordering::Relaxed);
        failures == Self::FAILURES
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn broken() -> Breaker {
        let breaker = Breaker::default();
        let opened: Vec<_> = (0..3).map(|_| breaker.failed(SECOND)).collect();
        assert_eq!(opened, [false, false, true]);
        breaker
    }

    #[test]
    fn a_cache_that_fails_in_a_row_is_left_out() {
        let breaker = Breaker::default();
        breaker.failed(SECOND);
        breaker.failed(SECOND);
        breaker.succeeded();
        breaker.failed(SECOND);
        assert!(breaker.lets_pass(SECOND) && breaker.is_closed());
        assert!(!broken().lets_pass(SECOND + SECOND / 2));
    }

    #[test]
    fn one_caller_at_a_time_tries_it_again() {
        let breaker = broken();
        let later = 3 * SECOND;
        assert!(breaker.lets_pass(later));
        assert!(!breaker.lets_pass(later));
        breaker.succeeded();
        assert!(breaker.lets_pass(later) && breaker.is_closed());
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let breaker = broken();
        for _ in 0..20 {
            breaker.failed(SECOND);
        }
        assert!(!breaker.lets_pass(SECOND * 6));
        assert!(breaker.lets_pass(SECOND * 12));
    }
}
