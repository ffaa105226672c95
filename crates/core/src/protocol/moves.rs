//! Moves: what each write of the protocol puts into a slot.
//!
//! Each takes the record as it is and the fence of the new write. `written` is left as it was:
//! the store stamps it.

use std::time::Duration;

use super::{Arrival, Identity, Kind, Step};
use crate::bugs::{Bug, seeded};
use crate::claim::Duty;
use crate::record::{Deed, Lasts, Lease, Note, Point, Reservation};
use crate::{Effect, Fence, Outcome, Reason, Record, SlotId, State, Timestamp};

/// Returns what to write for a step that claims, and what its holder does first.
///
/// `found` is the record that led to `step`, and is what the claim is written over.
pub fn claim(
    step: &Step,
    found: Option<&Record>,
    arrival: &Arrival,
    fence: Fence,
) -> (Record, Duty) {
    match (step, found) {
        (Step::TakeOver { .. }, Some(found)) => (found.taken_over(arrival, fence), Duty::Repeat),
        (Step::Probe { .. }, Some(found)) => (found.taken_over(arrival, fence), Duty::Probe),
        (_, Some(found)) => (found.claimed_over(arrival, fence), Duty::Execute),
        (_, None) => (Record::claimed(arrival, fence), Duty::Execute),
    }
}

impl Record {
    /// A first claim: the beginning of a generation.
    pub fn claimed(arrival: &Arrival, fence: Fence) -> Self {
        let policy = arrival.policy();
        Self {
            scope: arrival.slot().scope().clone(),
            seal: arrival.seal(),
            effect: policy.effect,
            state: State::Claimed(Lease {
                length: policy.lease,
            }),
            mark: Some(fence),
            generation: fence,
            fence,
            attempt: 1,
            retention: policy.retention,
            unknown_retention: policy.unknown_retention,
            began: None,
            written: Timestamp::ZERO,
            point: None,
            audit: Vec::new(),
        }
    }

    /// The same claim with another mark, for another try to write it.
    pub(crate) fn remark(&mut self, fence: Fence) {
        if self.generation == self.fence {
            self.generation = fence;
        }
        (self.fence, self.mark) = (fence, Some(fence));
    }

    /// A first claim over an expired or open record. What operators did to an open one stays.
    pub fn claimed_over(&self, arrival: &Arrival, fence: Fence) -> Self {
        let audit = match self.state {
            State::Open => self.audit.clone(),
            State::Claimed(_) | State::Completed(_) | State::Unknown(_) | State::Reserved(_) => {
                Vec::new()
            }
        };
        Self {
            audit,
            ..Self::claimed(arrival, fence)
        }
    }

    /// A claim over a silent holder: another attempt of the same generation.
    pub fn taken_over(&self, arrival: &Arrival, fence: Fence) -> Self {
        Self {
            effect: self.effect.stricter(arrival.policy().effect),
            generation: self.generation,
            attempt: self.attempt.saturating_add(1),
            began: Some(self.began()),
            point: self.point.clone(),
            audit: self.audit.clone(),
            // A payload under older rules stays under those: its retries know both.
            seal: self.seal,
            ..Self::claimed(arrival, fence)
        }
    }

    /// The same claim, with its lease starting anew.
    pub fn renewed(&self, fence: Fence) -> Self {
        self.then(self.state.clone(), fence)
    }

    /// The same claim, with a recovery point.
    pub fn reached(&self, point: Point, fence: Fence) -> Self {
        Self {
            point: Some(Box::new(point)),
            ..self.then(self.state.clone(), fence)
        }
    }

    /// The work is done.
    pub fn completed(&self, outcome: Outcome, retention: Duration, fence: Fence) -> Self {
        // One that lasts as long as the rest goes with it.
        let keep = outcome.keeps_body_for().filter(|keep| *keep < retention);
        let outcome = outcome.keeping_for(keep);
        Self {
            retention,
            // A finished record is never taken over, so its point would only take up room.
            point: None,
            ..self.then(State::Completed(outcome), fence)
        }
    }

    /// The same, with the answer of a twin: no attempt was made here.
    pub(crate) fn copied(self) -> Self {
        Self { attempt: 0, ..self }
    }

    /// The body of the outcome is not kept any longer. The rest is, until it would have been.
    pub(crate) fn shed(&self, now: Timestamp, fence: Fence) -> Option<Self> {
        let outcome = self.outcome()?.clone().shed();
        Some(Self {
            retention: self.expires().since(now),
            ..self.then(State::Completed(outcome), fence)
        })
    }

    /// A business identity, taken by the work of `claim`.
    pub(crate) fn reserved(identity: &Identity, claim: &Self, slot: SlotId, fence: Fence) -> Self {
        let (lasts, retention) = match identity.kind() {
            // From then on the sweeper looks whether the work is still kept.
            Kind::Unique(_) => (Lasts::Work, claim.retention),
            Kind::Suspect(within, _) | Kind::Meant(within) => (Lasts::Window, within),
        };
        let reservation = Reservation {
            slot,
            generation: claim.generation,
            lasts,
        };
        Self {
            scope: identity.scope().clone(),
            state: State::Reserved(reservation),
            mark: None,
            generation: fence,
            fence,
            attempt: 1,
            retention,
            began: None,
            point: None,
            audit: Vec::new(),
            ..claim.clone()
        }
    }

    /// The same reservation, to be looked at again after `keep`.
    pub(crate) fn reserved_for(&self, keep: Duration, fence: Fence) -> Self {
        Self {
            retention: keep,
            ..self.then(self.state.clone(), fence)
        }
    }

    /// The same claim, with a note that goes along with its next write.
    pub(crate) fn suspected(&mut self, slot: SlotId, at: Timestamp) {
        let note = Note {
            deed: Deed::Suspected,
            who: "onceward".into(),
            why: format!("the same facts stand in slot {slot}").into(),
            at,
        };
        if self.audit.len() < Note::COUNT_MAX {
            self.audit.push(note);
        }
    }

    /// Nobody knows whether the work happened. The mark stays: its holder may yet complete.
    pub fn unsettled(&self, reason: Reason, fence: Fence) -> Self {
        self.then(State::Unknown(reason), fence)
    }

    /// The work provably did not happen. `None` removes the record.
    ///
    /// A later attempt, or one past a recovery point, only speaks for itself: what came before it
    /// may have happened. A record that an operator has touched stays, with its audit trail.
    pub(crate) fn released(&self, fence: Fence) -> Option<Self> {
        let alone = self.attempt == 1 || seeded(Bug::ReleaseForgetsAttempts);
        if !alone || self.point.is_some() {
            return Some(self.unsettled(Reason::EARLIER_ATTEMPT, fence));
        }
        // A service that refuses older fences may have seen this one: without a record to be
        // greater than, another process could mint a lower one.
        let untouched = self.audit.iter().all(|note| note.deed == Deed::Suspected);
        if untouched && self.effect != Effect::Probed {
            return None;
        }
        Some(self.opened(fence))
    }

    /// An operator settled it, with an outcome or as not executed.
    pub(crate) fn resolved(&self, outcome: Option<Outcome>, note: Note, fence: Fence) -> Self {
        let record = match outcome {
            Some(outcome) => self.completed(outcome, self.retention, fence),
            None => self.opened(fence),
        };
        record.noted(note)
    }

    /// An operator changed how long it is kept, counted from this write at about `note.at`. A body
    /// that goes before the rest goes when it would have.
    pub(crate) fn extended(&self, keep: Duration, note: Note, fence: Fence) -> Self {
        let state = match &self.state {
            State::Completed(outcome) if outcome.keeps_body_for().is_some() => {
                let left = self.due().since(note.at);
                State::Completed(match left.is_zero() {
                    true => outcome.clone().shed(),
                    false => outcome.clone().keeping_for(Some(left)),
                })
            }
            state => state.clone(),
        };
        Self {
            retention: keep,
            ..self.then(state, fence)
        }
        .noted(note)
    }

    /// Adds a note, at the price of the oldest one where there are too many.
    fn noted(mut self, note: Note) -> Self {
        if self.audit.len() >= Note::COUNT_MAX {
            self.audit.remove(0);
        }
        self.audit.push(note);
        self
    }

    /// Nothing happened, and the next arrival may claim. No mark: a late holder cannot heal it.
    fn opened(&self, fence: Fence) -> Self {
        Self {
            mark: None,
            point: None,
            ..self.then(State::Open, fence)
        }
    }

    /// The record with another state. Written out, because what `state` replaces need not be
    /// cloned first.
    fn then(&self, state: State, fence: Fence) -> Self {
        Self {
            scope: self.scope.clone(),
            seal: self.seal,
            effect: self.effect,
            state,
            mark: self.mark,
            generation: self.generation,
            fence,
            attempt: self.attempt,
            retention: self.retention,
            unknown_retention: self.unknown_retention,
            began: Some(self.began()),
            written: self.written,
            point: self.point.clone(),
            audit: self.audit.clone(),
        }
    }
}

impl Note {
    /// The longest name of an operator, in bytes.
    pub const WHO_MAX: usize = 255;
    /// The longest reason of an operator, in bytes.
    pub const WHY_MAX: usize = 1000;
    /// How many notes a record keeps.
    pub const COUNT_MAX: usize = 32;
}
