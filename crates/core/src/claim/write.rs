//! Writing over one's own record: renewals, recovery points, and the end.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;

use super::{Holding, PointError};
use crate::bugs::{Bug, seeded};
use crate::reach::within;
use crate::record::{Point, State, StateName};
use crate::store::{Error, Swap};
use crate::sync::atomic::Ordering;
use crate::{Fence, Reason, Record, Timestamp};

/// What became of a write over one's own record.
pub(super) enum Wrote {
    /// It is there, stamped with this time.
    Done(Timestamp),
    /// Another record is there, or none, at this time.
    Moved(Option<Arc<Record>>, Timestamp),
}

impl Holding {
    /// Starts the lease anew.
    ///
    /// A failed renewal is not retried here: the keeper comes back long before the lease lapses.
    pub(super) async fn renew(&self) {
        let mut record = self.record.lock().await;
        // Meanwhile it may have ended, or another write may have started the lease anew.
        if !self.wants_renewal() {
            return;
        }
        let sent = self.now();
        let write = pin!(self.write(&mut record, |own, fence| Some(own.renewed(fence))));
        // A reply that never comes must not use up the lease: one that is applied all the same
        // is recognised by the next write.
        let third = self.lease() / 3;
        match within(third, || (), write).await {
            Some(Ok(wrote)) => match wrote {
                Wrote::Done(_) => self.renewed_at(sent),
                Wrote::Moved(..) => {
                    tracing::warn!(slot = ?self.arrival.id(), "claim lost while the work goes on");
                    self.set_lost();
                }
            },
            Some(Err(error)) => {
                tracing::warn!(slot = ?self.arrival.id(), %error, "claim not renewed");
            }
            None => {
                tracing::warn!(slot = ?self.arrival.id(), "claim not renewed in time");
            }
        }
    }

    /// Records that a stage is reached.
    pub(crate) async fn reach(&self, name: &str, data: Bytes) -> Result<(), PointError> {
        if !(1..=Point::NAME_MAX).contains(&name.len()) || data.len() > Point::DATA_MAX {
            return Err(PointError::TooLarge);
        }
        let point = Point {
            name: name.into(),
            data,
        };
        let mut record = self.record.lock().await;
        // After its end was said, or once it is lost, there is nothing to go on from.
        if !self.is_live() || self.is_planned() {
            return Err(PointError::Lost);
        }
        self.pointed.store(true, Ordering::Relaxed);
        let sent = self.now();
        let wrote = self
            .write(&mut record, |own, fence| {
                Some(own.reached(point.clone(), fence))
            })
            .await?;
        match wrote {
            Wrote::Done(_) => {
                self.renewed_at(sent);
                Ok(())
            }
            Wrote::Moved(..) => {
                self.set_lost();
                Err(PointError::Lost)
            }
        }
    }

    /// Marks the claim unknown while its holder may still be at work; its mark stays.
    pub(crate) async fn mark_unknown(&self, reason: Reason) -> Result<(), Error> {
        // Somebody else's record says what is to be said; an end that was said is on its way,
        // and may hold the record for as long as the store is away.
        let is_moot = || !self.is_live() || self.is_planned();
        if is_moot() {
            return Ok(());
        }
        let mut record = self.record.lock().await;
        if is_moot() {
            return Ok(());
        }
        // Before the store is told: callers may hear that nobody knows long before its reply
        // comes back here, and from then on the work must not start.
        self.set_lost();
        let next = |own: &Record, fence| Some(own.unsettled(reason.clone(), fence));
        self.write(&mut record, next).await?;
        Ok(())
    }

    /// Writes what `next` makes of our record in its place; `None` removes it.
    ///
    /// A fence that moved is not a loss yet: the record found may carry our own mark, because an
    /// earlier write of ours was applied though its reply was lost, or because somebody marked
    /// us unknown. Then the write is tried again over what is there.
    pub(super) async fn write(
        &self,
        own: &mut Record,
        next: impl Fn(&Record, Fence) -> Option<Record>,
    ) -> Result<Wrote, Error> {
        let reach = &self.shared.reach;
        let (store, id) = (&reach.store, self.arrival.id());
        loop {
            let written = next(own, reach.fence(Some(own.fence)));
            let reply = match &written {
                Some(record) => {
                    let call = store.replace(id, own.fence, record, Timestamp::NEVER);
                    reach.ask(call).await?
                }
                None => {
                    let call = store.remove(id, own.fence, Timestamp::NEVER);
                    reach.ask(call).await?
                }
            };
            match reply.value {
                Swap::Done => {
                    if let Some(record) = written {
                        *own = record;
                        own.written = reply.now;
                    }
                    return Ok(Wrote::Done(reply.now));
                }
                Swap::Moved(Some(found)) if self.may_write_over(&found, written.as_ref()) => {
                    if matches!(found.state, State::Unknown(_)) {
                        // Should this write fail, no renewal may follow what callers were told.
                        self.set_lost();
                    }
                    *own = Record::clone(&found);
                }
                Swap::Moved(Some(found)) if is_unfenced(&found, written.as_ref()) => {
                    own.fence = found.fence;
                }
                Swap::Moved(found) => return Ok(Wrote::Moved(found, reply.now)),
                Swap::Late => unreachable!("a write that is never too late was called late"),
            }
        }
    }

    /// Whether `found` is ours to write `next` over.
    ///
    /// Only an end may follow an unknown state: a renewal would turn what callers were told is
    /// unknown back into running.
    fn may_write_over(&self, found: &Record, next: Option<&Record>) -> bool {
        let ending = next.is_none_or(|next| next.state.name() != StateName::Claimed);
        found.mark == Some(self.mark)
            && match found.state {
                State::Claimed(_) => true,
                State::Unknown(_) => ending,
                State::Completed(_) | State::Open | State::Reserved(_) => false,
            }
    }
}

/// Whether `next` is written over whatever is found, which only a mistake made on purpose does.
fn is_unfenced(found: &Record, next: Option<&Record>) -> bool {
    let Some(next) = next else {
        return seeded(Bug::UnfencedRelease);
    };
    match next.state.name() {
        StateName::Claimed if found.mark == next.mark => seeded(Bug::RenewalRevives),
        StateName::Claimed => seeded(Bug::UnfencedRenewal),
        StateName::Completed | StateName::Shedding => seeded(Bug::UnfencedComplete),
        StateName::Unknown | StateName::Open | StateName::Reserved => false,
    }
}
