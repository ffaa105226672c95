//! Twins: work that bears the same business identity under different keys.
//!
//! The identity has a slot of its own, which holds a reservation: which key's slot, and which
//! generation of it. It never holds an outcome, so there is nothing that could contradict the
//! record of the key. Whoever finds an identity taken reads that record and goes by it.
//!
//! The key is claimed first, then the identities in the order of their slots, and the work starts
//! once all are held. Nothing is held while waiting for a twin: a process that dies then leaves
//! nothing behind that somebody would have to settle.

use std::sync::Arc;
use std::time::Duration;

use super::grant::Tried;
use super::{Engine, Error, Shared, Sight};
use crate::bugs::{Bug, seeded};
use crate::claim::{Claim, EndError, Pause};
use crate::protocol::{Arrival, Identity, Kind, Meeting, Standing, meet, standing};
use crate::record::{Lasts, Reservation};
use crate::store::{self, Reply, Swap};
use crate::sync::time;
use crate::verdict::{Busy, Elsewhere, Replay, Twin, Unsettled, Verdict};
use crate::wait::Room;
use crate::{OnBusy, Outcome, Record, SlotId, Timestamp};

/// A claim whose identities are being taken. Given up halfway, it is released: the work has not
/// started.
struct Taking(Option<Claim>);

/// What asking for one identity came to.
enum Taken {
    /// It is ours.
    Held,
    /// The twin's answer is to be given instead.
    Instead(Replay),
    /// The caller gets this instead.
    Refused(Verdict),
    /// The twin is under way.
    Running(Running),
}

/// A twin that is under way.
struct Running {
    slot: SlotId,
    until: Timestamp,
    /// When it was seen, by the store's clock.
    seen: Timestamp,
}

/// What asking for all identities came to.
enum Asked {
    Verdict(Verdict),
    Running(Running),
}

// === impl Engine ===

impl Engine {
    /// Asks for the key's slot, then for every identity of the arrival, and waits for twins that
    /// are under way as long as the policy says.
    pub(super) async fn ask_alone(&self, arrival: &Arrival) -> Result<Verdict, Error> {
        let reach = &self.shared.reach;
        let started = reach.own_time();
        let mut asking = arrival.clone();
        loop {
            let claim = match self.ask(&asking).await? {
                Verdict::Execute(claim) => claim,
                verdict => return Ok(verdict),
            };
            let running = match self.take_all(claim, arrival).await? {
                Asked::Verdict(verdict) => return Ok(verdict),
                Asked::Running(running) => running,
            };
            let limit = match arrival.wait_rule() {
                OnBusy::Wait(limit) => limit,
                OnBusy::Refuse => Duration::ZERO,
            };
            let waited = reach.own_time().saturating_sub(started);
            let left = limit.saturating_sub(waited);
            if let Err(crowded) = self.wait_for_twin(arrival, &running, left).await {
                let retry_after = running.until.since(running.seen);
                return Ok(Verdict::Busy(Busy {
                    retry_after,
                    crowded,
                    twin: Some(running.slot),
                }));
            }
            let waited = reach.own_time().saturating_sub(started);
            asking = asking.on_busy(OnBusy::Wait(limit.saturating_sub(waited)));
        }
    }

    /// Takes the identities of the arrival if `verdict` is a claim; `None` if a twin is under way.
    pub(super) async fn alone(
        &self,
        arrival: &Arrival,
        verdict: Verdict,
    ) -> Result<Option<Verdict>, Error> {
        match verdict {
            Verdict::Execute(claim) if !arrival.identities().is_empty() => {
                match Box::pin(self.take_all(claim, arrival)).await? {
                    Asked::Verdict(verdict) => Ok(Some(verdict)),
                    Asked::Running(_) => Ok(None),
                }
            }
            verdict => Ok(Some(verdict)),
        }
    }

    /// Waits until the twin is no longer under way. Fails if it still is, and says whether there
    /// was no room to wait in.
    async fn wait_for_twin(
        &self,
        arrival: &Arrival,
        twin: &Running,
        limit: Duration,
    ) -> Result<(), bool> {
        if limit.is_zero() {
            return Err(false);
        }
        let scope = arrival.slot().scope();
        let seat = Room::enter(&self.shared, twin.slot, scope, twin.seen).ok_or(true)?;
        arrival.meters().waits.increment(1);
        let news = time::timeout(limit, seat.news_after(0)).await;
        news.map(drop).map_err(|_| false)
    }

    /// Takes the identities one after the other.
    async fn take_all(&self, claim: Claim, arrival: &Arrival) -> Result<Asked, Error> {
        let taking = Taking(Some(claim));
        for identity in arrival.identities() {
            match self.take(identity, taking.claim(), arrival).await? {
                Taken::Held => {}
                Taken::Running(running) => {
                    taking.release().await;
                    return Ok(Asked::Running(running));
                }
                Taken::Refused(verdict) => {
                    taking.release().await;
                    return Ok(Asked::Verdict(verdict));
                }
                Taken::Instead(replay) => {
                    let unique = matches!(identity.kind(), Kind::Unique(_));
                    let done = u64::from(unique);
                    arrival.meters().already_done.increment(done);
                    let verdict = taking.complete(replay, self.store().kind()).await?;
                    return Ok(Asked::Verdict(verdict));
                }
            }
        }
        Ok(Asked::Verdict(Verdict::Execute(taking.into_claim())))
    }

    /// Takes one identity, or says why not.
    ///
    /// A write whose reply is lost is simply repeated: a reservation says whose it is.
    async fn take(
        &self,
        identity: &Identity,
        claim: &Claim,
        arrival: &Arrival,
    ) -> Result<Taken, Error> {
        let shared = &self.shared;
        let reach = &shared.reach;
        let mut own = claim.holding().record.lock().await.clone();
        let (mut over, mut pause) = (None, Pause::default());
        let started = reach.own_time();
        loop {
            let fence = reach.fence(over);
            if seeded(Bug::ReservesBeforeClaim) {
                own.generation = fence;
            }
            let record = Record::reserved(identity, &own, claim.id(), fence);
            let not_after = reach.not_after();
            let tried = shared.try_claim(identity.id(), over, &record, not_after);
            let late = match tried.await {
                Ok(Tried::Granted(_)) => return Ok(Taken::Held),
                Ok(Tried::Found(Some(there), now)) => {
                    let meeting = self.meet(identity, claim, arrival, &there, now);
                    match meeting.await? {
                        Some(taken) => return Ok(taken),
                        None => over = Some(there.fence),
                    }
                    continue;
                }
                Ok(Tried::Found(None, _)) => {
                    over = None;
                    continue;
                }
                Ok(Tried::Late) => {
                    store::Error::unavailable(self.store().kind(), "reservations come too late")
                }
                Err(error) if !error.is_transient() => return Err(error.into()),
                Err(_) if seeded(Bug::TornReservation) => return Ok(Taken::Held),
                Err(error) => error,
            };
            if reach.own_time().saturating_sub(started) >= shared.limits.store_patience {
                return Err(late.into());
            }
            pause.take().await;
        }
    }

    /// What to do about an identity in whose slot `there` stands; `None` to write over it.
    async fn meet(
        &self,
        identity: &Identity,
        claim: &Claim,
        arrival: &Arrival,
        there: &Record,
        now: Timestamp,
    ) -> Result<Option<Taken>, Error> {
        let Some(reservation) = there.reservation() else {
            if let Some(outcome) = there.outcome().filter(|_| seeded(Bug::OutcomeCopied)) {
                return Ok(Some(Taken::Instead(Replay {
                    outcome: outcome.clone(),
                    completed: there.written,
                    expires: there.expires(),
                    copied: false,
                })));
            }
            let why = "a record of work stands in the slot of an identity";
            let kind = self.store().kind();
            return Err(store::Error::unavailable(kind, why).into());
        };
        if claim.is_for(reservation) {
            return Ok(Some(Taken::Held));
        }
        if matches!(identity.kind(), Kind::Meant(_)) {
            return Ok(None);
        }
        let passed = reservation.lasts == Lasts::Window && there.due() <= now;
        let Reply { value: work, now } = self.shared.look_at(reservation).await?;
        let standing = standing(reservation, work.as_deref(), now);
        // Work that is under way is never long ago.
        if passed && !matches!(standing, Standing::Running { .. }) {
            return Ok(None);
        }
        let meeting = meet(identity.kind(), standing);
        let slot = reservation.slot;
        if matches!(identity.kind(), Kind::Suspect(..)) && meeting != Meeting::Over {
            arrival.meters().suspected.increment(1);
            tracing::warn!(rule = %identity.rule(), slot = ?arrival.id(), twin = ?slot, "suspected duplicate");
        }
        Ok(Some(match meeting {
            Meeting::Over => return Ok(None),
            Meeting::Flagged => {
                let mut own = claim.holding().record.lock().await;
                own.suspected(slot, now);
                return Ok(None);
            }
            Meeting::Instead(replay) => Taken::Instead(replay),
            Meeting::Refused(twin) => Taken::Refused(refusal(identity, arrival, twin)),
            Meeting::Running { until } => Taken::Running(Running {
                slot,
                until,
                seen: now,
            }),
            Meeting::Unsettled { lapsed, reason } => {
                if let Some(work) = work.filter(|_| lapsed) {
                    // Whether or not it moved meanwhile: the next to ask sees what it is now.
                    self.shared.mark_lapsed(slot, &work).await?;
                }
                Taken::Refused(Verdict::Unknown(Unsettled { slot, reason }))
            }
        }))
    }

    /// What an arrival with a free key sees of work that bears an identity which succeeds once;
    /// `None` if there is nothing that counts.
    pub(super) async fn glance(&self, arrival: &Arrival) -> Result<Option<Sight>, Error> {
        let reach = &self.shared.reach;
        let once = |identity: &&Identity| matches!(identity.kind(), Kind::Unique(_));
        for identity in arrival.identities().iter().filter(once) {
            let there = reach.ask(reach.store.get(identity.id())).await?.value;
            let Some(reservation) = there.as_deref().and_then(Record::reservation) else {
                continue;
            };
            let Reply { value: work, now } = self.shared.look_at(reservation).await?;
            let standing = standing(reservation, work.as_deref(), now);
            let verdict = match meet(identity.kind(), standing) {
                Meeting::Over | Meeting::Flagged => continue,
                Meeting::Running { .. } | Meeting::Unsettled { lapsed: true, .. } => {
                    return Ok(Some(Sight::Held));
                }
                Meeting::Unsettled { reason, .. } => Verdict::Unknown(Unsettled {
                    slot: reservation.slot,
                    reason,
                }),
                Meeting::Instead(replay) => {
                    arrival.meters().already_done.increment(1);
                    Verdict::Replay(replay)
                }
                Meeting::Refused(twin) => refusal(identity, arrival, twin),
            };
            return Ok(Some(Sight::Verdict(verdict)));
        }
        Ok(None)
    }
}

/// The verdict about work that is not to be done on account of its twin.
fn refusal(identity: &Identity, arrival: &Arrival, twin: Twin) -> Verdict {
    if let Twin::Done(_) = twin {
        arrival.meters().already_done.increment(1);
    }
    let rule = identity.rule().clone();
    Verdict::Elsewhere(Elsewhere { rule, twin })
}

// === impl Shared ===

impl Shared {
    /// The record of the work that has taken an identity.
    async fn look_at(
        &self,
        reservation: &Reservation,
    ) -> Result<Reply<Option<Arc<Record>>>, store::Error> {
        let reach = &self.reach;
        reach.ask(reach.store.get(reservation.slot)).await
    }

    /// The mistake of [`Bug::OutcomeCopied`].
    pub(crate) async fn copy(&self, arrival: &Arrival, outcome: &Outcome) {
        let store = &self.reach.store;
        for identity in arrival.identities() {
            if let Ok(Reply {
                value: Some(it), ..
            }) = store.get(identity.id()).await
            {
                let fence = self.reach.fence(Some(it.fence));
                let record = it.completed(outcome.clone(), it.retention, fence);
                let copy = store.replace(identity.id(), it.fence, &record, Timestamp::NEVER);
                let _ = copy.await;
            }
        }
    }

    /// Looks whether a reservation that is due still stands for something, and removes it
    /// otherwise.
    pub(super) async fn review(
        &self,
        id: SlotId,
        due: &Record,
        reservation: &Reservation,
    ) -> Result<(), Error> {
        let reach = &self.reach;
        let Reply { value: work, now } = self.look_at(reservation).await?;
        let keep = match standing(reservation, work.as_deref(), now) {
            Standing::Void => None,
            Standing::Running { until } if reservation.lasts == Lasts::Window => {
                Some(until.since(now))
            }
            _ if reservation.lasts == Lasts::Window => None,
            Standing::Done(replay) => Some(replay.expires.since(now)),
            Standing::Running { .. } | Standing::Unsettled { .. } => Some(Self::REVIEW),
        };
        // What moved meanwhile is somebody else's business.
        match keep {
            Some(keep) => {
                let keep = keep.max(Duration::from_secs(1));
                let record = due.reserved_for(keep, reach.fence(Some(due.fence)));
                let call = reach
                    .store
                    .replace(id, due.fence, &record, Timestamp::NEVER);
                reach.ask(call).await?;
            }
            None => {
                let call = reach.store.remove(id, due.fence, Timestamp::NEVER);
                if reach.ask(call).await?.value == Swap::Done {
                    reach.meters.swept.increment(1);
                }
            }
        }
        Ok(())
    }

    /// How long until a reservation for work without an end is looked at again.
    const REVIEW: Duration = Duration::from_secs(3600);
}

// === impl Taking ===

impl Taking {
    fn claim(&self) -> &Claim {
        let claim = self.0.as_ref();
        claim.expect("it is there until it is handed on")
    }

    fn into_claim(mut self) -> Claim {
        let claim = self.0.take();
        claim.expect("it is there until it is handed on")
    }

    /// Releases the claim: nothing was executed under it. What the store has not taken yet is
    /// repeated in the background.
    async fn release(self) {
        let _ = self.into_claim().release().await;
    }

    /// Ends the claim with the answer of a twin. It is told once the key's own record has it: what a
    /// caller was told under a key, a retry under that key is told again, even if this process dies.
    async fn complete(self, replay: Replay, kind: &'static str) -> Result<Verdict, Error> {
        match self.into_claim().copy(replay.outcome.clone()).await {
            Ok(kept) => Ok(Verdict::Replay(Replay {
                expires: kept.expires,
                copied: true,
                ..replay
            })),
            Err(EndError::Lost { verdict }) => Ok(*verdict),
            Err(EndError::Pending { source }) => {
                let late = || store::Error::unavailable(kind, "the answer is not stored yet");
                Err(source.unwrap_or_else(late).into())
            }
            Err(EndError::Store(error)) => Err(error.into()),
        }
    }
}

impl Drop for Taking {
    /// The keeper releases it: nothing was executed under it.
    fn drop(&mut self) {
        if let Some(claim) = self.0.take() {
            drop(claim.release());
        }
    }
}
