//! Verdicts: what the engine tells a caller that arrived.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::Claim;
use crate::protocol::Step;
use crate::{Outcome, Reason, SlotId, Timestamp};

/// What a caller that arrived may do, or gets.
#[derive(Debug)]
pub enum Verdict {
    /// Do the work: you are the only one. Then complete, release or abandon the claim.
    Execute(Claim),
    /// The work is done; this is its answer.
    Replay(Replay),
    /// Somebody is at it.
    Busy(Busy),
    /// The key is used for another payload.
    Mismatch,
    /// Nobody knows whether the work happened, and nobody may try again until it is settled.
    Unknown(Unsettled),
    /// The same work stands under another key, and a rule says to refuse this one.
    Elsewhere(Elsewhere),
}

/// The same work stands under another key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// The name of the rule that found it.
    pub rule: Arc<str>,
    /// What it found.
    pub twin: Twin,
}

/// Work under another key that bears the same business identity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Twin {
    /// It succeeded, and this was its answer.
    Done(Box<Replay>),
    /// It looks the same, and came a short while ago.
    Suspected,
}

/// The first answer, once more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replay {
    /// What the first caller got.
    pub outcome: Outcome,
    /// When the outcome was stored, or an operator last extended it, by the store's clock.
    pub completed: Timestamp,
    /// When the outcome is forgotten, by the store's clock.
    pub expires: Timestamp,
    /// Whether it is the answer of work with the same business identity under another key, which
    /// was just now written down under this one.
    pub copied: bool,
}

/// Somebody else holds the claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Busy {
    /// How long until asking again may get another answer, by the lease of the holder.
    pub retry_after: Duration,
    /// Whether this caller was refused because too many were waiting already.
    pub crowded: bool,
    /// The slot of the work that is under way, if that is the same work under another key of the
    /// same tenant.
    pub twin: Option<SlotId>,
}

/// Nobody knows whether the work happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsettled {
    /// The slot, for whoever settles it.
    pub slot: SlotId,
    /// Why nobody knows.
    pub reason: Reason,
}

// === impl Unsettled ===

impl fmt::Display for Unsettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {:?}: {}", self.slot, self.reason)
    }
}

// === impl Verdict ===

impl Verdict {
    /// Returns what `step` tells a caller, or the step back where it is something to do first.
    pub fn of(step: Step, slot: SlotId, now: Timestamp) -> Result<Self, Step> {
        Ok(match step {
            Step::Replay {
                outcome,
                completed,
                expires,
            } => Self::Replay(Replay {
                outcome,
                completed,
                expires,
                copied: false,
            }),
            Step::Mismatch => Self::Mismatch,
            Step::Busy { until } => Self::Busy(Busy {
                retry_after: until.since(now),
                crowded: false,
                twin: None,
            }),
            Step::Hold { mark: None, reason } => Self::Unknown(Unsettled { slot, reason }),
            Step::Claim { .. }
            | Step::Hold { mark: Some(_), .. }
            | Step::TakeOver { .. }
            | Step::Probe { .. } => return Err(step),
        })
    }
}
