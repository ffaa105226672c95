//! Connections at rest, newest on top.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use parking_lot::Mutex;

use super::Care;
use super::link::Link;

/// Connections that wait for their next request.
///
/// The newest is used first, so that the others can grow old; those are closed whenever somebody
/// comes or goes, and by [`reap`](Pool::reap) in quiet times.
#[derive(Debug)]
pub(super) struct Pool {
    idle: Mutex<VecDeque<Idle>>,
    idle_max: Duration,
    connections_max: usize,
}

#[derive(Debug)]
struct Idle {
    link: Box<Link>,
    since: Duration,
    good_for: Duration,
}

// === impl Pool ===

impl Pool {
    pub(super) fn new(idle_max: Duration, connections_max: usize) -> Self {
        Self {
            idle: Mutex::default(),
            idle_max,
            connections_max,
        }
    }

    /// Puts a connection to rest.
    pub(super) fn put(&self, link: Box<Link>, good_for: Duration, now: Duration) {
        let mut idle = self.idle.lock();
        let mut old = self.take_old(&mut idle, now);
        idle.push_back(Idle {
            link,
            since: now,
            good_for,
        });
        // The newest serves best.
        if idle.len() > self.connections_max {
            old.extend(idle.pop_front());
        }
        drop(idle);
        // Closing takes time that others need not wait for.
        drop(old);
    }

    /// Takes the newest connection that is good enough, open and silent.
    pub(super) fn take(&self, care: Care, now: Duration) -> Option<Box<Link>> {
        loop {
            let mut idle = self.idle.lock();
            let old = self.take_old(&mut idle, now);
            let newest = idle.pop_back_if(|newest| newest.age(now) <= care.idle_max());
            // Those below the newest are older still. They go, for a service that serves one
            // connection at a time would not look at a new one before they do.
            let too_old = match newest {
                Some(_) => VecDeque::new(),
                None => mem::take(&mut *idle),
            };
            drop(idle);
            drop((old, too_old));
            let mut newest = newest?;
            if newest.age(now) < newest.good_for && newest.link.is_sound() {
                return Some(newest.link);
            }
        }
    }

    /// Closes what has rested for too long.
    pub(super) fn reap(&self, now: Duration) {
        let old = self.take_old(&mut self.idle.lock(), now);
        drop(old);
    }

    /// How many connections are at rest.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.idle.lock().len()
    }

    fn take_old(&self, idle: &mut VecDeque<Idle>, now: Duration) -> Vec<Idle> {
        let mut old = Vec::new();
        while let Some(oldest) = idle.pop_front_if(|oldest| oldest.age(now) >= self.idle_max) {
            old.push(oldest);
        }
        old
    }
}

// === impl Idle ===

impl Idle {
    fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }
}
