//! The protocol: what to do about the record found in a slot.
//!
//! Everything here is pure: no store, no clock, no `async`. [`decide`] is the only state machine
//! in the workspace; `moves` says what each write puts into the slot.

use std::sync::Arc;

use crate::bugs::{Bug, seeded};
use crate::meters::Meters;
use crate::{
    Effect, Fence, Fingerprint, OnBusy, Outcome, Policy, Reason, Record, Seal, Secret, Slot,
    SlotId, State, Timestamp,
};

mod identity;
mod moves;

pub use identity::{Identity, Standing, Suspicion, Then, standing};
pub use moves::claim;

pub(crate) use identity::{Kind, Meeting, meet};

/// A caller that asks for work to be done once, under the rules of a policy.
///
/// Cheap to clone: its claim and whoever waits share it.
#[derive(Clone, Debug)]
pub struct Arrival(Arc<Asking>);

#[derive(Clone, Debug)]
struct Asking {
    slot: Slot,
    id: SlotId,
    seal: Seal,
    /// The same payload under the rules that were in force before.
    previous: Option<Seal>,
    /// What this arrival wants while somebody else is at it, if not what the policy says.
    on_busy: Option<OnBusy>,
    rules: Rules,
    /// What else names the work, in the order of their slots: whoever takes several takes them in
    /// the same order, so that nobody waits for each other. Suspicions come last, so that nobody
    /// is suspected for work that was not even begun.
    identities: Vec<Identity>,
}

/// A policy that many arrivals share, with the meters of its route.
#[derive(Clone, Debug)]
pub struct Rules(Arc<Ruled>);

#[derive(Debug)]
struct Ruled {
    policy: Policy,
    meters: Meters,
}

/// What a newcomer does about what it found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Claim the slot: insert, or replace the record with this fence.
    Claim {
        /// The fence of the record to claim over, if there is one.
        over: Option<Fence>,
    },
    /// Answer with this outcome, which is kept until `expires`.
    Replay {
        /// What the first caller got.
        outcome: Outcome,
        /// When the work ended.
        completed: Timestamp,
        /// When the outcome is forgotten.
        expires: Timestamp,
    },
    /// Somebody is at it: wait, or be refused. Its lease lapses at `until` unless renewed.
    Busy {
        /// When the lease lapses.
        until: Timestamp,
    },
    /// The key is used for another payload.
    Mismatch,
    /// Nobody knows whether the work happened, and nobody may try again.
    Hold {
        /// The fence of the record, if it is a lapsed claim that has yet to be marked unknown.
        mark: Option<Fence>,
        /// Why nobody knows.
        reason: Reason,
    },
    /// Claim over the silent holder and execute under the same key.
    TakeOver {
        /// The fence of the record to claim over.
        seen: Fence,
    },
    /// Claim over the silent holder, and ask the service whether the work happened.
    Probe {
        /// The fence of the record to claim over.
        seen: Fence,
    },
}

/// Decides what a newcomer does about what it found in its slot.
pub fn decide(found: Option<&Record>, arrival: &Arrival, now: Timestamp) -> Step {
    let Some(found) = found else {
        return Step::Claim { over: None };
    };
    let seen = found.fence;
    if found.has_expired(now) && !seeded(Bug::ExpiredServed) {
        return Step::Claim { over: Some(seen) };
    }
    let spares = seeded(Bug::FingerprintAfterState) && matches!(found.state, State::Claimed(_));
    if !spares && !arrival.matches(&found.seal) {
        return Step::Mismatch;
    }
    match &found.state {
        State::Open => Step::Claim { over: Some(seen) },
        State::Completed(outcome) => Step::Replay {
            outcome: outcome.told(found.due() <= now),
            completed: found.written,
            expires: found.expires(),
        },
        // A slot of a key is never named as an identity is.
        State::Reserved(_) => Step::Mismatch,
        State::Claimed(_) if now < found.due() => Step::Busy { until: found.due() },
        // The point declares that what follows it may be repeated.
        State::Claimed(_) | State::Unknown(_) if found.point.is_some() => Step::TakeOver { seen },
        // Nobody can tell from here whether the work happened, so the effect's class speaks.
        State::Claimed(_) | State::Unknown(_) => {
            match found.effect.stricter(arrival.policy().effect) {
                Effect::Opaque if seeded(Bug::SilentTakeover) => Step::TakeOver { seen },
                Effect::Opaque => hold(found),
                Effect::Probed => Step::Probe { seen },
                Effect::Keyed | Effect::Transactional | Effect::Repeatable => {
                    Step::TakeOver { seen }
                }
            }
        }
    }
}

fn hold(found: &Record) -> Step {
    match &found.state {
        State::Unknown(reason) => Step::Hold {
            mark: None,
            reason: reason.clone(),
        },
        State::Claimed(_) | State::Completed(_) | State::Open | State::Reserved(_) => Step::Hold {
            mark: Some(found.fence),
            reason: Reason::LAPSED,
        },
    }
}

// === impl Arrival ===

impl Arrival {
    /// Returns the arrival of `fingerprint` at `slot`, under a deployment's secret.
    ///
    /// Hashes the slot's name and seals the fingerprint: once, however often it is then used.
    pub fn new(
        slot: Slot,
        fingerprint: &Fingerprint,
        rules: impl Into<Rules>,
        secret: &Secret,
    ) -> Self {
        let id = slot.id(secret);
        Self(Arc::new(Asking {
            id,
            seal: fingerprint.seal(secret, id),
            previous: None,
            on_busy: None,
            rules: rules.into(),
            identities: Vec::new(),
            slot,
        }))
    }

    /// Also accepts a record whose fingerprint was made by the rules that were in force before.
    #[must_use]
    pub fn or(mut self, previous: &Fingerprint, secret: &Secret) -> Self {
        let asking = Arc::make_mut(&mut self.0);
        asking.previous = Some(previous.seal(secret, asking.id));
        self
    }

    /// Overrides what the policy says about a slot at which somebody else is at work.
    #[must_use]
    pub fn on_busy(mut self, on_busy: OnBusy) -> Self {
        Arc::make_mut(&mut self.0).on_busy = Some(on_busy);
        self
    }

    /// Also binds the work to a business identity, whatever its key.
    #[must_use]
    pub fn under(mut self, identity: Identity, secret: &Secret) -> Self {
        let identity = identity.filed(self.slot().scope(), secret);
        let asking = Arc::make_mut(&mut self.0);
        let taken = &asking.identities;
        let at = match seeded(Bug::IdentitiesUnsorted) {
            true => Err(taken.len()),
            false => {
                let place = identity.place_in_line();
                taken.binary_search_by_key(&place, Identity::place_in_line)
            }
        };
        // The same one twice is one.
        if let Err(at) = at {
            asking.identities.insert(at, identity);
        }
        self
    }

    /// What else names the work.
    pub fn identities(&self) -> &[Identity] {
        &self.0.identities
    }

    /// The slot asked for.
    pub fn slot(&self) -> &Slot {
        &self.0.slot
    }

    /// The name under which stores file the slot.
    pub fn id(&self) -> SlotId {
        self.0.id
    }

    /// The rules asked under.
    pub fn policy(&self) -> &Policy {
        self.0.rules.policy()
    }

    pub(crate) fn wait_rule(&self) -> OnBusy {
        self.0.on_busy.unwrap_or(self.policy().on_busy)
    }

    pub(crate) fn seal(&self) -> Seal {
        self.0.seal
    }

    pub(crate) fn meters(&self) -> &Meters {
        self.0.rules.meters()
    }

    fn matches(&self, seal: &Seal) -> bool {
        self.0.seal == *seal || self.0.previous.as_ref() == Some(seal)
    }
}

// === impl Rules ===

impl From<Policy> for Rules {
    fn from(policy: Policy) -> Self {
        let meters = Meters::new(&policy.route);
        Self(Arc::new(Ruled { policy, meters }))
    }
}

impl Rules {
    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    fn meters(&self) -> &Meters {
        &self.0.meters
    }
}

#[cfg(test)]
mod tests;
