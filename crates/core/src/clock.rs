//! Clocks: the only file that reads the machine's time.
//!
//! The store tells the time that counts. Stores without a server of their own use a
//! [`GuardedClock`], which neither goes back nor jumps; a holder's own deadline runs on
//! [`Clock::monotonic`].

use std::fmt;
use std::ops::Add;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A moment, in microseconds since 1970, by the clock of a store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

/// Where the machine's time comes from.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time of day, which may step in either direction.
    fn wall(&self) -> Timestamp;

    /// The time since some fixed moment, which never goes back. Cheap, and good to a few
    /// milliseconds: what leases are measured by.
    fn monotonic(&self) -> Duration;

    /// The time since some other fixed moment, to the microsecond: what latencies are measured
    /// by.
    fn stopwatch(&self) -> Duration;
}

/// The machine's own clocks.
#[derive(Clone, Copy, Default, Debug)]
pub struct SystemClock;

/// The time of day without its steps: it advances with the monotonic clock and follows the wall
/// clock's forward steps only slowly.
///
/// A clock set back never shortens a lease or a retention, for this clock does not go back. A
/// clock set forward does not make everything expire at once: the difference is worked off at a
/// tenth of the speed of time, so that nothing ends before nine tenths of its time were lived
/// through. Across a restart forward time is believed.
#[derive(Debug)]
pub struct GuardedClock {
    clock: Arc<dyn Clock>,
    /// Guarded time less monotonic time, in microseconds. Only ever grows.
    offset: AtomicI64,
    /// The monotonic time, in microseconds, at which the wall clock is looked at again.
    next_look: AtomicU64,
}

// === impl Timestamp ===

impl Timestamp {
    /// The beginning of 1970.
    pub const ZERO: Self = Self(0);

    /// Later than every moment: what never comes due is due then.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the moment this many microseconds after the beginning of 1970.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the beginning of 1970.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; nothing if it is before.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// This moment less `span`.
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(micros(span)))
    }
}

/// Saturates at [`Timestamp::NEVER`], so that an endless retention stays endless.
impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros(span)))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NEVER => f.write_str("never"),
            Self(micros) => write!(f, "{}.{:06}s", micros / 1_000_000, micros % 1_000_000),
        }
    }
}

/// A span in microseconds, or the longest one where it does not fit.
pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

// === impl SystemClock ===

impl Clock for SystemClock {
    fn wall(&self) -> Timestamp {
        #[allow(clippy::disallowed_methods)] // the one place that reads the time of day
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        Timestamp(since_epoch.map_or(0, micros))
    }

    /// Coarse on Linux: a few milliseconds of resolution at a tenth of the price. Leases are
    /// measured in seconds, and this is read on every claim.
    #[cfg(target_os = "linux")]
    fn monotonic(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
        Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
    }

    #[cfg(not(target_os = "linux"))]
    fn monotonic(&self) -> Duration {
        self.stopwatch()
    }

    #[allow(clippy::disallowed_methods)] // the one place that reads the monotonic clock
    fn stopwatch(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }
}

// === impl GuardedClock ===

impl GuardedClock {
    /// A wall clock further off than this is called suspect.
    pub const SUSPECT: Duration = Duration::from_secs(60);

    const LOOK_EVERY: u64 = 100_000;
    /// Guarded time runs at most this fraction faster than monotonic time.
    pub(crate) const CATCH_UP: u64 = 10;

    /// Returns a guarded clock that starts at the time of day, or at `floor` where that is later:
    /// a store passes the last moment it has on record.
    pub fn new(clock: Arc<dyn Clock>, floor: Timestamp) -> Self {
        let monotonic = micros(clock.monotonic());
        let start = clock.wall().max(floor);
        Self {
            offset: AtomicI64::new(start.0 as i64 - monotonic as i64),
            next_look: AtomicU64::new(monotonic + Self::LOOK_EVERY),
            clock,
        }
    }

    /// The guarded time.
    pub fn now(&self) -> Timestamp {
        let monotonic = micros(self.clock.monotonic());
        let due = self.next_look.load(Ordering::Relaxed);
        if monotonic >= due {
            self.look(monotonic, due);
        }
        self.at(monotonic)
    }

    /// How far the time of day is from guarded time: ahead of it, then behind it.
    pub fn drift(&self) -> (Duration, Duration) {
        let (wall, guarded) = (self.clock.wall(), self.now());
        (wall.since(guarded), guarded.since(wall))
    }

    /// Whether the time of day is so far off that a step must have happened.
    pub fn is_suspect(&self) -> bool {
        let (ahead, behind) = self.drift();
        ahead.max(behind) > Self::SUSPECT
    }

    /// Believes the time of day from now on: what an operator says after looking at it.
    ///
    /// Returns how far that moved guarded time; it never moves back.
    pub fn confirm(&self) -> Duration {
        // In this order: what passes in between makes it too little, and never too much.
        let wall = self.clock.wall().0;
        let offset = wall as i64 - micros(self.clock.monotonic()) as i64;
        // The greatest counts: two who confirm the same step must not move it twice.
        let before = self.offset.fetch_max(offset, Ordering::Relaxed);
        Duration::from_micros(offset.saturating_sub(before).max(0).unsigned_abs())
    }

    fn at(&self, monotonic: u64) -> Timestamp {
        let offset = self.offset.load(Ordering::Relaxed);
        Timestamp(monotonic.saturating_add_signed(offset))
    }

    /// Follows the wall clock a little, if it is ahead. One thread looks, the others go on.
    fn look(&self, monotonic: u64, due: u64) {
        let next = monotonic + Self::LOOK_EVERY;
        let won = self
            .next_look
            .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        if won.is_err() {
            return;
        }
        let offset = self.offset.load(Ordering::Relaxed);
        let guarded = monotonic.saturating_add_signed(offset);
        let ahead = self.clock.wall().0.saturating_sub(guarded);
        let lived = monotonic - (due - Self::LOOK_EVERY);
        let step = ahead.min(lived / Self::CATCH_UP);
        // Not added to whatever it is by now: a step that was confirmed meanwhile is worked off.
        self.offset
            .fetch_max(offset + step as i64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ManualClock;

    const DAY: Duration = Duration::from_secs(86_400);
    const MINUTE: Duration = Duration::from_secs(60);

    fn guarded() -> (Arc<ManualClock>, GuardedClock) {
        let clock = Arc::new(ManualClock::new());
        let guard = GuardedClock::new(clock.clone(), Timestamp::ZERO);
        (clock, guard)
    }

    #[test]
    fn a_backward_step_does_not_move_it() {
        let (clock, guard) = guarded();
        let before = guard.now();
        clock.step_back(DAY);
        clock.advance(MINUTE);
        assert_eq!(guard.now(), before + MINUTE);
        assert!(guard.is_suspect());
    }

    #[test]
    fn a_forward_step_is_worked_off_at_a_tenth_of_the_speed_of_time() {
        let (clock, guard) = guarded();
        let before = guard.now();
        clock.step_forward(30 * DAY);
        for _ in 0..600 {
            clock.advance(Duration::from_secs(1));
            guard.now();
        }
        assert_eq!(guard.now().since(before), 10 * MINUTE + MINUTE);
        assert!(guard.is_suspect());
    }

    #[test]
    fn a_small_drift_is_caught_up_with() {
        let (clock, guard) = guarded();
        clock.step_forward(Duration::from_secs(3));
        for _ in 0..60 {
            clock.advance(Duration::from_secs(1));
            guard.now();
        }
        assert_eq!(guard.now(), clock.wall());
        assert!(!guard.is_suspect());
    }

    #[test]
    fn an_operator_can_confirm_a_step() {
        let (clock, guard) = guarded();
        clock.step_forward(DAY);
        assert_eq!(guard.confirm(), DAY);
        assert_eq!(guard.now(), clock.wall());
    }

    #[test]
    fn it_does_not_start_before_what_is_on_record() {
        let clock = Arc::new(ManualClock::new());
        let floor = clock.wall() + DAY;
        let guard = GuardedClock::new(clock.clone(), floor);
        clock.advance(MINUTE);
        assert_eq!(guard.now(), floor + MINUTE);
    }

    #[test]
    fn endless_spans_stay_endless() {
        assert_eq!(Timestamp::from_micros(7) + Duration::MAX, Timestamp::NEVER);
    }

    #[test]
    fn the_system_clock_moves_forward() {
        let clock = SystemClock;
        let (wall, monotonic) = (clock.wall(), clock.monotonic());
        assert!(wall > Timestamp::from_micros(1_700_000_000_000_000));
        assert!(clock.monotonic() >= monotonic);
    }
}
