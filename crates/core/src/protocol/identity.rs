//! Identities: what names a piece of work besides its key, and what stands behind a name that is
//! taken.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::bugs::{Bug, seeded};
use crate::record::Reservation;
use crate::verdict::{Replay, Twin};
use crate::{Ending, Outcome, Reason, Record, Scope, Secret, SlotId, State, Timestamp};

/// A business identity: an order, an invoice, the facts of a payment. Work that bears one is told
/// from other work by it, whatever the keys.
///
/// It belongs to a tenant, as every key does.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    rule: Arc<str>,
    value: Vec<u8>,
    kind: Kind,
    /// Where it is filed, once it is known for whom.
    filed: Option<(SlotId, Scope)>,
}

/// What an identity is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// It succeeds once.
    Unique(Then),
    /// It is hardly meant twice within this time.
    Suspect(Duration, Suspicion),
    /// The same, and the caller says that it is meant: nobody is asked, the next is compared with
    /// this one.
    Meant(Duration),
}

/// What a caller gets whose work has succeeded under another key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Then {
    /// The answer of that work, which its own key keeps from then on.
    #[default]
    Return,
    /// A refusal that says so.
    Refuse,
}

/// What a caller gets whose work looks like that under another key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Suspicion {
    /// It passes; it is counted, and its record says so.
    #[default]
    Flag,
    /// A refusal that says so.
    Refuse,
    /// The answer of that work, which its own key keeps from then on.
    Return,
}

/// What has become of the work that has taken an identity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Somebody is at it: its lease lapses then, unless renewed.
    Running {
        /// When the lease lapses.
        until: Timestamp,
    },
    /// It succeeded.
    Done(Replay),
    /// Nobody knows.
    Unsettled {
        /// Whether the record is a lapsed claim that has yet to be marked unknown.
        lapsed: bool,
        /// Why nobody knows.
        reason: Reason,
    },
    /// There is nothing that counts: it failed, did not happen, or is forgotten. It stays so, for
    /// a generation never comes back.
    Void,
}

/// What work gets that bears an identity which other work has taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Meeting {
    /// The identity: what has taken it does not count.
    Over,
    /// The identity, and a note that it looks like that work.
    Flagged,
    /// The answer of that work.
    Instead(Replay),
    /// A refusal.
    Refused(Twin),
    /// Nothing yet: that work is under way.
    Running {
        /// When its lease lapses.
        until: Timestamp,
    },
    /// A refusal, because nobody knows what became of that work.
    Unsettled {
        /// Whether its record is a lapsed claim that has yet to be marked unknown.
        lapsed: bool,
        /// Why nobody knows.
        reason: Reason,
    },
}

/// Says what work gets that bears an identity of this kind, given what has become of the work that
/// has taken it.
pub(crate) fn meet(kind: Kind, standing: Standing) -> Meeting {
    match (kind, standing) {
        (Kind::Meant(_), _) | (_, Standing::Void) => Meeting::Over,
        (Kind::Suspect(_, Suspicion::Flag), _) => Meeting::Flagged,
        (Kind::Suspect(_, Suspicion::Refuse), _) => Meeting::Refused(Twin::Suspected),
        (_, Standing::Running { until }) => Meeting::Running { until },
        (_, Standing::Unsettled { lapsed, reason }) => Meeting::Unsettled { lapsed, reason },
        (Kind::Unique(Then::Refuse), Standing::Done(replay)) => {
            Meeting::Refused(Twin::Done(Box::new(replay)))
        }
        (_, Standing::Done(replay)) => Meeting::Instead(replay),
    }
}

/// Says what has become of the work behind `reservation`, given the record in its slot.
///
/// Nobody but a retry under its own key, or an operator, can settle work of which nobody knows:
/// here it is not asked what is known about its effect.
pub fn standing(reservation: &Reservation, work: Option<&Record>, now: Timestamp) -> Standing {
    let Some(work) = work.filter(|work| !work.has_expired(now)) else {
        return Standing::Void;
    };
    if work.generation != reservation.generation && !seeded(Bug::GenerationIgnored) {
        return Standing::Void;
    }
    match &work.state {
        // The answer of a twin, which did its own work and not this.
        State::Completed(_) if work.attempt == 0 => Standing::Void,
        State::Claimed(_) if now < work.due() => Standing::Running { until: work.due() },
        State::Claimed(_) => Standing::Unsettled {
            lapsed: true,
            reason: Reason::LAPSED,
        },
        State::Unknown(_) if seeded(Bug::UnknownTwinVoid) => Standing::Void,
        State::Unknown(reason) => Standing::Unsettled {
            lapsed: false,
            reason: reason.clone(),
        },
        State::Completed(outcome) if counts(outcome) => Standing::Done(Replay {
            outcome: outcome.told(work.due() <= now),
            completed: work.written,
            expires: work.expires(),
            copied: false,
        }),
        State::Completed(_) | State::Open | State::Reserved(_) => Standing::Void,
    }
}

/// Whether an identity is taken for good by work that ended so.
fn counts(outcome: &Outcome) -> bool {
    outcome.ending == Ending::Success || seeded(Bug::FailedTwinCounts)
}

// === impl Identity ===

impl Identity {
    /// Returns the identity `value` of which one piece of work may succeed, by the rule of that
    /// name.
    pub fn unique(rule: impl Into<Arc<str>>, value: impl Into<Vec<u8>>, then: Then) -> Self {
        Self::new(rule.into(), value.into(), Kind::Unique(then))
    }

    /// Returns the facts `value` that are hardly meant twice `within` that time, by the rule of
    /// that name.
    pub fn suspect(
        rule: impl Into<Arc<str>>,
        value: impl Into<Vec<u8>>,
        within: Duration,
        then: Suspicion,
    ) -> Self {
        Self::new(rule.into(), value.into(), Kind::Suspect(within, then))
    }

    /// Says that work with these facts is meant, however soon it follows other work with them: it
    /// is not suspected, and the next is compared with it. Nothing changes for an identity that
    /// succeeds once.
    #[must_use]
    pub fn confirmed(mut self) -> Self {
        if let Kind::Suspect(within, _) = self.kind {
            self.kind = Kind::Meant(within);
        }
        self
    }

    fn new(rule: Arc<str>, value: Vec<u8>, kind: Kind) -> Self {
        Self {
            rule,
            value,
            kind,
            filed: None,
        }
    }

    /// The name of the rule.
    pub fn rule(&self) -> &Arc<str> {
        &self.rule
    }

    /// Files it for the tenant of `scope`.
    pub(super) fn filed(mut self, scope: &Scope, secret: &Secret) -> Self {
        let word = match self.kind {
            Kind::Unique(_) => "unique",
            Kind::Suspect(..) | Kind::Meant(_) => "suspect",
        };
        // No operation has a control character in it, so no key is ever filed here.
        let domain = format!("\u{1}{word} {}", self.rule);
        let id = SlotId::from_bytes(secret.name([
            scope.tenant().as_bytes(),
            domain.as_bytes(),
            &self.value,
        ]));
        let shown = format!("{word}:{}", self.rule);
        let scope = Scope::parse(scope.tenant(), &shown)
            .or_else(|_| Scope::parse(scope.tenant(), word))
            .expect("the word is a name, and the tenant is one already");
        self.filed = Some((id, scope));
        self
    }

    pub(crate) fn id(&self) -> SlotId {
        self.place().0
    }

    /// What identities are sorted by.
    pub(super) fn place_in_line(&self) -> (bool, SlotId) {
        (!matches!(self.kind, Kind::Unique(_)), self.id())
    }

    /// Under which names its slot is filed.
    ///
    /// # Panics
    ///
    /// If no arrival bears it yet.
    pub fn scope(&self) -> &Scope {
        &self.place().1
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    fn place(&self) -> &(SlotId, Scope) {
        let filed = self.filed.as_ref();
        filed.expect("an arrival files its identities when it gets them")
    }
}

/// Not the value, which may be personal data.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("rule", &self.rule)
            .field("kind", &self.kind)
            .field("slot", &self.filed.as_ref().map(|(id, _)| id))
            .finish_non_exhaustive()
    }
}
