//! Clocks: one time for the store, whatever the clocks of its servers say.
//!
//! The server that holds the clock's key is the one that the store's time follows. Each other one
//! of a cluster has its own distance to that time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use onceward::Timestamp;
use onceward::clock::GuardedClock;
use parking_lot::RwLock;

use crate::reckon::{Reckoning, Terms};

/// What a node knows of the servers' clocks.
#[derive(Debug)]
pub(super) struct Clocks {
    home: Reckoning,
    /// The number of the server that the store's time follows.
    leader: AtomicUsize,
    /// The others, by their numbers, as far as they were heard.
    others: RwLock<Vec<Option<Arc<Reckoning>>>>,
}

// === impl Clocks ===

impl Clocks {
    pub(super) fn new(home: Reckoning, leader: usize) -> Self {
        Self {
            home,
            leader: AtomicUsize::new(leader),
            others: RwLock::default(),
        }
    }

    /// The clock that stamps the records.
    pub(super) fn guard(&self) -> &GuardedClock {
        self.home.guard()
    }

    /// The stopwatch that [`Clocks::observe`] is told of.
    pub(super) fn stopwatch(&self) -> Duration {
        self.home.stopwatch()
    }

    /// What a command for this server needs to know of the time, if it is sent now.
    pub(super) fn terms(&self, server: Option<usize>) -> Terms {
        match server.and_then(|server| self.other(server)) {
            Some(other) => other.terms(),
            None => self.home.terms(),
        }
    }

    /// Takes note that a server's clock was `raw` at some moment since `sent`.
    pub(super) fn observe(&self, server: usize, raw: i64, sent: Duration) {
        if self.leads(server) {
            return self.home.observe(raw, sent);
        }
        if let Some(other) = self.other(server) {
            return other.observe(raw, sent);
        }
        let mut others = self.others.write();
        if others.len() <= server {
            others.resize_with(server + 1, || None);
        }
        others[server] = Some(Arc::new(self.home.beside(raw)));
    }

    /// The time that counts at the moment when a server's clock was `raw`, after that was
    /// observed, for somebody who asked under these terms.
    pub(super) fn now(&self, server: usize, raw: i64, asked: Terms) -> i64 {
        match self.other(server) {
            Some(other) => other.now(raw, asked),
            None => self.home.now(raw, asked),
        }
    }

    /// Takes note that somebody is told this time.
    pub(super) fn tell(&self, now: i64) -> Timestamp {
        self.home.tell(now)
    }

    /// Takes note of the server that holds the clock's key.
    pub(super) fn follow(&self, server: usize) {
        self.leader.store(server, Ordering::Relaxed);
    }

    fn leads(&self, server: usize) -> bool {
        self.leader.load(Ordering::Relaxed) == server
    }

    fn other(&self, server: usize) -> Option<Arc<Reckoning>> {
        if self.leads(server) {
            return None;
        }
        self.others.read().get(server).cloned().flatten()
    }
}

#[cfg(test)]
mod tests {
    use onceward::testing::ManualClock;

    use super::*;
    use crate::reckon::micros;

    const START: i64 = 1_800_000_000_000_000;
    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn servers_whose_clocks_differ_stamp_alike() {
        let own = Arc::new(ManualClock::new());
        let home = Reckoning::new(own.clone(), START, Timestamp::ZERO);
        let clocks = Clocks::new(home, 0);
        let ahead = micros(MINUTE);
        let sent = clocks.stopwatch();
        clocks.observe(1, START + ahead, sent);
        let there = clocks.terms(Some(1));
        assert_eq!(there.now(START + ahead), START);
        assert_eq!(clocks.terms(Some(0)).now(START), START);

        own.advance(Duration::from_secs(1));
        let later = START + 1_000_000;
        clocks.observe(1, later + ahead, sent);
        assert_eq!(clocks.now(1, later + ahead, there), later);
    }

    #[test]
    fn a_new_leader_is_followed_without_a_step() {
        let own = Arc::new(ManualClock::new());
        let home = Reckoning::new(own.clone(), START, Timestamp::ZERO);
        let clocks = Clocks::new(home, 0);
        clocks.follow(1);
        clocks.observe(1, START + micros(MINUTE), clocks.stopwatch());
        let now = clocks.terms(Some(1)).now(START + micros(MINUTE));
        assert!(now < START + 1_000_000, "{now}");
    }
}
