//! Reckoning: the store's time, made from the server's clock without its steps.
//!
//! The server's clock is the one that all nodes see, and may be set forward or back under way.
//! Every answer brings a reading of it; with the moments of asking and hearing, by this machine's
//! monotonic clock, that bounds how far the two are apart. A [`GuardedClock`] then runs on
//! "monotonic time plus that distance": it does not go back, and follows a forward step slowly.
//!
//! A statement gets two numbers. The `floor` is guarded time when it was sent, and no write is
//! stamped earlier. The `shift` is what the guard adds to the server's clock: nothing, as long as
//! the two agree to a second, so that nodes stamp with one and the same clock; else the difference,
//! so that neither step comes through. A write for which the server's clock turns out to be
//! seconds past the floor does not happen; by then its answer has told of the step, and the next
//! try knows better.
//!
//! Limits: a node that starts believes the server's clock where that is ahead, as every store
//! does across a restart; nodes that saw a step and nodes that started after it differ by it
//! until the guard has worked it off. Safety never depends on a clock: only leases and the end of
//! retentions do.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use onceward::Timestamp;
use onceward::clock::{Clock, GuardedClock};

/// How far past the floor a stamp may be, in microseconds: longer than a statement takes to get to
/// the server, and shorter than any lease.
pub(crate) const AHEAD_MAX: i64 = 2_000_000;

/// What a node knows of the server's time.
#[derive(Debug)]
pub(crate) struct Reckoning {
    server: Arc<ServerClock>,
    guard: Arc<GuardedClock>,
    /// The latest time in any answer, in microseconds: nobody is told an earlier one afterwards.
    latest: Arc<AtomicI64>,
}

/// What a statement needs to know of the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Terms {
    /// What is added to the server's clock, in microseconds.
    pub(crate) shift: i64,
    /// The earliest time that counts, in microseconds since 1970.
    pub(crate) floor: i64,
}

/// The server's clock as it can be told from here.
#[derive(Debug)]
struct ServerClock {
    machine: Arc<dyn Clock>,
    /// The server's clock less our stopwatch, in microseconds.
    ahead: AtomicI64,
}

// === impl Reckoning ===

impl Reckoning {
    /// Differences below this are network and scheduling, not a step: a second.
    const AGREE: i64 = 1_000_000;

    /// Returns the reckoning of a node that saw the server's clock at `raw` just now, and found
    /// `on_record` as the highest time so far.
    pub(crate) fn new(machine: Arc<dyn Clock>, raw: i64, on_record: Timestamp) -> Self {
        let heard = micros(machine.stopwatch());
        let server = Arc::new(ServerClock {
            machine,
            ahead: AtomicI64::new(raw - heard),
        });
        let guard = GuardedClock::new(Arc::clone(&server) as Arc<dyn Clock>, on_record);
        Self {
            server,
            guard: Arc::new(guard),
            latest: Arc::default(),
        }
    }

    /// Returns the reckoning of another server of the same store, whose clock was seen at `raw`
    /// just now: one time for both, whatever their clocks say.
    #[cfg(feature = "redis")]
    pub(crate) fn beside(&self, raw: i64) -> Self {
        let machine = Arc::clone(&self.server.machine);
        let ahead = AtomicI64::new(raw - micros(machine.stopwatch()));
        Self {
            server: Arc::new(ServerClock { machine, ahead }),
            guard: Arc::clone(&self.guard),
            latest: Arc::clone(&self.latest),
        }
    }

    /// The stopwatch that [`Reckoning::observe`] is told of.
    pub(crate) fn stopwatch(&self) -> Duration {
        self.server.machine.stopwatch()
    }

    /// Takes note that the server's clock was `raw` at some moment since `sent`.
    pub(crate) fn observe(&self, raw: i64, sent: Duration) {
        let heard = micros(self.stopwatch());
        let (least, most) = (raw - heard, raw - micros(sent).min(heard));
        let ahead = self.server.ahead.load(Ordering::Relaxed);
        // What it was is kept as long as it may be right: a slow answer says little.
        let bound = ahead.clamp(least, most);
        if bound != ahead {
            self.server.ahead.store(bound, Ordering::Relaxed);
        }
    }

    /// Takes note that somebody is told this time.
    pub(crate) fn tell(&self, now: i64) -> Timestamp {
        self.latest.fetch_max(now, Ordering::Relaxed);
        timestamp(now)
    }

    /// What a statement that is sent now needs to know.
    pub(crate) fn terms(&self) -> Terms {
        let guarded = as_i64(self.guard.now());
        let apart = guarded - as_i64(self.server.wall());
        let shift = if apart.abs() < Self::AGREE { 0 } else { apart };
        let floor = guarded.max(self.latest.load(Ordering::Relaxed));
        Terms { shift, floor }
    }

    /// The time that counts at the moment when the server's clock was `raw`, after that was
    /// observed, for somebody who asked under these terms. It is no later than guarded time and
    /// what is taken for agreement.
    pub(crate) fn now(&self, raw: i64, asked: Terms) -> i64 {
        let heard = self.terms();
        let most = as_i64(self.guard.now()).saturating_add(Self::AGREE);
        let now = raw.saturating_add(heard.shift).min(most);
        now.max(asked.floor)
    }

    /// The clock that stamps the records.
    pub(crate) fn guard(&self) -> &GuardedClock {
        &self.guard
    }
}

// === impl Terms ===

#[cfg(any(feature = "postgres", test))]
impl Terms {
    /// The time that counts at a moment when the server's clock is `raw`, no further past the
    /// floor than a stamp may be.
    pub(crate) fn now(self, raw: i64) -> i64 {
        let now = raw.saturating_add(self.shift).max(self.floor);
        now.min(self.floor.saturating_add(AHEAD_MAX))
    }
}

// === impl ServerClock ===

impl Clock for ServerClock {
    fn wall(&self) -> Timestamp {
        let own = micros(self.machine.stopwatch());
        timestamp(own + self.ahead.load(Ordering::Relaxed))
    }

    /// The fine one: the coarse one's steps would look like the server's.
    fn monotonic(&self) -> Duration {
        self.machine.stopwatch()
    }

    fn stopwatch(&self) -> Duration {
        self.machine.stopwatch()
    }
}

/// Microseconds as a statement takes them: what is past the end is the end.
pub(crate) fn as_i64(at: Timestamp) -> i64 {
    i64::try_from(at.as_micros()).unwrap_or(i64::MAX)
}

/// A span as a statement takes it.
pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// A moment as a statement gave it.
pub(crate) fn timestamp(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros.max(0).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use onceward::testing::ManualClock;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const MINUTE: Duration = Duration::from_secs(60);
    const START: i64 = 1_800_000_000_000_000;

    /// A node and a server whose clock is `START` plus what has passed plus its steps.
    struct World {
        own: Arc<ManualClock>,
        began: Duration,
        step: i64,
        node: Reckoning,
    }

    impl World {
        fn new() -> Self {
            let own = Arc::new(ManualClock::new());
            let node = Reckoning::new(own.clone(), START, Timestamp::ZERO);
            let began = own.stopwatch();
            Self {
                own,
                began,
                step: 0,
                node,
            }
        }

        fn raw(&self) -> i64 {
            START + micros(self.own.stopwatch() - self.began) + self.step
        }

        /// Lets time pass, with a word from the server every second.
        fn pass(&self, span: Duration) {
            for _ in 0..span.as_secs() {
                self.own.advance(Duration::from_secs(1));
                self.node.observe(self.raw(), self.own.stopwatch());
                self.node.guard.now();
            }
        }

        /// What a statement would stamp that is sent and run now, if it does.
        fn try_stamp(&self) -> Option<i64> {
            let Terms { shift, floor } = self.node.terms();
            let now = (self.raw() + shift).max(floor);
            (now <= floor + AHEAD_MAX).then_some(now)
        }

        fn stamp(&self) -> i64 {
            self.try_stamp().unwrap()
        }

        /// What a reader is told that asks and hears now.
        fn read(&self) -> i64 {
            let asked = self.node.terms();
            self.node.observe(self.raw(), self.own.stopwatch());
            self.node.now(self.raw(), asked)
        }
    }

    #[test]
    fn a_sound_server_stamps_with_its_own_clock() {
        let world = World::new();
        world.pass(MINUTE);
        assert_eq!(world.node.terms().shift, 0);
        assert_eq!(world.stamp(), world.raw());
    }

    #[test]
    fn a_step_back_does_not_come_through() {
        let mut world = World::new();
        let before = world.stamp();
        world.step = -micros(2 * HOUR);
        assert!(world.stamp() >= before);
        world.pass(MINUTE);
        assert_eq!(world.stamp(), before + micros(MINUTE));
    }

    #[test]
    fn a_step_forward_is_worked_off_slowly() {
        let mut world = World::new();
        let before = world.stamp();
        world.step = micros(2 * HOUR);
        // Nothing was heard of it yet: nothing is written, and whoever reads hears of it.
        assert_eq!(world.try_stamp(), None);
        assert_eq!(world.read(), before);
        assert_eq!(world.stamp(), before);
        world.pass(MINUTE);
        let lived = world.stamp() - before;
        assert!(lived <= micros(MINUTE) * 11 / 10, "{lived}");
    }

    #[test]
    fn a_slow_answer_is_not_taken_for_a_step() {
        let world = World::new();
        world.pass(MINUTE);
        let (raw, sent) = (world.raw(), world.own.stopwatch());
        world.own.advance(Duration::from_secs(4));
        world.node.observe(raw, sent);
        assert_eq!(world.node.terms().shift, 0);
        assert_eq!(world.stamp(), world.raw());
    }

    #[test]
    fn a_node_starts_where_others_were() {
        let own = Arc::new(ManualClock::new());
        let on_record = timestamp(START + micros(HOUR));
        let node = Reckoning::new(own.clone(), START, on_record);
        own.advance(MINUTE);
        assert_eq!(node.terms().floor, START + micros(HOUR + MINUTE));
        assert_eq!(node.terms().shift, micros(HOUR));
    }

    #[test]
    fn nobody_is_told_an_earlier_time_than_somebody_before() {
        let world = World::new();
        let told = world.raw() + 5_000;
        world.node.tell(told);
        assert_eq!(world.node.terms().floor, told);
    }
}
