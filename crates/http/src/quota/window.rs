//! Windows: how much was taken in the last second, minute or day.

use std::time::Duration;

/// How much may be taken within a span of time, whenever that begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rate {
    pub(super) limit: u32,
    pub(super) span: Duration,
}

/// What was taken within the last span, in slices of it.
///
/// The slice that is not over yet counts besides a whole span of those that are: the limit is
/// never passed within any span, and a caller that takes all it can gets 48 parts of 49.
#[derive(Clone, Debug)]
pub(super) struct Window {
    slices: [u32; Self::SLICES + 1],
    total: u32,
    /// The number of the slice that is not over yet.
    current: u64,
}

// === impl Rate ===

impl Rate {
    pub(super) fn new(limit: Option<u32>, secs: u64) -> Option<Self> {
        limit.map(|limit| Self {
            limit,
            span: Duration::from_secs(secs),
        })
    }

    fn slice(&self) -> u64 {
        (self.span.as_nanos() / Window::SLICES as u128) as u64
    }

    fn number(&self, now: Duration) -> u64 {
        u64::try_from(now.as_nanos()).unwrap_or(u64::MAX) / self.slice()
    }

    /// How much is left at `now`.
    pub(super) fn left(&self, window: &mut Window, now: Duration) -> u32 {
        u32::try_from(self.margin(window, now)).unwrap_or(0)
    }

    /// How much is left at `now`, or by how much the limit is passed.
    pub(super) fn margin(&self, window: &mut Window, now: Duration) -> i64 {
        window.go_to(self.number(now));
        i64::from(self.limit) - i64::from(window.total)
    }

    /// Takes one, and returns from which slice. Whoever calls has seen that some is left.
    pub(super) fn take(&self, window: &mut Window, now: Duration) -> u64 {
        window.go_to(self.number(now));
        window.slices[Window::place(window.current)] += 1;
        window.total += 1;
        window.current
    }

    /// How long until there is more than now.
    pub(super) fn renews_in(&self, window: &Window, now: Duration) -> Duration {
        let ring = Window::SLICES as u64 + 1;
        let first = window.current.saturating_sub(Window::SLICES as u64);
        let oldest = (first..=window.current).find(|it| window.slices[Window::place(*it)] > 0);
        let Some(oldest) = oldest else {
            return Duration::ZERO;
        };
        let leaves = Duration::from_nanos((oldest + ring).saturating_mul(self.slice()));
        leaves.saturating_sub(now)
    }
}

// === impl Window ===

impl Window {
    /// Slices of a span: enough for 48/49 of a rate, and little to keep for each caller.
    const SLICES: usize = 48;

    /// Gives back what was taken from a slice, unless that is forgotten already.
    pub(super) fn give_back(&mut self, slice: u64) {
        let kept = slice <= self.current && self.current - slice <= Self::SLICES as u64;
        let count = &mut self.slices[Self::place(slice)];
        if kept && *count > 0 {
            *count -= 1;
            self.total -= 1;
        }
    }

    /// Whether nothing counts any more.
    pub(super) fn is_empty(&self) -> bool {
        self.total == 0
    }

    fn go_to(&mut self, number: u64) {
        let passed = number.saturating_sub(self.current);
        for step in 0..passed.min(self.slices.len() as u64) {
            let gone = &mut self.slices[Self::place(number - step)];
            self.total -= std::mem::take(gone);
        }
        self.current = self.current.max(number);
    }

    fn place(number: u64) -> usize {
        (number % (Self::SLICES as u64 + 1)) as usize
    }
}

impl Default for Window {
    fn default() -> Self {
        Self {
            slices: [0; Self::SLICES + 1],
            total: 0,
            current: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATE: Rate = Rate {
        limit: 10,
        span: Duration::from_secs(1),
    };

    /// Takes one at this millisecond, if there is one.
    fn taken(window: &mut Window, ms: u64) -> bool {
        let now = Duration::from_millis(ms);
        let left = RATE.left(window, now) > 0;
        if left {
            RATE.take(window, now);
        }
        left
    }

    #[test]
    fn all_can_be_taken_at_once_and_then_no_more_for_a_second() {
        let mut window = Window::default();
        let first = (0..20).filter(|_| taken(&mut window, 5_000)).count();
        assert_eq!(first, 10);
        let renews = RATE.renews_in(&window, Duration::from_millis(5_000));
        assert!(renews > Duration::from_secs(1) && renews < Duration::from_millis(1_042));
        assert!(!taken(&mut window, 6_000));
        assert!(taken(&mut window, 6_042));
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let mut window = Window::default();
        let now = Duration::from_secs(3);
        let slices: Vec<_> = (0..10).map(|_| RATE.take(&mut window, now)).collect();
        assert_eq!(RATE.left(&mut window, now), 0);
        window.give_back(slices[0]);
        assert_eq!(RATE.left(&mut window, now), 1);
        // Long after it has left the window by itself, nothing is given back twice.
        let later = Duration::from_secs(9);
        assert_eq!(RATE.left(&mut window, later), 10);
        window.give_back(slices[1]);
        assert_eq!(RATE.left(&mut window, later), 10);
        assert!(window.is_empty());
    }

    #[test]
    fn a_caller_that_takes_all_it_can_gets_the_rate() {
        let mut window = Window::default();
        let all = (0..100_000).filter(|ms| taken(&mut window, *ms)).count();
        assert!((960..=1_000).contains(&all), "{all} of 1000");
    }

    proptest! {
        #[test]
        fn no_second_holds_more_than_the_limit(steps in prop::collection::vec(0_u64..400, 1..300)) {
            let (mut window, mut ms, mut times) = (Window::default(), 7_000, Vec::new());
            for step in steps {
                ms += step / 8;
                if taken(&mut window, ms) {
                    times.push(ms);
                }
            }
            for (at, first) in times.iter().enumerate() {
                let within = times[at..].iter().filter(|time| **time < first + 1_000).count();
                prop_assert!(within <= 10);
            }
        }
    }
}
