//! The writer: one thread that makes all changes, so that comparing and swapping needs no lock.
//!
//! It takes whatever is waiting, judges each write against the batch so far and then against the
//! database, commits once, and answers. A lone caller pays for one commit and waits for nobody.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use onceward::bugs::{Bug, seeded};
use onceward::{BoxError, Fence, SlotId, Timestamp};
use tokio::sync::mpsc;

use super::base::Base;
use super::batch::{Batch, Judged};
use super::claims::{Claims, Slots};
use super::couriers::{Courier, Reply};
use super::disk::Reserve;
use super::head::Head;
use super::journal::{Mark, Place};
use super::keeper::Keeper;
use super::lull::Lull;
use super::recent::Ticket;
use super::shared::Shared;
use super::sweep::{Cursor, Sweep};
use super::value::{Draft, Value};
use crate::sync::atomic::Ordering;
use crate::sync::{recv, thread};

/// What is asked of the writer.
#[derive(Debug)]
pub(super) enum Ask {
    Write(Write),
    Sweep(Sweep),
    /// Look up: the store is being closed.
    Wake,
}

/// A write that names what it saw.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) slot: SlotId,
    /// The fence in the slot; `None` is an empty slot.
    pub(super) seen: Option<Fence>,
    /// What to put there; `None` removes.
    pub(super) draft: Option<Draft>,
    /// It begins something new, which a disk that is nearly full has no room for.
    pub(super) is_beginning: bool,
    pub(super) not_after: Timestamp,
    pub(super) reply: Reply,
    /// Who hands the answer out, where many are answered at once.
    pub(super) courier: Option<Arc<Courier>>,
}

/// What became of a write, and when.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) now: Timestamp,
    /// For remembering the record.
    pub(super) ticket: Ticket,
    pub(super) became: Became,
}

#[derive(Debug)]
pub(super) enum Became {
    Done,
    Found(Option<Value>),
    Late,
}

/// The writer's own state. Nobody else has any of it.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) asks: mpsc::Receiver<Ask>,
    pub(super) claims: Claims,
    pub(super) cursor: Cursor,
    /// How far everything is dealt with that is due and a matter for the protocol.
    pub(super) chores: Cursor,
    pub(super) mark: Mark,
    pub(super) place: Place,
    pub(super) epoch: u64,
    pub(super) keeper: Keeper,
    pub(super) reserve: Reserve,
    pub(super) batch: Batch,
    /// Those who hear of the batch once it is durable.
    pub(super) waiting: Vec<Waiting>,
    /// Those who have answers to hand out, while the batch is answered.
    pub(super) couriers: Vec<Arc<Courier>>,
    pub(super) sweeps: VecDeque<Sweep>,
    /// How many callers the last batch answered.
    pub(super) answered: usize,
    pub(super) lull: Lull,
}

#[derive(Debug)]
pub(super) struct Waiting {
    slot: SlotId,
    now: Timestamp,
    became: Became,
    /// The fence of what the caller wrote or is shown.
    shown: Option<Fence>,
    reply: Reply,
    courier: Option<Arc<Courier>>,
}

// === impl Writer ===

impl Writer {
    /// How many asks may wait before callers do.
    pub(super) const QUEUE: usize = 4096;
    /// How many asks one batch takes, and how many bytes of records.
    const ASKS_MAX: usize = 1024;
    const BYTES_MAX: usize = 8 << 20;
    /// How often to look in vain for somebody who is expected: some microseconds each. Callers
    /// that do not come back at once, but are off to a service, are not worth more.
    const PATIENCE: usize = 16;
    /// How many answers at once are worth a courier's way: a few are sooner there without.
    const CROWD: usize = 8;

    /// Writes until the store is closed.
    pub(super) fn run(mut self) {
        while let Some(first) = self.next() {
            let turn = panic::catch_unwind(AssertUnwindSafe(|| self.turn(first)));
            match turn {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.recover(&error),
                Err(_) => self.recover(&"the database panicked".into()),
            }
            if self.shared.is_closing.load(Ordering::Acquire) {
                // What was asked before is still answered.
                self.asks.close();
            }
        }
        self.finish();
    }

    /// The next thing to do; `Some(None)` is to go on sweeping.
    fn next(&mut self) -> Option<Option<Ask>> {
        match self.sweeps.is_empty() {
            true => recv(&mut self.asks).map(Some),
            false => Some(self.asks.try_recv().ok()),
        }
    }

    /// One batch. An error means that nobody knows whether it was written.
    fn turn(&mut self, first: Option<Ask>) -> Result<(), BoxError> {
        let shared = Arc::clone(&self.shared);
        let base = shared.base.read();
        let base = base.as_ref().ok_or("the store is not open")?;
        // Before anything is stamped, for it may take a while.
        base.wait_for_room()?;
        self.gather(base, first);
        let cursor = self.step_sweep(base);
        if !self.batch.is_empty() {
            for list in self.claims.dead() {
                self.batch.drop_stale(*list);
            }
            self.commit(base)?;
        }
        self.cursor = cursor;
        self.answer();
        if base.rotate(shared.memtable)? {
            self.keeper.hurry();
        }
        Ok(())
    }

    /// Takes what is waiting.
    ///
    /// Those who were answered with the last batch are about to ask again, so as many are waited
    /// for, as long as they keep coming: the sync they share is worth far more than the moment.
    /// A lone caller is never held up.
    fn gather(&mut self, base: &Base, first: Option<Ask>) {
        let mut next = first;
        let mut taken = 0;
        let mut patience = Self::PATIENCE;
        let mut before_lull = None;
        loop {
            match next {
                Some(ask) => {
                    self.take(base, ask);
                    taken += 1;
                }
                None if taken < self.answered && patience > 0 => {
                    patience -= 1;
                    thread::yield_now();
                }
                None if before_lull.is_none() && self.lull.is_worth(taken) => {
                    before_lull = Some(taken);
                    thread::park_timeout(Lull::LENGTH);
                }
                None => break,
            }
            // Counted whether they write or not, so that nobody waits behind those who do not. Before
            // another is received, for that one would be lost.
            if taken >= Self::ASKS_MAX || self.batch.bytes() >= Self::BYTES_MAX {
                break;
            }
            next = self.asks.try_recv().ok();
        }
        if let Some(before) = before_lull {
            self.lull.brought(taken - before, before);
        }
    }

    fn take(&mut self, base: &Base, ask: Ask) {
        match ask {
            Ask::Write(write) => self.judge(base, write),
            Ask::Sweep(sweep) => self.sweeps.push_back(sweep),
            Ask::Wake => {}
        }
    }

    /// Compares, and swaps within the batch. What writes nothing is answered at once.
    fn judge(&mut self, base: &Base, write: Write) {
        let Write {
            slot,
            seen,
            draft,
            is_beginning,
            not_after,
            reply,
            courier,
        } = write;
        let shared = &*self.shared;
        let now = shared.clock.now();
        let at_once = |became| {
            let ticket = shared.recent.ticket(slot);
            Ok(Answer {
                now,
                ticket,
                became,
            })
        };
        // Whoever asked may be gone, here and below.
        if now > not_after && !seeded(Bug::LateWriteHappens) {
            let _ = reply.send(at_once(Became::Late));
            return;
        }
        let admit = || match is_beginning {
            true => self.reserve.admit(
                &*shared.disk,
                shared.folder.path(),
                shared.machine.monotonic(),
            ),
            false => Ok(()),
        };
        let fence = draft.as_ref().map(Draft::fence);
        let claims = &self.claims;
        let slots = Slots { base, claims };
        let (became, shown) = match self.batch.swap(&slots, slot, seen, draft, now, admit) {
            Ok(Judged::Written) => (Became::Done, fence),
            Ok(Judged::Found {
                value,
                is_pending: true,
            }) => {
                let fence = value.as_ref().map(Value::fence);
                (Became::Found(value), fence)
            }
            Ok(Judged::Found { value, .. }) => {
                let _ = reply.send(at_once(Became::Found(value)));
                return;
            }
            Err(error) => {
                let _ = reply.send(Err(error));
                return;
            }
        };
        self.waiting.push(Waiting {
            slot,
            now,
            became,
            shown,
            reply,
            courier,
        });
    }

    /// Goes on with the first sweep. Returns the cursor that counts once the batch is durable.
    fn step_sweep(&mut self, base: &Base) -> Cursor {
        let Some(sweep) = self.sweeps.front_mut() else {
            return self.cursor;
        };
        let now = self.shared.clock.now();
        let (batch, chores) = (&mut self.batch, &mut self.chores);
        let stepped = sweep.step(base, batch, &self.claims, chores, self.cursor, now);
        stepped.unwrap_or_else(|error| {
            if let Some(sweep) = self.sweeps.pop_front() {
                sweep.fail(error);
            }
            self.cursor
        })
    }

    /// Writes the batch. Afterwards it is durable, and can be seen.
    fn commit(&mut self, base: &Base) -> Result<(), BoxError> {
        let shared = &*self.shared;
        let answers = self.batch.changes().iter().filter(|it| it.had_outcome());
        let replaced: Vec<_> = answers.map(|change| change.slot).collect();
        replaced
            .iter()
            .for_each(|slot| shared.recent.replacing(*slot));
        let now = shared.clock.now();
        let mark = self.mark.next(now);
        if shared.sync {
            self.place.prepare();
        }
        let written = shared
            .disk
            .writing()
            .map_err(BoxError::from)
            .and_then(|()| Ok(self.batch.commit(base, mark, shared.sync)?))
            .or_else(|error| match seeded(Bug::FsyncErrorIgnored) {
                true => Ok(0),
                false => Err(error),
            })
            .and_then(|len| Ok(shared.disk.written().map(|()| len)?));
        replaced
            .iter()
            .for_each(|slot| shared.recent.replaced(*slot));
        let len = written?;
        self.mark = mark;
        self.claims.bury();
        self.place.advance(len)?;
        for change in self.batch.changes() {
            self.claims.note(change, mark);
        }
        self.keeper.note(self.head(now));
        Ok(())
    }

    /// Tells those who waited, and those who watch.
    fn answer(&mut self) {
        let shared = &*self.shared;
        self.answered = self.waiting.len();
        let is_crowd = self.answered >= Self::CROWD;
        for waiting in self.waiting.drain(..) {
            let Waiting {
                slot,
                now,
                became,
                shown,
                reply,
                courier,
            } = waiting;
            // What the same batch replaced must not be remembered.
            let ticket = match self.batch.fence_in(slot) == Some(shown) {
                true => shared.recent.ticket(slot),
                false => Ticket::VOID,
            };
            let answer = Answer {
                now,
                ticket,
                became,
            };
            match courier.filter(|_| is_crowd) {
                Some(courier) => {
                    courier.leave(reply, answer);
                    if !self.couriers.iter().any(|it| Arc::ptr_eq(it, &courier)) {
                        self.couriers.push(courier);
                    }
                }
                // Whoever asked may be gone.
                None => drop(reply.send(Ok(answer))),
            }
        }
        self.couriers.drain(..).for_each(|courier| courier.go());
        shared.changed(self.batch.changes().iter().map(|change| change.slot));
        self.batch.clear();
        while let Some(sweep) = self.sweeps.pop_front_if(|sweep| sweep.is_over()) {
            sweep.answer(shared.clock.now());
        }
    }

    /// What HEAD should say.
    pub(super) fn head(&self, now: Timestamp) -> Head {
        Head {
            epoch: self.epoch,
            sequence: self.mark.sequence,
            stamp: now,
            claims: self.claims.floor(now),
            swept: self.cursor.moment().min(now),
            journal: self.place.journal(),
            length: self.place.length(),
            synced: self.shared.sync,
        }
    }

    /// Closes the database and says in HEAD how far it came.
    fn finish(mut self) {
        self.shared.couriers.end();
        let was_open = self.shared.base.write().take().is_some();
        self.keeper.stop();
        self.shared.hush();
        if was_open {
            let head = self.head(self.shared.clock.now());
            if let Err(error) = head.write(self.shared.folder.path()) {
                tracing::warn!(%error, "HEAD could not be renewed");
            }
        }
        self.shared.folder.unlock();
    }
}
