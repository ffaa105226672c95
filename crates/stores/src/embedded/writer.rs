//! The writer: one thread that commits what was judged.
//!
//! It takes whatever is there, commits it in one batch, and wakes those who wait for it. A lone
//! caller pays for one commit and waits for nobody.

use std::collections::VecDeque;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use onceward::bugs::{Bug, seeded};
use onceward::{BoxError, Timestamp};

use super::base::Base;
use super::batch::Batch;
use super::claims::Claims;
use super::file::{Done, Filer, Order};
use super::group::{Fate, Group};
use super::head::Head;
use super::intake::{Write, is_late};
use super::journal::{Mark, Pen};
use super::keeper::Keeper;
use super::lull::Lull;
use super::shared::Shared;
use super::sweep::{Cursor, Ground, Sweep};
use super::value::IndexKey;
use crate::sync::atomic::Ordering;
use crate::sync::thread;

/// The writer's own state. Nobody else has any of it.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) claims: Claims,
    pub(super) cursor: Cursor,
    /// How far everything is dealt with that is due and a matter for the protocol.
    pub(super) chores: Cursor,
    pub(super) mark: Mark,
    pub(super) pen: Pen,
    pub(super) filer: Filer,
    /// Entries of the index that went since the last filing.
    pub(super) gone: Vec<IndexKey>,
    pub(super) epoch: u64,
    pub(super) keeper: Keeper,
    pub(super) batch: Batch,
    /// Those who wait for the batch.
    pub(super) group: Option<Arc<Group>>,
    pub(super) sweeps: VecDeque<Sweep>,
    /// Room for the writes of a batch.
    pub(super) room: Vec<Write>,
    /// How many writes the last batch took.
    pub(super) taken: usize,
    pub(super) lull: Lull,
}

// === impl Writer ===

impl Writer {
    /// How often to look in vain for somebody who is expected: some microseconds each. Callers
    /// that do not come back at once, but are off to a service, are not worth more.
    const PATIENCE: usize = 16;

    /// Writes until the store is closed.
    pub(super) fn run(mut self) {
        while !self.sweeps.is_empty() || self.shared.intake.wait() {
            let turn = panic::catch_unwind(AssertUnwindSafe(|| self.turn()));
            match turn {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.recover(&error),
                Err(_) => self.recover(&"the database panicked".into()),
            }
        }
        self.finish();
    }

    /// One batch. An error means that nobody knows whether it was written.
    fn turn(&mut self) -> Result<(), BoxError> {
        let shared = Arc::clone(&self.shared);
        let base = shared.base.read();
        let base = base.as_ref().ok_or("the store is not open")?;
        self.look_after_filing(base)?;
        self.gather();
        let now = self.take();
        let cursor = self.step_sweep(base, now);
        if !self.batch.is_empty() {
            for list in self.claims.dead() {
                self.batch.drop_stale(*list);
            }
            self.commit(base)?;
        }
        self.cursor = cursor;
        self.answer();
        Ok(())
    }

    /// Has what the journal says filed, once that is enough. Waits where it has become too much.
    fn look_after_filing(&mut self, base: &Base) -> Result<(), BoxError> {
        let is_due = self.pen.length() >= self.shared.journal;
        if let Some(filed) = self.filer.result(is_due) {
            self.go_back(&filed?);
        }
        let shared = &self.shared;
        if !is_due {
            return Ok(());
        }
        base.check()?;
        let (last, seqno) = (self.mark, base.db.seqno());
        let least = self.pen.seqno(seqno);
        let heading = last.next(shared.clock.now());
        self.pen.turn_over(shared.sync, seqno, |draft| {
            Batch::default().each(heading, |part, key, value| {
                draft.put(base.part(part).id(), key, value);
            });
        })?;
        self.mark = heading;
        let order = Order {
            journal: self.pen.journal(),
            mark: last,
            seqno: least,
            gone: mem::take(&mut self.gone),
            lists: self.claims.take_unfiled().collect(),
        };
        self.filer.start(shared, order)?;
        self.keeper.note(self.head(shared.clock.now()));
        self.keeper.hurry();
        Ok(())
    }

    /// Goes back to what was filed behind the cursors.
    pub(super) fn go_back(&mut self, filed: &Done) {
        let [expiring, chore] = filed.first;
        self.cursor = self.cursor.min(expiring.unwrap_or(self.cursor));
        self.chores = self.chores.min(chore.unwrap_or(self.chores));
    }

    /// Lets more writes come.
    ///
    /// Those who were answered with the last batch are about to write again, so as many are waited
    /// for, as long as they keep coming: the sync they share is worth far more than the moment.
    /// A lone caller is never held up, unless it comes right behind a crowd.
    fn gather(&mut self) {
        let intake = &self.shared.intake;
        if self.taken >= Lull::CROWD {
            return Lull::rest(|| intake.look(), thread::park_timeout);
        }
        for _ in 0..Self::PATIENCE {
            let (waiting, has_room) = intake.look();
            if waiting >= self.taken || !has_room {
                break;
            }
            thread::yield_now();
        }
        let (before, has_room) = intake.look();
        if has_room && self.lull.is_worth(before) {
            thread::park_timeout(Lull::LENGTH);
            let (after, _) = intake.look();
            self.lull.brought(after - before, before);
        }
    }

    /// Takes what is there. Returns a moment that nothing in it is stamped after, nor anything that
    /// comes later stamped before.
    fn take(&mut self) -> Timestamp {
        let shared = &*self.shared;
        let room = mem::take(&mut self.room);
        let (mut taken, now) = shared.intake.take(&shared.clock, room);
        self.taken = taken.writes.len();
        self.sweeps.extend(taken.sweeps);
        let first = taken.writes.first().map_or(now, |write| write.now);
        let group = self.group.insert(taken.group);
        for write in taken.writes.drain(..) {
            let Write { slot, .. } = write;
            // It may have lain there while the disk took its time.
            if is_late(now, write.not_after) {
                group.leave_out(slot);
                shared.board.spare(slot);
                continue;
            }
            self.batch.push(slot, write.before, write.after);
        }
        self.room = taken.writes;
        first
    }

    /// Goes on with the first sweep. Returns the cursor that counts once the batch is durable.
    fn step_sweep(&mut self, base: &Base, now: Timestamp) -> Cursor {
        let (Some(sweep), Some(group)) = (self.sweeps.front_mut(), &self.group) else {
            return self.cursor;
        };
        let ground = Ground {
            base,
            board: &self.shared.board,
            group: group.number(),
        };
        let stepped = sweep.step(ground, &mut self.batch, &mut self.chores, self.cursor, now);
        stepped.unwrap_or_else(|error| {
            if let Some(sweep) = self.sweeps.pop_front() {
                sweep.fail(error);
            }
            self.cursor
        })
    }

    /// Writes the batch. Afterwards it is durable, and can be seen.
    fn commit(&mut self, base: &Base) -> Result<(), BoxError> {
        let shared = Arc::clone(&self.shared);
        let answers = self.batch.changes().iter().filter(|it| it.had_outcome());
        let replaced: Vec<_> = answers.map(|change| change.slot).collect();
        replaced
            .iter()
            .for_each(|slot| shared.recent.replacing(*slot));
        let now = shared.clock.now();
        let mark = self.mark.next(now);
        let written = self.write(base, mark);
        if written.is_ok() {
            self.mark = mark;
            self.claims.bury();
            self.gone.extend_from_slice(self.batch.stale());
            // From here on it can be seen.
            let changes = self.batch.changes_mut();
            self.claims.note(&shared.board, changes, mark);
        }
        replaced
            .iter()
            .for_each(|slot| shared.recent.replaced(*slot));
        written?;
        self.keeper.note(self.head(now));
        Ok(())
    }

    fn write(&mut self, base: &Base, mark: Mark) -> Result<(), BoxError> {
        let shared = &*self.shared;
        let draft = self.pen.begin(base.db.seqno());
        self.batch.each(mark, |part, key, value| {
            draft.put(base.part(part).id(), key, value);
        });
        shared.disk.writing()?;
        let sync = shared.sync && !seeded(Bug::FsyncSkipped);
        match self.pen.write(sync) {
            Err(_) if seeded(Bug::FsyncErrorIgnored) => {}
            written => written?,
        }
        #[cfg(onceward_shuttle)]
        self.batch.commit(base, mark, false)?;
        Ok(shared.disk.written()?)
    }

    /// Wakes those who waited, and tells those who watch.
    fn answer(&mut self) {
        let shared = &*self.shared;
        if let Some(group) = self.group.take() {
            group.end(Fate::Durable);
        }
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
            journal: self.pen.journal(),
            length: self.pen.length(),
            synced: self.shared.sync,
        }
    }

    /// Closes the database and says in HEAD how far it came.
    fn finish(&mut self) {
        self.shared.couriers.end();
        // What is not filed by now is in the journals.
        if let Some(Err(error)) = self.filer.result(true) {
            tracing::warn!(%error, "not everything is filed");
        }
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

impl Drop for Writer {
    /// Nobody waits for a writer that died, nor reads what it can no longer vouch for.
    fn drop(&mut self) {
        self.shared.is_closing.store(true, Ordering::Release);
        self.shared.intake.close();
        drop(self.filer.result(true));
        drop(self.shared.base.write().take());
        self.forget();
    }
}
