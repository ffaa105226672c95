//! Connections at rest, newest on top.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};

use super::Care;
use super::link::Link;

/// Connections that wait for their next request, those of each runtime on a shelf of their own.
///
/// The newest is used first, so that the others can grow old; those are closed whenever somebody
/// comes or goes, and by [`reap`](Pool::reap) in quiet times.
///
/// A connection is watched by the runtime that made it, so others leave it alone while there is
/// work under way. When there is none, any connection will do: a service that serves one at a time
/// would not look at a new one while another rests.
#[derive(Debug)]
pub(super) struct Pool {
    shelves: Mutex<Vec<Shelf>>,
    /// Shared by all links, at rest or in use.
    links: Arc<()>,
    idle_max: Duration,
    connections_max: usize,
}

#[derive(Debug)]
struct Shelf {
    home: Id,
    idle: VecDeque<Idle>,
}

/// Which runtime watches a link, and which pool counts it.
#[derive(Debug)]
pub(super) struct Origin {
    home: Id,
    _links: Arc<()>,
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
            shelves: Mutex::default(),
            links: Arc::default(),
            idle_max,
            connections_max,
        }
    }

    /// The origin of a link that is made here and now.
    pub(super) fn origin(&self) -> Origin {
        Origin {
            home: Handle::current().id(),
            _links: Arc::clone(&self.links),
        }
    }

    /// Puts a connection to rest.
    pub(super) fn put(&self, link: Box<Link>, good_for: Duration, now: Duration) {
        let home = link.origin().home;
        let mut shelves = self.shelves.lock();
        let mut at = shelves.iter().position(|shelf| shelf.home == home);
        if at.is_none() {
            at = Some(shelves.len());
            shelves.push(Shelf::new(home));
        }
        let idle = &mut shelves[at.expect("there is one now")].idle;
        let mut old = self.take_old(idle, now);
        idle.push_back(Idle {
            link,
            since: now,
            good_for,
        });
        // The newest serves best.
        if idle.len() > self.connections_max {
            old.extend(idle.pop_front());
        }
        drop(shelves);
        // Closing takes time that others need not wait for.
        drop(old);
    }

    /// Takes the newest connection that is good enough, open and silent.
    pub(super) fn take(&self, care: Care, now: Duration) -> Option<Box<Link>> {
        let home = Handle::current().id();
        loop {
            let mut shelves = self.shelves.lock();
            let is_calm = self.is_calm(&shelves);
            let mut newest = None;
            let mut gone = Vec::new();
            for shelf in shelves
                .iter_mut()
                .filter(|shelf| is_calm || shelf.home == home)
            {
                gone.append(&mut self.take_old(&mut shelf.idle, now));
                if newest.is_some() {
                    continue;
                }
                newest = shelf
                    .idle
                    .pop_back_if(|newest| newest.age(now) <= care.idle_max());
                // Those below the newest are older still. They go, for a service that serves one
                // connection at a time would not look at a new one before they do.
                if newest.is_none() {
                    gone.extend(mem::take(&mut shelf.idle));
                }
            }
            drop(shelves);
            drop(gone);
            let mut newest = newest?;
            if newest.age(now) < newest.good_for && newest.link.is_sound() {
                return Some(newest.link);
            }
        }
    }

    /// Closes what has rested for too long.
    pub(super) fn reap(&self, now: Duration) {
        let mut shelves = self.shelves.lock();
        let shelves_old = shelves.iter_mut();
        let old: Vec<_> = shelves_old
            .map(|shelf| self.take_old(&mut shelf.idle, now))
            .collect();
        drop(shelves);
        drop(old);
    }

    /// Whether every link is at rest.
    fn is_calm(&self, shelves: &[Shelf]) -> bool {
        let at_rest: usize = shelves.iter().map(|shelf| shelf.idle.len()).sum();
        Arc::strong_count(&self.links) - 1 == at_rest
    }

    /// How many connections are at rest.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let shelves = self.shelves.lock();
        shelves.iter().map(|shelf| shelf.idle.len()).sum()
    }

    fn take_old(&self, idle: &mut VecDeque<Idle>, now: Duration) -> Vec<Idle> {
        let mut old = Vec::new();
        while let Some(oldest) = idle.pop_front_if(|oldest| oldest.age(now) >= self.idle_max) {
            old.push(oldest);
        }
        old
    }
}

// === impl Shelf ===

impl Shelf {
    fn new(home: Id) -> Self {
        Self {
            home,
            idle: VecDeque::new(),
        }
    }
}

// === impl Idle ===

impl Idle {
    fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }
}
