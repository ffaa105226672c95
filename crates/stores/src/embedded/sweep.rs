//! Sweeping: a few records at a time, in the writer's own batches.

use fjall::Readable as _;
use onceward::bugs::{Bug, seeded};
use onceward::record::StateName;
use onceward::store::{Error, Reply};
use onceward::{SlotId, Timestamp};
use tokio::sync::oneshot;

use super::base::{Base, unavailable};
use super::batch::Batch;
use super::board::{Board, Posted};
use super::group::Number;
use super::value::{Index, IndexKey, Value, index_from, read_index_key};

/// One call to sweep, and how far it has come.
#[derive(Debug)]
pub(super) struct Sweep {
    before: Timestamp,
    /// How many more records it may look at.
    room: usize,
    found: Found,
    stage: Stage,
    /// How far it has walked.
    walked: Option<Cursor>,
    /// What it passed that was being written, and may yet stay as it is.
    passed: Option<Cursor>,
    reply: oneshot::Sender<Result<Reply<Found>, Error>>,
}

/// What a sweep looks at, and the group whose batch it adds to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'a> {
    pub(super) base: &'a Base,
    pub(super) board: &'a Board,
    pub(super) group: Number,
}

/// What a sweep found and did.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) removed: usize,
    pub(super) lapsed: Vec<(SlotId, Value)>,
    pub(super) more: bool,
}

/// How far everything that expired is gone, in the tables. It goes back only for what is filed
/// behind it: whatever is written comes due later than what was swept, so hardly any removed entry is
/// walked over twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Cursor(IndexKey);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Lapsed,
    Expired,
    Over,
}

// === impl Sweep ===

impl Sweep {
    /// How many records one batch removes, so that writers wait no longer than for another batch.
    const STEP: usize = 128;

    pub(super) fn new(
        before: Timestamp,
        limit: usize,
        reply: oneshot::Sender<Result<Reply<Found>, Error>>,
    ) -> Self {
        Self {
            before,
            room: limit,
            found: Found::default(),
            stage: Stage::Lapsed,
            walked: None,
            passed: None,
            reply,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Goes on a little. Removals go into `batch`, which is to be committed before the cursor
    /// that is returned counts. `chores` is moved past what the protocol has dealt with. Whatever
    /// is written in this batch or later is stamped at `now` or later.
    pub(super) fn step(
        &mut self,
        ground: Ground<'_>,
        batch: &mut Batch,
        chores: &mut Cursor,
        cursor: Cursor,
        now: Timestamp,
    ) -> Result<Cursor, Error> {
        // What is not due yet by the store's own clock is not due, whoever asks.
        let horizon = self.before.min(now);
        if self.stage == Stage::Lapsed {
            self.report_posted(ground.board, horizon);
            self.report_chores(ground, batch, chores, horizon)?;
            self.stage = Stage::Expired;
        }
        if !self.remove_posted(ground, batch, horizon) {
            if self.room == 0 {
                self.found.more = true;
                self.stage = Stage::Over;
            }
            return Ok(cursor);
        }
        self.remove_expired(ground, batch, cursor, horizon)
    }

    pub(super) fn answer(self, now: Timestamp) {
        // Whoever asked may be gone.
        let _ = self.reply.send(Ok(Reply::new(self.found, now)));
    }

    pub(super) fn fail(self, error: Error) {
        let _ = self.reply.send(Err(error));
    }

    /// Reports what is on the board: claims that lapsed, and what is a matter for the protocol.
    fn report_posted(&mut self, board: &Board, horizon: Timestamp) {
        let mut due = board.due(horizon, |state| !state.expires(), self.room);
        self.found.more |= !due.is_all;
        self.room -= due.found.len();
        self.found.lapsed.append(&mut due.found);
    }

    /// Removes what has expired on the board. Returns whether that was all.
    fn remove_posted(&mut self, ground: Ground<'_>, batch: &mut Batch, horizon: Timestamp) -> bool {
        let Ground { board, group, .. } = ground;
        let due = board.due(horizon, StateName::expires, self.room.min(Self::STEP));
        self.pass(due.first_written.map(Cursor::at));
        for (slot, value) in due.found {
            let mut shard = board.shard(slot).lock();
            let is_same = match shard.get(slot) {
                Posted::Kept(Some(kept)) => kept.fence() == value.fence(),
                Posted::Kept(None) | Posted::Nothing | Posted::Written(_) => false,
            };
            // It may have been filed, or written, since it was looked up.
            if !is_same && !seeded(Bug::SweepRaces) {
                continue;
            }
            self.room -= 1;
            self.found.removed += 1;
            shard.begin(slot, group);
            batch.push(slot, Some(value.trace()), None);
        }
        due.is_all
    }

    /// Notes that something was passed that the cursor must not pass.
    fn pass(&mut self, at: Option<Cursor>) {
        self.passed = self.passed.into_iter().chain(at).min();
    }

    /// Reports what is due and a matter for the protocol, which writes over it. Takes half of the
    /// room at the most, so that what has expired goes as well. The cursor stops at the first that
    /// has to be looked at again.
    fn report_chores(
        &mut self,
        Ground { base, board, .. }: Ground<'_>,
        batch: &mut Batch,
        cursor: &mut Cursor,
        horizon: Timestamp,
    ) -> Result<(), Error> {
        let end = index_from(Index::Chores, horizon);
        if cursor.0 >= end {
            return Ok(());
        }
        let (mut room, mut first) = (self.room.div_ceil(2), None);
        for entry in base.db.snapshot().range(&base.index, cursor.0..end) {
            let key = entry.key().map_err(unavailable)?;
            let Ok(key) = IndexKey::try_from(&*key) else {
                continue;
            };
            let Some((_, slot)) = read_index_key(&key) else {
                continue;
            };
            // Held while the database is read, so that the entry is judged by one record.
            let shard = board.shard(slot).lock();
            if room == 0 || !matches!(shard.get(slot), Posted::Nothing) {
                first.get_or_insert(key);
                if room == 0 {
                    self.found.more = true;
                    break;
                }
                continue;
            }
            match base.get(slot) {
                Ok(Some(value)) if value.index_key(slot) == Some(key) => {
                    first.get_or_insert(key);
                    room -= 1;
                    self.room -= 1;
                    self.found.lapsed.push((slot, value));
                }
                Ok(_) => batch.drop_stale(key),
                Err(error) => pass_over(error)?,
            }
        }
        *cursor = Cursor(first.unwrap_or(end));
        Ok(())
    }

    fn remove_expired(
        &mut self,
        ground: Ground<'_>,
        batch: &mut Batch,
        cursor: Cursor,
        horizon: Timestamp,
    ) -> Result<Cursor, Error> {
        let walked = self.walk(ground, batch, self.walked.unwrap_or(cursor), horizon)?;
        self.walked = Some(walked);
        Ok(walked.min(self.passed.unwrap_or(walked)))
    }

    fn walk(
        &mut self,
        ground: Ground<'_>,
        batch: &mut Batch,
        mut cursor: Cursor,
        horizon: Timestamp,
    ) -> Result<Cursor, Error> {
        let end = Cursor::at(horizon);
        if cursor >= end {
            self.stage = Stage::Over;
            return Ok(cursor);
        }
        let Ground { base, .. } = ground;
        let entries = base.db.snapshot().range(&base.index, cursor.0..end.0);
        for (looked, entry) in entries.enumerate() {
            if self.room == 0 {
                self.found.more = true;
                self.stage = Stage::Over;
                return Ok(cursor);
            }
            if looked == Self::STEP {
                return Ok(cursor);
            }
            let key = entry.key().map_err(unavailable)?;
            let Ok(key) = IndexKey::try_from(&*key) else {
                continue;
            };
            self.remove(ground, batch, key)?;
            cursor = Cursor(key).next();
        }
        self.stage = Stage::Over;
        Ok(end)
    }

    /// Removes the record behind an entry of the index, if it is still the one.
    fn remove(
        &mut self,
        Ground { base, board, group }: Ground<'_>,
        batch: &mut Batch,
        key: IndexKey,
    ) -> Result<(), Error> {
        let Some((_, slot)) = read_index_key(&key) else {
            return Ok(());
        };
        let mut shard = board.shard(slot).lock();
        match shard.get(slot) {
            Posted::Nothing => {}
            _ if seeded(Bug::SweepRaces) => {}
            // Whoever files what is on the board takes the entry along.
            Posted::Kept(_) => return Ok(()),
            Posted::Written(_) => {
                self.pass(Some(Cursor(key)));
                return Ok(());
            }
        }
        match base.get(slot) {
            Ok(Some(value)) if value.index_key(slot) == Some(key) && value.state().expires() => {
                self.room -= 1;
                self.found.removed += 1;
                shard.begin(slot, group);
                batch.push(slot, Some(value.trace()), None);
            }
            Ok(_) => batch.drop_stale(key),
            Err(error) => pass_over(error)?,
        }
        Ok(())
    }
}

// === impl Cursor ===

impl Cursor {
    /// The cursor when nothing is left that expired before `moment`.
    pub(super) fn at(moment: Timestamp) -> Self {
        Self(index_from(Index::Expiry, moment))
    }

    /// The cursor at an entry.
    pub(super) fn to(key: IndexKey) -> Self {
        Self(key)
    }

    /// The cursor before everything that is a matter for the protocol.
    pub(super) fn chores() -> Self {
        Self(index_from(Index::Chores, Timestamp::ZERO))
    }

    /// Nothing is left that expired before this.
    pub(super) fn moment(self) -> Timestamp {
        read_index_key(&self.0).map_or(Timestamp::ZERO, |(moment, _)| moment)
    }

    /// The cursor behind the entry that this one is at.
    fn next(mut self) -> Self {
        for byte in self.0.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
        self
    }
}

/// Passes over a record that cannot be read: it stays where it is, and is no reason to stop.
fn pass_over(error: Error) -> Result<(), Error> {
    match error {
        Error::Unreadable { .. } => {
            tracing::error!(%error, "a record that is due stays");
            Ok(())
        }
        error => Err(error),
    }
}
