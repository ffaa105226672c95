//! Asking the store for a claim, until it is known whether it was granted.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use crate::bugs::{Bug, seeded};
use crate::claim::{Holding, Pause};
use crate::keeper::Stray;
use crate::protocol::Arrival;
use crate::store::{Error, Insert, Reply, Swap};
use crate::{Fence, Reason, Record, SlotId, State, Timestamp};

/// Whether a claim was granted.
pub(super) enum Granted {
    Yes(Arc<Holding>),
    /// This is in the slot instead, or was at this time of the store.
    No(Option<Arc<Record>>, Timestamp),
}

/// What one try to write into a slot came to.
pub(super) enum Tried {
    /// It is written, at this time of the store.
    Granted(Timestamp),
    /// This is in the slot instead, at this time of the store.
    Found(Option<Arc<Record>>, Timestamp),
    /// It came too late to count.
    Late,
}

/// The marks a claim was asked for with, each of which may land until it is known what became
/// of it: the future may be dropped at any await. What is left at the end is the keeper's.
struct Asked<'a> {
    shared: &'a Arc<Shared>,
    id: SlotId,
    /// The mark of the last try, unless that is answered.
    last: Option<Fence>,
    /// The marks of earlier tries. A claim that is granted at once needs no room for them.
    earlier: Vec<Fence>,
    /// The store's time past which none of them can land any more.
    not_after: Timestamp,
}

impl Shared {
    /// Asks for the claim `record` over `over`.
    ///
    /// An error of the store is not an answer: the claim is asked for again, and recognises
    /// itself by the mark of any of its tries. Each has a mark of its own, because a rival may
    /// have claimed and released between two tries, and fences of a slot only grow. When patience
    /// ends without an answer nothing may be executed, and the keeper takes back what turns out
    /// to have been granted.
    pub(super) async fn grant(
        self: &Arc<Self>,
        arrival: &Arrival,
        over: Option<Fence>,
        // Boxed once here, it is not moved again until its claim ends.
        mut record: Box<Record>,
    ) -> Result<Granted, Error> {
        let reach = &self.reach;
        let mut pause = Pause::default();
        let mut failed: Option<Error> = None;
        let start = reach.own_time();
        let mut asked = Asked::new(self, arrival.id());
        loop {
            let mut sent = reach.own_time();
            let not_after = reach.not_after();
            asked.sent(record.fence, not_after);
            let tried = self.try_claim(arrival.id(), over, &record, not_after);
            match tried.await {
                Ok(Tried::Granted(at)) => {
                    asked.answered(over);
                    if seeded(Bug::DeadlineFromReply) {
                        sent = reach.own_time();
                    }
                    return Ok(Granted::Yes(self.hold(arrival, record, at, sent)));
                }
                Ok(Tried::Found(Some(found), _)) if asked.is_granted(&found) => {
                    asked.landed(&found);
                    return Ok(self.own(arrival, &found, start));
                }
                Ok(Tried::Found(found, now)) => {
                    if !found.as_ref().is_some_and(|found| asked.is_ours(found)) {
                        asked.answered(over);
                    }
                    return Ok(Granted::No(found, now));
                }
                // An earlier try may have landed in time.
                Ok(Tried::Late) if failed.is_some() => {
                    let reply = reach.ask(reach.store.get(arrival.id())).await?;
                    return Ok(match reply.value {
                        Some(found) if asked.is_granted(&found) => {
                            asked.landed(&found);
                            self.own(arrival, &found, start)
                        }
                        found => Granted::No(found, reply.now),
                    });
                }
                // Our idea of the store's time was off, and its reply has mended that.
                Ok(Tried::Late) => {}
                Err(error) if !error.is_transient() => return Err(error),
                Err(error @ Error::Full { .. }) => {
                    // This try was not applied; an earlier one may have been.
                    asked.last = None;
                    return Err(error);
                }
                Err(error) => failed = Some(error),
            }
            if reach.own_time().saturating_sub(start) >= self.limits.store_patience {
                let late = || Error::unavailable(reach.store.kind(), "claims come too late");
                return Err(failed.unwrap_or_else(late));
            }
            pause.take().await;
            record.remark(reach.fence(over));
        }
    }

    /// Writes `record` into an empty slot, or over the fence that was seen.
    pub(super) async fn try_claim(
        &self,
        id: SlotId,
        over: Option<Fence>,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Tried, Error> {
        let reach = &self.reach;
        match over {
            None => {
                if seeded(Bug::ReadThenClaim)
                    && reach.ask(reach.store.get(id)).await?.value.is_none()
                {
                    let reply = reach.ask(reach.store.insert(id, record, not_after)).await?;
                    return Ok(Tried::Granted(reply.now));
                }
                let Reply { value, now } =
                    reach.ask(reach.store.insert(id, record, not_after)).await?;
                Ok(match value {
                    Insert::Done => Tried::Granted(now),
                    Insert::Taken(found) => Tried::Found(Some(found), now),
                    Insert::Late => Tried::Late,
                })
            }
            Some(seen) => {
                let call = reach.store.replace(id, seen, record, not_after);
                let Reply { value, now } = reach.ask(call).await?;
                Ok(match value {
                    Swap::Done => Tried::Granted(now),
                    Swap::Moved(found) => Tried::Found(found, now),
                    Swap::Late => Tried::Late,
                })
            }
        }
    }

    /// The record found is our own: the reply to an earlier try was lost. Its lease began when
    /// the write landed, at some time after the first try.
    fn own(self: &Arc<Self>, arrival: &Arrival, found: &Record, start: Duration) -> Granted {
        Granted::Yes(self.hold(arrival, Box::new(found.clone()), found.written, start))
    }

    pub(super) fn hold(
        self: &Arc<Self>,
        arrival: &Arrival,
        mut record: Box<Record>,
        written: Timestamp,
        sent: Duration,
    ) -> Arc<Holding> {
        record.written = written;
        Holding::new(self.clone(), arrival.clone(), record, sent)
    }

    /// Marks a lapsed claim unknown, for whoever comes next and for lists. The mark stays, so a
    /// late holder may still complete it. Returns what is in the slot instead if it moved.
    pub(crate) async fn mark_lapsed(
        &self,
        id: SlotId,
        lapsed: &Record,
    ) -> Result<Option<Reply<Option<Arc<Record>>>>, Error> {
        let reach = &self.reach;
        let unsettled = lapsed.unsettled(Reason::LAPSED, reach.fence(Some(lapsed.fence)));
        let call = reach
            .store
            .replace(id, lapsed.fence, &unsettled, Timestamp::NEVER);
        let Reply { value, now } = reach.ask(call).await?;
        Ok(match value {
            Swap::Moved(found) => Some(Reply::new(found, now)),
            Swap::Done | Swap::Late => {
                self.room.poke(id);
                None
            }
        })
    }
}

// === impl Asked ===

impl<'a> Asked<'a> {
    fn new(shared: &'a Arc<Shared>, id: SlotId) -> Self {
        Self {
            shared,
            id,
            last: None,
            earlier: Vec::new(),
            not_after: Timestamp::ZERO,
        }
    }

    /// The claim goes out with this mark, and may land until this time of the store.
    fn sent(&mut self, mark: Fence, not_after: Timestamp) {
        self.earlier.extend(self.last.replace(mark));
        self.not_after = self.not_after.max(not_after);
    }

    fn is_ours(&self, found: &Record) -> bool {
        if seeded(Bug::MarkForgotten) {
            return false;
        }
        found
            .mark
            .is_some_and(|mark| self.last == Some(mark) || self.earlier.contains(&mark))
    }

    /// Whether `found` is the claim as it was granted. One that was marked unknown or settled
    /// meanwhile came too late to execute anything under it.
    fn is_granted(&self, found: &Record) -> bool {
        self.is_ours(found) && matches!(found.state, State::Claimed(_))
    }

    /// It is known what became of the last try. An earlier insert may be on its way still, and
    /// land once the slot is empty; an earlier replacement cannot, for the fence it saw is gone.
    fn answered(&mut self, over: Option<Fence>) {
        self.last = None;
        if over.is_some() {
            self.earlier.clear();
        }
    }

    /// The try whose mark is in `found` has landed and is in good hands.
    fn landed(&mut self, found: &Record) {
        self.earlier.extend(self.last.take());
        self.earlier.retain(|mark| found.mark != Some(*mark));
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let mut marks = std::mem::take(&mut self.earlier);
        marks.extend(self.last.take());
        if !marks.is_empty() {
            let stray = Stray {
                id: self.id,
                marks,
                not_after: self.not_after,
            };
            self.shared.keeper.take_back(self.shared, stray);
        }
    }
}
