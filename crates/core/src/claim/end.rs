//! How a claim ends: completed, released or abandoned, until the store has it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use metrics::Counter;

use super::Holding;
use super::write::Wrote;
use crate::protocol::decide;
use crate::reach::within;
use crate::store;
use crate::sync::time;
use crate::verdict::{Unsettled, Verdict};
use crate::{Outcome, Reason, Record, State, Timestamp};

/// How the holder says that it ended.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Complete {
        outcome: Outcome,
        retention: Duration,
        /// The answer is that of a twin: nothing was executed here.
        copied: bool,
    },
    Release,
    Abandon(Reason),
}

/// What the store has by now.
#[derive(Debug)]
pub(crate) enum Ended {
    Kept(Kept),
    Settled,
}

/// An outcome that is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Whether its body is kept, or was too large for that.
    pub body: bool,
    /// When it is forgotten, by the store's clock.
    pub expires: Timestamp,
}

/// Why a claim did not end as its holder said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndError {
    /// Somebody else's record is in the slot: answer from it, never with your own result.
    #[error("the claim was lost to another record")]
    Lost {
        /// What the record that won tells a caller.
        verdict: Box<Verdict>,
    },

    /// The store does not answer. The write goes on in the background, and a retry finds it.
    #[error("the end of the claim is not stored yet")]
    Pending {
        /// What the store last said.
        source: Option<store::Error>,
    },

    /// The record in the slot cannot be read.
    #[error(transparent)]
    Store(store::Error),
}

impl Holding {
    /// Notes how the claim is to end. The first word counts.
    pub(super) fn plan(&self, end: End) {
        // A second word would be a second end; the type of a claim allows only one.
        self.end.get_or_init(|| end);
    }

    pub(super) fn is_planned(&self) -> bool {
        self.end.get().is_some()
    }

    /// Ends the claim, or leaves it to the keeper when the store is away for long.
    pub(super) async fn finish_soon(self: &Arc<Self>) -> Result<Ended, EndError> {
        let limit = self.shared.limits.answer_within;
        let finish = pin!(self.finish());
        let ended = within(limit, || (), finish).await;
        ended.unwrap_or(Err(EndError::Pending { source: None }))
    }

    /// Ends the claim as planned, however long the store is away.
    ///
    /// Cancel safe: nothing is decided that a second call would not decide again.
    pub(crate) async fn finish(&self) -> Result<Ended, EndError> {
        let end = self.end.get().expect("the end of the claim is planned");
        let mut pause = Pause::default();
        loop {
            // Between two tries the claim may be renewed: what is too large or too slow for a
            // store in trouble must not make a lease lapse that small writes could keep.
            let mut own = self.record.lock().await;
            let tried = self.try_finish(&mut own, end).await;
            let again = matches!(&tried, Err(error) if error.is_transient());
            if !again {
                // Before the lock is given up: a renewal may be waiting for it, and would write
                // over the end.
                self.set_over();
            }
            drop(own);
            match tried {
                Err(error) if again => {
                    tracing::warn!(slot = ?self.arrival.id(), %error, "end of claim not stored yet");
                    pause.take().await;
                }
                Err(error) => {
                    tracing::error!(slot = ?self.arrival.id(), ?end, %error, "end of claim is lost");
                    return Err(EndError::Store(error));
                }
                Ok(ended) => {
                    self.shared.room.poke(self.arrival.id());
                    return ended;
                }
            }
        }
    }

    async fn try_finish(
        &self,
        own: &mut Record,
        end: &End,
    ) -> Result<Result<Ended, EndError>, store::Error> {
        let meters = self.arrival.meters();
        match end {
            End::Complete {
                outcome,
                retention,
                copied,
            } => {
                let wrote = self.write(own, |own, fence| {
                    let done = own.completed(outcome.clone(), *retention, fence);
                    Some(if *copied { done.copied() } else { done })
                });
                Ok(match wrote.await? {
                    Wrote::Done(at) => Ok(self.kept(outcome, at + *retention)),
                    Wrote::Moved(found, now) => self.overtaken(outcome, found.as_deref(), now),
                })
            }
            End::Release => {
                let generation = own.generation;
                Ok(match self.write(own, Record::released).await? {
                    // Our own release, applied earlier: an open record has no mark to tell.
                    Wrote::Moved(Some(found), _)
                        if found.state == State::Open && found.generation == generation =>
                    {
                        self.settled(Wrote::Moved(None, found.written), &meters.released)
                    }
                    wrote => self.settled(wrote, &meters.released),
                })
            }
            End::Abandon(reason) => {
                let wrote = self
                    .write(own, |own, fence| Some(own.unsettled(reason.clone(), fence)))
                    .await?;
                Ok(self.settled(wrote, &meters.abandoned))
            }
        }
    }

    fn kept(&self, outcome: &Outcome, expires: Timestamp) -> Ended {
        // The answer of a twin is no execution.
        let copied = matches!(self.end.get(), Some(End::Complete { copied: true, .. }));
        self.arrival
            .meters()
            .originals
            .increment(u64::from(!copied));
        Ended::Kept(Kept {
            body: outcome.body().is_some(),
            expires,
        })
    }

    /// Another record than ours is there. Our own completion, applied earlier, is no loss.
    fn overtaken(
        &self,
        outcome: &Outcome,
        found: Option<&Record>,
        now: Timestamp,
    ) -> Result<Ended, EndError> {
        if let Some(found) = found
            && found.mark == Some(self.mark)
            && found
                .outcome()
                .is_some_and(|found| found.is_of_one(outcome))
        {
            return Ok(self.kept(outcome, found.expires()));
        }
        self.arrival.meters().late.increment(1);
        tracing::error!(
            slot = ?self.arrival.id(),
            attempt = self.attempt,
            ?outcome,
            "late completion: another record is in the slot, this result is not kept"
        );
        Err(self.lost(found, now))
    }

    /// A release or an abandonment that finds another record has nothing left to say, unless
    /// somebody took the claim away.
    fn settled(&self, wrote: Wrote, count: &Counter) -> Result<Ended, EndError> {
        match wrote {
            Wrote::Done(_) | Wrote::Moved(None, _) => {
                count.increment(1);
                Ok(Ended::Settled)
            }
            Wrote::Moved(Some(found), now) => Err(self.lost(Some(&found), now)),
        }
    }

    fn lost(&self, found: Option<&Record>, now: Timestamp) -> EndError {
        let step = decide(found, &self.arrival, now);
        let verdict = Verdict::of(step, self.arrival.id(), now).unwrap_or_else(|_| {
            Verdict::Unknown(Unsettled {
                slot: self.arrival.id(),
                reason: match found.map(|found| &found.state) {
                    Some(State::Unknown(reason)) => reason.clone(),
                    _ => Reason::SUPERSEDED,
                },
            })
        });
        EndError::Lost {
            verdict: Box::new(verdict),
        }
    }
}

/// Pauses between tries: from a few milliseconds to a second, so that a store that comes back
/// is noticed soon and is not trampled.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    taken: u32,
}

// === impl Pause ===

impl Pause {
    const FIRST: Duration = Duration::from_millis(5);
    const LONGEST: Duration = Duration::from_secs(1);

    pub(crate) async fn take(&mut self) {
        let length = Self::FIRST * (1 << self.taken.min(8));
        self.taken += 1;
        time::sleep(length.min(Self::LONGEST)).await;
    }
}
