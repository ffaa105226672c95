//! Work: what is done within one transaction, and how it ends there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use onceward::record::Point;
use onceward::{
    Arrival, Duty, Fence, Kept, Key, Outcome, Record, Scope, Slot, SlotId, Timestamp, codec,
};

use super::super::outbox::{self, Staged};
use super::phase::Paused;
use super::session::{Call, Value};
use super::{Error, Session, Shared};
use crate::reckon::{as_i64, micros, timestamp};

/// The right to do one piece of work within one transaction.
///
/// Nothing of it is in the database until [`complete`](Work::complete) or
/// [`reached`](Work::reached): to give up is to roll the transaction back.
#[derive(Debug)]
#[must_use = "work that is not completed leaves nothing behind"]
pub struct Work {
    keys: Arc<Shared>,
    arrival: Arrival,
    /// The claim as it stands in the slot, or would.
    record: Box<Record>,
    held: Held,
    duty: Duty,
    retention: Duration,
    staged: bool,
}

/// What work holds, and in which transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// The fence of the record that it is written over, which is held.
    pub(super) over: Option<Fence>,
    /// When the transaction began: no other of the connection has begun then.
    pub(super) began: i64,
}

/// An outcome that is stored once its transaction has committed.
#[derive(Debug)]
#[must_use = "announce it after the commit: others may be waiting"]
pub struct Completed {
    keys: Arc<Shared>,
    slot: SlotId,
    kept: Kept,
    staged: bool,
}

/// A record on its way into the database.
#[derive(Debug)]
pub(super) struct Write {
    slot: SlotId,
    scope: Scope,
    fence: String,
    state: i64,
    due: i64,
    written: i64,
    bytes: Vec<u8>,
    /// Whether the body of an outcome is kept.
    body: bool,
    seen: Option<String>,
    began: i64,
}

// === impl Work ===

impl Work {
    pub(super) fn new(
        keys: Arc<Shared>,
        arrival: Arrival,
        record: Record,
        held: Held,
        duty: Duty,
    ) -> Self {
        Self {
            keys,
            retention: arrival.policy().retention,
            arrival,
            record: Box::new(record),
            held,
            duty,
            staged: false,
        }
    }

    /// The slot.
    pub fn slot(&self) -> &Slot {
        self.arrival.slot()
    }

    /// The caller's name for the work.
    pub fn key(&self) -> &Key {
        self.slot().key()
    }

    /// The name under which the store files the slot.
    pub fn id(&self) -> SlotId {
        self.arrival.id()
    }

    /// Which attempt this is, from 1. Attempts that were rolled back do not count.
    pub fn attempt(&self) -> u32 {
        self.record.attempt
    }

    /// The fence of this attempt: greater than that of any earlier one.
    pub fn fence(&self) -> Fence {
        self.record.mark.unwrap_or(self.record.fence)
    }

    /// What to do first. Anything but [`Duty::Execute`] means that an earlier attempt, under a
    /// recovery point or outside of any transaction, left something behind.
    pub fn duty(&self) -> Duty {
        self.duty
    }

    /// The recovery point that was reached in an earlier transaction.
    pub fn point(&self) -> Option<&Point> {
        self.record.point.as_deref()
    }

    /// The name of the recovery point that was reached, if any.
    pub fn point_name(&self) -> Option<&str> {
        self.point().map(|point| &*point.name)
    }

    /// Overrides how long the outcome is kept.
    pub fn keep_for(&mut self, retention: Duration) {
        self.retention = retention;
    }

    /// Stages an event in the same transaction: it is published once that has committed, and not
    /// otherwise. Returns its number.
    ///
    /// Events of one `key` are published in the order of their numbers, so a second transaction
    /// that stages for the same key waits here until the first has ended.
    pub async fn stage<S: Session>(
        &mut self,
        mut session: S,
        topic: &str,
        key: &str,
        payload: &[u8],
    ) -> Result<Staged, Error> {
        let staged = outbox::stage(&self.keys.sql, &mut session, topic, key, payload).await?;
        self.staged = true;
        Ok(staged)
    }

    /// Writes the outcome in the same transaction: every duplicate gets it once that has
    /// committed.
    ///
    /// Commit, then [`announce`](Completed::announce) it to those who wait.
    pub async fn complete<S: Session>(
        self,
        mut session: S,
        outcome: impl Into<Outcome>,
    ) -> Result<Completed, Error> {
        let write = self.completing(outcome.into());
        let (statement, values) = self.keys.write(&write);
        let calls = [Call {
            statement,
            values: &values,
        }];
        session.calls(&calls).await?;
        Ok(self.completed(&write))
    }

    /// Records in the same transaction that a stage is reached, and goes on in the next one.
    ///
    /// The claim then stands in the slot with its lease and the point. Whoever finds it lapsed,
    /// after a crash of this process, goes on after the point.
    pub async fn reached<S: Session>(
        self,
        mut session: S,
        name: &str,
        data: impl Into<Bytes>,
    ) -> Result<Paused, Error> {
        let record = self.reaching(name, data.into())?;
        let write = self.write_of(&record);
        let (statement, values) = self.keys.write(&write);
        let calls = [Call {
            statement,
            values: &values,
        }];
        session.calls(&calls).await?;
        Ok(self.paused(record.stamped(write.written())))
    }

    /// The record of a stage that is reached.
    pub(super) fn reaching(&self, name: &str, data: Bytes) -> Result<Record, Error> {
        let named = (1..=Point::NAME_MAX).contains(&name.len());
        if !named || data.len() > Point::DATA_MAX {
            let rule = "a recovery point has a name of 1 to 255 bytes and at most 64 KiB of data";
            return Err(Error::TooLarge(rule));
        }
        let name = name.into();
        Ok(self.record.reached(Point { name, data }, self.next_fence()))
    }

    pub(super) fn paused(self, record: Record) -> Paused {
        Paused::new(self.keys, self.arrival, record, self.staged)
    }

    /// What is written to complete the work.
    pub(super) fn completing(&self, outcome: Outcome) -> Write {
        let policy = self.arrival.policy();
        let outcome = outcome
            .keeping(policy.body_max)
            .keeping_for(policy.keep_body);
        let record = self
            .record
            .completed(outcome, self.retention, self.next_fence());
        self.write_of(&record)
    }

    /// What was written, once the database has not refused it.
    pub(super) fn completed(self, write: &Write) -> Completed {
        let kept = Kept {
            body: write.body,
            expires: write.written() + self.retention,
        };
        Completed {
            slot: self.id(),
            keys: self.keys,
            kept,
            staged: self.staged,
        }
    }

    /// What is written, if it is sent now. Stamped with the store's time, which is the server's as
    /// it can be told from here, and not before the time at which the slot was asked for.
    pub(super) fn write_of(&self, record: &Record) -> Write {
        let since = as_i64(self.record.written);
        let written = self.keys.store.terms().floor.max(since);
        Write {
            slot: self.id(),
            scope: record.scope.clone(),
            fence: record.fence.to_string(),
            state: i64::from(record.state.name() as u8),
            due: written.saturating_add(micros(record.due_after())),
            written,
            bytes: codec::encode(record),
            body: record.outcome().is_some_and(|it| it.body().is_some()),
            seen: self.held.over.map(|fence| fence.to_string()),
            began: self.held.began,
        }
    }

    pub(super) fn arrival(&self) -> &Arrival {
        &self.arrival
    }

    /// Whether nothing is left behind if this transaction is rolled back: no recovery point
    /// stands in the slot, and no earlier attempt of which nobody knows what became.
    pub(super) fn is_whole(&self) -> bool {
        self.record.point.is_none() && self.record.attempt == 1
    }

    /// The work between two transactions, if its claim is what stands in the slot.
    pub(super) fn into_paused(self) -> Option<Paused> {
        let stands = self.held.over == Some(self.record.fence);
        stands.then(|| Paused::new(self.keys, self.arrival, *self.record, false))
    }

    fn next_fence(&self) -> Fence {
        Fence::mint(Some(self.record.fence), self.record.written)
    }
}

// === impl Write ===

impl Write {
    /// The stamp.
    pub(super) fn written(&self) -> Timestamp {
        timestamp(self.written)
    }
}

// === impl Completed ===

impl Completed {
    /// What is stored, and until when.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Tells those who wait, in this process and others. Call it after the commit.
    ///
    /// Whoever is not told looks again by itself, a little later.
    pub fn announce(self) {
        self.keys.announce(self.slot, self.staged);
    }
}

// === impl Shared ===

impl Shared {
    /// The statement that writes, and its values.
    pub(super) fn write<'a>(
        &'a self,
        write: &'a Write,
    ) -> (&'a super::statements::Statement, Vec<Value<'a>>) {
        let mut values = vec![
            Value::Bytes(write.slot.as_bytes()),
            Value::Text(&write.fence),
            Value::Int(write.state),
            Value::Int(write.due),
            Value::Int(write.written),
            Value::Bytes(&write.bytes),
        ];
        let statement = match &write.seen {
            Some(seen) => {
                values.push(Value::Text(seen));
                &self.sql.swap
            }
            None => {
                let scope = &write.scope;
                values.extend([Value::Text(scope.tenant()), Value::Text(scope.operation())]);
                &self.sql.put
            }
        };
        values.push(Value::Int(write.began));
        (statement, values)
    }

    /// Tells those who wait for `slot` that its transaction has ended, and relays of new events.
    pub(super) fn announce(&self, slot: SlotId, staged: bool) {
        self.store.announce(slot);
        self.hub.tell(slot);
        if staged {
            self.announce_staged();
        }
    }

    pub(super) fn announce_staged(&self) {
        self.store.announce(outbox::SLOT);
    }
}
