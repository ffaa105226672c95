//! Connections at rest, newest on top.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock, RwLockWriteGuard};
use tokio::runtime::{Handle, Id};

use super::Care;
use super::link::Link;

/// Connections that wait for their next request, those of each runtime on a shelf of their own.
///
/// A connection is watched by the runtime that made it, so everybody uses their own. One that
/// nobody there has use for is lent out before another is made, for a service that can only serve
/// so many at a time would not look at a new one while it rests.
///
/// The newest is used first, so that the others can grow old; those are closed whenever somebody
/// comes or goes, and by [`reap`](Pool::reap) in quiet times.
#[derive(Debug)]
pub(super) struct Pool {
    shelves: RwLock<Vec<Shelf>>,
    /// Shared by all links, at rest or in use.
    links: Arc<()>,
    idle_max: Duration,
    connections_max: usize,
}

#[derive(Debug)]
struct Shelf {
    home: Id,
    idle: Mutex<VecDeque<Idle>>,
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
    /// A link that rested for so long is not needed where it was made.
    const LENT_AFTER: Duration = Duration::from_millis(100);

    pub(super) fn new(idle_max: Duration, connections_max: usize) -> Self {
        Self {
            shelves: RwLock::default(),
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
        let newest = Idle {
            link,
            since: now,
            good_for,
        };
        // Closing takes time that others need not wait for.
        drop(self.put_on_shelf(home, newest, now));
    }

    /// Takes the newest connection that is good enough, open and silent.
    pub(super) fn take(&self, care: Care, now: Duration) -> Option<Box<Link>> {
        let home = Handle::current().id();
        loop {
            let mut newest = self
                .take_own(home, care, now)
                .or_else(|| self.borrow(home, care, now))?;
            if newest.age(now) < newest.good_for && newest.link.is_sound() {
                return Some(newest.link);
            }
        }
    }

    /// Closes what has rested for too long.
    pub(super) fn reap(&self, now: Duration) {
        let mut shelves = self.shelves.write();
        let old: Vec<_> = shelves
            .iter()
            .map(|shelf| self.take_old(&mut shelf.idle.lock(), now))
            .collect();
        // Runtimes may come and go.
        shelves.retain(|shelf| !shelf.idle.lock().is_empty());
        drop(shelves);
        drop(old);
    }

    /// Puts a connection on its shelf, and returns those that have to go for it.
    fn put_on_shelf(&self, home: Id, newest: Idle, now: Duration) -> Vec<Idle> {
        let mut shelves = self.shelves.read();
        if !shelves.iter().any(|shelf| shelf.home == home) {
            drop(shelves);
            let mut writing = self.shelves.write();
            if !writing.iter().any(|shelf| shelf.home == home) {
                let idle = Mutex::default();
                writing.push(Shelf { home, idle });
            }
            shelves = RwLockWriteGuard::downgrade(writing);
        }
        let each = (self.connections_max / shelves.len()).max(1);
        let shelf = shelves.iter().find(|shelf| shelf.home == home);
        let mut idle = shelf.expect("it was just made").idle.lock();
        let mut old = self.take_old(&mut idle, now);
        idle.push_back(newest);
        // The newest serves best.
        while idle.len() > each {
            old.extend(idle.pop_front());
        }
        old
    }

    fn take_own(&self, home: Id, care: Care, now: Duration) -> Option<Idle> {
        let shelves = self.shelves.read();
        let shelf = shelves.iter().find(|shelf| shelf.home == home)?;
        let (newest, gone) = self.take_newest(shelf, care, now);
        drop(shelves);
        drop(gone);
        newest
    }

    /// Takes the newest of all that nobody else has use for.
    fn borrow(&self, home: Id, care: Care, now: Duration) -> Option<Idle> {
        let shelves = self.shelves.read();
        let others = shelves.iter().filter(|shelf| shelf.home != home);
        let newest = |shelf: &&Shelf| shelf.idle.lock().back().map(|idle| idle.since);
        let at_rest: usize = shelves.iter().map(|shelf| shelf.idle.lock().len()).sum();
        let is_calm = Arc::strong_count(&self.links) - 1 == at_rest;
        let is_unused = |since: Duration| is_calm || now.saturating_sub(since) >= Self::LENT_AFTER;
        let shelf = others
            .filter(|shelf| newest(shelf).is_some_and(is_unused))
            .max_by_key(newest)?;
        let (newest, gone) = self.take_newest(shelf, care, now);
        drop(shelves);
        drop(gone);
        newest
    }

    /// Takes the newest of a shelf, and whatever is to be closed.
    fn take_newest(&self, shelf: &Shelf, care: Care, now: Duration) -> (Option<Idle>, Vec<Idle>) {
        let mut idle = shelf.idle.lock();
        let mut gone = self.take_old(&mut idle, now);
        let newest = idle.pop_back_if(|newest| newest.age(now) <= care.idle_max());
        // Those below the newest are older still. They go, for a service that serves one
        // connection at a time would not look at a new one before they do.
        if newest.is_none() {
            gone.extend(mem::take(&mut *idle));
        }
        (newest, gone)
    }

    /// How many connections are at rest.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let shelves = self.shelves.read();
        shelves.iter().map(|shelf| shelf.idle.lock().len()).sum()
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
