//! Phases: work of several transactions, with recovery points between them.

use std::sync::Arc;

use onceward::record::Point;
use onceward::store::{Store as _, Swap};
use onceward::{Arrival, Duty, Fence, Reason, Record, SlotId, Timestamp};

use super::session::{Call, Cells, Value};
use super::work::Held;
use super::{Error, Looked, Session, Shared, Work};

/// Work that has reached a recovery point and goes on in another transaction.
///
/// Its claim stands in the slot with a lease. While that lives, duplicates wait; once it has
/// lapsed, the next one takes over and goes on after the point. Between two transactions there is
/// room for what is no row in this database, such as a call of another service: it may be
/// repeated, which is what a point declares.
#[derive(Debug)]
#[must_use = "work that does not go on is taken over once its lease has lapsed"]
pub struct Paused {
    keys: Arc<Shared>,
    arrival: Arrival,
    slot: SlotId,
    record: Box<Record>,
    staged: bool,
}

// === impl Paused ===

impl Paused {
    pub(super) fn new(keys: Arc<Shared>, arrival: Arrival, record: Record, staged: bool) -> Self {
        Self {
            keys,
            slot: arrival.id(),
            arrival,
            record: Box::new(record),
            staged,
        }
    }

    /// The point that is reached.
    pub fn point(&self) -> Option<&Point> {
        self.record.point.as_deref()
    }

    /// Goes on within another transaction, after the one before has committed.
    ///
    /// [`Error::Lost`] says that the lease lapsed and somebody else went on;
    /// [`Error::Overtaken`] that somebody is about to. Roll back and begin again to find out.
    pub async fn resume<S: Session>(self, mut session: S) -> Result<Work, Error> {
        let fence = self.record.fence.to_string();
        let values = self.values(&fence);
        let calls = [Call {
            statement: &self.keys.sql.hold,
            values: &values,
        }];
        let rows = session.calls(&calls).await?;
        self.resumed(&mut session, &rows).await
    }

    /// What holds the record for the next transaction.
    pub(super) fn values<'a>(&'a self, fence: &'a str) -> [Value<'a>; 2] {
        [Value::Bytes(self.slot.as_bytes()), Value::Text(fence)]
    }

    pub(super) fn fence(&self) -> Fence {
        self.record.fence
    }

    /// Goes on if the record is held, or can be: one that the sweeper marked unknown still
    /// carries our mark.
    pub(super) async fn resumed<S: Session>(
        self,
        session: &mut S,
        held: &[Option<Cells>],
    ) -> Result<Work, Error> {
        if self.staged {
            self.keys.announce_staged();
        }
        if let [Some(row)] = held {
            return Ok(self.work(row.began));
        }
        let looked = self.keys.look(session, self.slot).await?;
        self.reclaimed(session, looked).await
    }

    /// Goes on with what was found, if it carries our mark.
    pub(super) async fn reclaimed<S: Session>(
        self,
        session: &mut S,
        looked: Looked,
    ) -> Result<Work, Error> {
        let Some(found) = looked.found.filter(|found| self.is_ours(found)) else {
            return Err(Error::Lost);
        };
        let held = self.keys.hold(session, self.slot, found.fence).await?;
        match held {
            Some(began) if began != looked.began => Err(Error::Apart),
            Some(began) => {
                let record = Box::new(found);
                Ok(Self { record, ..self }.work(began))
            }
            None => Err(Error::Overtaken("somebody else holds the record".into())),
        }
    }

    /// Whether a record that was found is this work's own, and not at its end.
    pub(super) fn is_ours(&self, found: &Record) -> bool {
        found.mark.is_some() && found.mark == self.record.mark && found.outcome().is_none()
    }

    /// Lets the lease start anew, between two transactions.
    pub async fn renew(&mut self) -> Result<(), Error> {
        let record = self.record.renewed(self.next_fence());
        self.replace(record).await
    }

    /// Lets whoever comes next go on after the point at once, instead of when the lease has
    /// lapsed.
    pub async fn abandon(mut self, reason: Reason) -> Result<(), Error> {
        let record = self.record.unsettled(reason, self.next_fence());
        self.replace(record).await?;
        self.keys.announce(self.slot, false);
        Ok(())
    }

    async fn replace(&mut self, record: Record) -> Result<(), Error> {
        let call = self
            .keys
            .store
            .replace(self.slot, self.record.fence, &record, Timestamp::NEVER);
        let reply = call.await.map_err(onceward::Error::from)?;
        match reply.value {
            Swap::Done => {
                *self.record = record.stamped(reply.now);
                Ok(())
            }
            Swap::Moved(_) | Swap::Late => Err(Error::Lost),
        }
    }

    fn work(self, began: i64) -> Work {
        let over = Some(self.record.fence);
        let held = Held { over, began };
        Work::new(self.keys, self.arrival, *self.record, held, Duty::Execute)
    }

    fn next_fence(&self) -> Fence {
        Fence::mint(Some(self.record.fence), self.record.written)
    }
}
