//! Looks: who looks a slot up that is not on the board.

use std::time::Duration;

use onceward::clock::Clock;

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Who looks a slot up: whoever asks for it, or a thread that may wait for a disk.
///
/// Of a small store, what says that a slot is empty is in memory. Of a large one it is in the
/// system's memory as a rule, and the way to a thread and back takes longer than the look; but where
/// it is on the disk alone, all callers of a runtime would wait behind one. Nobody can tell but by
/// looking. So looks are timed: while one takes too long others are the thread's, and where too many
/// are slow it is asked for a while.
#[derive(Debug)]
pub(super) struct Looks {
    is_large: AtomicBool,
    /// What slow looks have cost, less what quick ones have made up for.
    debt: AtomicU64,
    /// Until when the thread is asked, in microseconds by the stopwatch.
    aside: AtomicU64,
    /// When one of the looks under way began, by the same; 0 if none is known.
    since: AtomicU64,
}

// === impl Looks ===

impl Looks {
    /// A look that takes this long has waited for a disk, or for the processor, which is rarer.
    const SLOW: Duration = Duration::from_micros(200);

    /// So many quick looks make up for a slow one.
    const WEIGHT: u64 = 64;

    /// How much debt is too much: a few slow looks at once, or more than one in [`WEIGHT`] for long.
    ///
    /// [`WEIGHT`]: Self::WEIGHT
    const LIMIT: u64 = 8 * Self::WEIGHT;

    /// How long the thread is asked then.
    const PAUSE: Duration = Duration::from_secs(5);

    pub(super) fn new(is_large: bool) -> Self {
        Self {
            is_large: AtomicBool::new(is_large),
            debt: AtomicU64::new(0),
            aside: AtomicU64::new(0),
            since: AtomicU64::new(0),
        }
    }

    /// Takes note of whether a look may wait for a disk at all.
    pub(super) fn set_large(&self, is_large: bool) {
        self.is_large.store(is_large, Ordering::Relaxed);
    }

    /// Looks, unless that is for the thread to do.
    pub(super) fn look<T>(&self, clock: &dyn Clock, look: impl FnOnce() -> T) -> Option<T> {
        if !self.is_large.load(Ordering::Relaxed) {
            return Some(look());
        }
        let began = clock.stopwatch();
        let now = micros(began).max(1);
        let since = self.since.load(Ordering::Relaxed);
        let is_stuck = since != 0 && now.saturating_sub(since) >= micros(Self::SLOW);
        if is_stuck || now < self.aside.load(Ordering::Relaxed) {
            return None;
        }
        // One of many is enough: behind a disk that hangs the next one hangs as well.
        let is_known = since == 0 && self.begin(now);
        let found = look();
        if is_known {
            self.since.store(0, Ordering::Relaxed);
        }
        let ended = clock.stopwatch();
        match ended.saturating_sub(began) >= Self::SLOW {
            true => self.slow(ended),
            false => self.quick(),
        }
        Some(found)
    }

    /// Takes note of a look that begins, unless another one is under way.
    fn begin(&self, now: u64) -> bool {
        let begun = self
            .since
            .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        begun.is_ok()
    }

    fn slow(&self, now: Duration) {
        let debt = self.debt.fetch_add(Self::WEIGHT, Ordering::Relaxed);
        if debt + Self::WEIGHT > Self::LIMIT {
            let until = micros(now + Self::PAUSE);
            self.aside.store(until, Ordering::Relaxed);
            self.debt.store(0, Ordering::Relaxed);
        }
    }

    fn quick(&self) {
        if self.debt.load(Ordering::Relaxed) > 0 {
            let paid = |debt: u64| debt.checked_sub(1);
            // Somebody else may have made up for the last of it.
            let _ = self
                .debt
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, paid);
        }
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use onceward::testing::ManualClock;

    use super::*;

    /// Looks that take as long as they are told to.
    struct Site {
        looks: Looks,
        clock: ManualClock,
        asked: Cell<u64>,
    }

    impl Site {
        fn new(is_large: bool) -> Self {
            Self {
                looks: Looks::new(is_large),
                clock: ManualClock::default(),
                asked: Cell::new(0),
            }
        }

        /// Whether a look that takes so long was taken.
        fn look(&self, takes: Duration) -> bool {
            let look = || {
                self.asked.set(self.asked.get() + 1);
                self.clock.advance(takes);
            };
            self.looks.look(&self.clock, look).is_some()
        }
    }

    const QUICK: Duration = Duration::from_micros(5);

    #[test]
    fn slow_looks_are_left_to_the_thread_for_a_while() {
        let site = Site::new(true);
        let most = Looks::LIMIT / Looks::WEIGHT + 1;
        while site.look(Looks::SLOW) {
            assert!(site.asked.get() <= most);
        }
        assert_eq!(site.asked.get(), most);
        site.clock.advance(Looks::PAUSE - Looks::SLOW);
        assert!(!site.look(QUICK), "too early");
        site.clock.advance(Looks::SLOW);
        assert!(site.look(QUICK), "it is tried again");
        assert!(site.look(Looks::SLOW), "what was before counts no more");
    }

    #[test]
    fn a_slow_look_now_and_then_is_forgiven() {
        let site = Site::new(true);
        for _ in 0..100 {
            assert!(site.look(Looks::SLOW));
            for _ in 0..Looks::WEIGHT {
                assert!(site.look(QUICK));
            }
        }
        // A little more often is too often, in the end.
        let mut slow = 0;
        while site.look(Looks::SLOW) {
            slow += 1;
            assert!(slow < 1000);
            for _ in 0..Looks::WEIGHT / 2 {
                site.look(QUICK);
            }
        }
    }

    #[test]
    fn behind_a_look_that_hangs_nobody_else_does() {
        let site = Site::new(true);
        let first = site.looks.look(&site.clock, || {
            assert!(site.look(QUICK), "it may be quick yet");
            site.clock.advance(Looks::SLOW);
            assert!(!site.look(QUICK));
        });
        assert!(first.is_some());
        assert!(site.look(QUICK), "it is over");
    }

    #[test]
    fn a_small_store_is_looked_into_by_whoever_asks() {
        let site = Site::new(false);
        assert!((0..100).all(|_| site.look(Looks::SLOW)));
        site.looks.set_large(true);
        assert!((0..100).any(|_| !site.look(Looks::SLOW)));
        site.looks.set_large(false);
        assert!(site.look(Looks::SLOW));
    }
}
