//! The intake: writes that were judged, and wait for the writer to take them all at once.

use std::mem;
use std::sync::Arc;

use onceward::bugs::{Bug, seeded};
use onceward::clock::GuardedClock;
use onceward::{SlotId, Timestamp};

use super::group::{Group, Number};
use super::sweep::Sweep;
use super::value::{Trace, Value};
use crate::sync::{Condvar, Mutex};

/// What the writer takes next.
#[derive(Debug)]
pub(super) struct Intake {
    tray: Mutex<Tray>,
    /// There is something to take, or nothing more will come.
    news: Condvar,
}

#[derive(Debug)]
struct Tray {
    taken: Taken,
    /// Those who wait for what the writer took last.
    writing: Option<Arc<Group>>,
    /// The writer sleeps until there is something.
    is_awaited: bool,
    is_closed: bool,
}

/// What was there to be taken.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) writes: Vec<Write>,
    /// The bytes of their records.
    bytes: usize,
    /// Those who wait for these writes.
    pub(super) group: Arc<Group>,
    pub(super) sweeps: Vec<Sweep>,
}

/// A write to a slot that holds what it saw.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) slot: SlotId,
    /// What the slot holds, durably.
    pub(super) before: Option<Trace>,
    /// What to put there, stamped with when it was judged; `None` removes.
    pub(super) after: Option<Value>,
    pub(super) now: Timestamp,
    pub(super) not_after: Timestamp,
}

/// Why a write is not taken in.
#[derive(Debug)]
pub(super) enum Refused {
    Late(Timestamp),
    /// There is room when this group has ended.
    Full(Arc<Group>),
    Closed,
}

// === impl Intake ===

impl Intake {
    /// How many writes one batch takes, and how many bytes of records.
    const WRITES_MAX: usize = 1024;
    const BYTES_MAX: usize = 8 << 20;

    pub(super) fn new() -> Self {
        Self {
            tray: Mutex::new(Tray {
                taken: Taken::empty(Number::NONE, Vec::new()),
                writing: None,
                is_awaited: false,
                is_closed: false,
            }),
            news: Condvar::new(),
        }
    }

    /// Takes a write in, stamped with the time. Returns that time, and the group it is part of.
    ///
    /// The time is read while nobody can take what is there: so nothing is stamped earlier than
    /// what was taken before it.
    pub(super) fn put(
        &self,
        clock: &GuardedClock,
        write: impl FnOnce(Timestamp) -> Write,
        not_after: Timestamp,
    ) -> Result<(Timestamp, Arc<Group>), Refused> {
        let mut tray = self.tray.lock();
        if tray.is_closed {
            return Err(Refused::Closed);
        }
        if tray.taken.is_full() {
            return Err(Refused::Full(Arc::clone(&tray.taken.group)));
        }
        let now = clock.now();
        if is_late(now, not_after) {
            return Err(Refused::Late(now));
        }
        let write = write(now);
        tray.taken.bytes += write.after.as_ref().map_or(0, Value::len);
        tray.taken.writes.push(write);
        let group = Arc::clone(&tray.taken.group);
        let is_awaited = mem::take(&mut tray.is_awaited);
        drop(tray);
        if is_awaited {
            self.news.notify_one();
        }
        Ok((now, group))
    }

    /// Asks for a sweep. `false` if nothing is taken in any more.
    pub(super) fn sweep(&self, sweep: Sweep) -> bool {
        let mut tray = self.tray.lock();
        if tray.is_closed {
            return false;
        }
        tray.taken.sweeps.push(sweep);
        tray.is_awaited = false;
        drop(tray);
        self.news.notify_one();
        true
    }

    /// Takes nothing in any more. What is there is still to be taken.
    pub(super) fn close(&self) {
        self.tray.lock().is_closed = true;
        self.news.notify_one();
    }

    /// Waits until there is something to take. `false` if nothing is there, nor will be.
    pub(super) fn wait(&self) -> bool {
        let mut tray = self.tray.lock();
        tray.is_awaited = true;
        self.news
            .wait_while(&mut tray, |tray| tray.taken.is_empty() && !tray.is_closed);
        tray.is_awaited = false;
        !tray.taken.is_empty()
    }

    /// How many writes are there, and whether there is room for more.
    pub(super) fn look(&self) -> (usize, bool) {
        let tray = self.tray.lock();
        (tray.taken.writes.len(), !tray.taken.is_full())
    }

    /// Takes everything, and tells when: what comes later is stamped no earlier. `room` is where the
    /// next writes go.
    pub(super) fn take(&self, clock: &GuardedClock, room: Vec<Write>) -> (Taken, Timestamp) {
        let mut tray = self.tray.lock();
        let fresh = Taken::empty(tray.taken.group.number(), room);
        let taken = mem::replace(&mut tray.taken, fresh);
        tray.writing = Some(Arc::clone(&taken.group));
        (taken, clock.now())
    }

    /// The group of this number, unless it ended.
    pub(super) fn group(&self, number: Number) -> Option<Arc<Group>> {
        let tray = self.tray.lock();
        let groups = tray.writing.iter().chain([&tray.taken.group]);
        let mut groups = groups.filter(|group| group.number() == number);
        groups.next().cloned()
    }
}

// === impl Taken ===

impl Taken {
    fn empty(before: Number, room: Vec<Write>) -> Self {
        Self {
            writes: room,
            bytes: 0,
            group: Group::after(before),
            sweeps: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.sweeps.is_empty()
    }

    fn is_full(&self) -> bool {
        self.writes.len() >= Intake::WRITES_MAX || self.bytes >= Intake::BYTES_MAX
    }
}

/// Whether a write that is judged `now` is too late.
pub(super) fn is_late(now: Timestamp, not_after: Timestamp) -> bool {
    now > not_after && !seeded(Bug::LateWriteHappens)
}
