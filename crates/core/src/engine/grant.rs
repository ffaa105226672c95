//! Asking the store for a claim, until it is known whether it was granted.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
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

/// What one try came to.
enum Tried {
    Granted(Timestamp),
    Found(Option<Arc<Record>>, Timestamp),
    Late,
}

/// Leaves the claim to the keeper unless somebody learns what became of it: the future may be
/// dropped at any await, and the write may land all the same.
struct Asked<'a> {
    shared: &'a Arc<Shared>,
    stray: Option<Stray>,
}

impl Shared {
    /// Asks for the claim `record` over `over`.
    ///
    /// An error of the store is not an answer: the same record, with the same mark, is sent again
    /// and recognises itself. When patience ends without an answer nothing may be executed, and
    /// the keeper takes the claim back if it turns out to have been granted.
    pub(super) async fn grant(
        self: &Arc<Self>,
        arrival: &Arrival,
        over: Option<Fence>,
        // Boxed once here, it is not moved again until its claim ends.
        record: Box<Record>,
    ) -> Result<Granted, Error> {
        let clock = &self.reach.clock;
        let mut pause = Pause::default();
        let mut failed: Option<Error> = None;
        let start = clock.monotonic();
        let mut asked = Asked::new(self, arrival.id(), record.fence);
        loop {
            let sent = clock.monotonic();
            let not_after = self.reach.not_after();
            asked.sent(not_after);
            let tried = self.try_claim(arrival.id(), over, &record, not_after);
            match tried.await {
                Ok(Tried::Granted(at)) => {
                    asked.answered();
                    return Ok(Granted::Yes(self.hold(arrival, record, at, sent)));
                }
                Ok(Tried::Found(Some(found), _)) if is_granted(&record, &found) => {
                    asked.answered();
                    return Ok(self.own(arrival, &found, start));
                }
                Ok(Tried::Found(found, now)) => {
                    // An earlier insert may be on its way still, and land once the slot is
                    // empty. An earlier replacement cannot: the fence it saw is gone for good.
                    let ours = found.as_ref().is_some_and(|it| it.mark == record.mark);
                    if failed.is_none() || (over.is_some() && !ours) {
                        asked.answered();
                    }
                    return Ok(Granted::No(found, now));
                }
                // An earlier try may have landed in time.
                Ok(Tried::Late) if failed.is_some() => {
                    let reply = self.reach.ask(self.reach.store.get(arrival.id())).await?;
                    return Ok(match reply.value {
                        Some(found) if is_granted(&record, &found) => {
                            asked.answered();
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
                    if failed.is_none() {
                        asked.answered();
                    }
                    return Err(error);
                }
                Err(error) => failed = Some(error),
            }
            if clock.monotonic().saturating_sub(start) >= self.limits.store_patience {
                let late = || Error::unavailable(self.reach.store.kind(), "claims come too late");
                return Err(failed.unwrap_or_else(late));
            }
            pause.take().await;
        }
    }

    async fn try_claim(
        &self,
        id: SlotId,
        over: Option<Fence>,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Tried, Error> {
        let reach = &self.reach;
        match over {
            None => {
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

    fn hold(
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

/// Whether `found` is the claim `asked` for, as it was granted. One that was marked unknown or
/// settled meanwhile came too late to execute anything under it.
fn is_granted(asked: &Record, found: &Record) -> bool {
    found.mark == asked.mark && matches!(found.state, State::Claimed(_))
}

// === impl Asked ===

impl<'a> Asked<'a> {
    fn new(shared: &'a Arc<Shared>, id: SlotId, mark: Fence) -> Self {
        Self {
            shared,
            stray: Some(Stray {
                id,
                mark,
                tries: 0,
                not_after: Timestamp::ZERO,
            }),
        }
    }

    /// The write may land until this time of the store, or until that of an earlier try.
    fn sent(&mut self, not_after: Timestamp) {
        if let Some(stray) = &mut self.stray {
            stray.tries += 1;
            stray.not_after = stray.not_after.max(not_after);
        }
    }

    /// It is known what became of it.
    fn answered(&mut self) {
        self.stray = None;
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let Some(stray) = self.stray.take() {
            self.shared.keeper.take_back(self.shared, stray);
        }
    }
}
