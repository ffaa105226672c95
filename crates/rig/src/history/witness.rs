//! Witnesses: what others than the processes say about a run.
//!
//! The service behind tells which effects it accepted, the last reads tell how every slot ended,
//! and whoever set the run up tells what to expect of it.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::event::Fence;

/// An effect that the service behind accepted.
///
/// A delivery that the service recognised as a repetition leaves no row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerRow {
    /// Whose effect.
    pub tenant: Arc<str>,

    /// The key it was sent under.
    pub key: Arc<str>,

    /// The mark of the claim it was executed under.
    #[serde(rename = "nonce", default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Fence>,

    /// The fence that came with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,

    /// The fingerprint of the payload that was executed.
    #[serde(rename = "F", default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Arc<str>>,

    /// The generation, where it is known; else it is found by the mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Fence>,

    /// The digest of the answer that the service gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resp_hash: Option<Arc<str>>,

    /// When it was accepted, on the clock of the events.
    pub t: u64,
}

/// The state of one slot after the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FinalRead {
    /// When it was read, on the clock of the events.
    pub mono_ns: u64,

    /// Whose slot.
    pub tenant: Arc<str>,

    /// Which of the tenant's slots.
    pub key: Arc<str>,

    /// What was found.
    pub state: State,

    /// The digest of the stored outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_hash: Option<Arc<str>>,

    /// The mark in the record.
    #[serde(rename = "nonce", default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Fence>,

    /// The generation in the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Fence>,
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing, or a record that has expired.
    #[default]
    Absent,
    /// A claim, whether or not its lease has lapsed.
    Claimed,
    /// An outcome.
    Completed,
    /// The knowledge that something may have happened.
    Unknown,
    /// An operator's word that nothing happened.
    Open,
}

/// What whoever set the run up expects of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expectations {
    /// How long a completed record is kept. Without it nothing may expire.
    pub retention_ns: Option<u64>,

    /// How long an unknown record is kept. Without it none may expire.
    pub unknown_retention_ns: Option<u64>,

    /// How far the store's clock may run ahead of the recorder's over one retention.
    pub slack_ns: u64,

    /// How far the ideas that two processes have of the store's time may be apart. Without it,
    /// two ticks of a coarse clock.
    pub reckoning_ns: Option<u64>,

    /// The run was seen from outside: its claims and completions were not recorded, only the
    /// answers that callers got.
    pub black_box: bool,

    /// No fault was injected, so no outcome may be unknown.
    pub fault_free: bool,

    /// The fewest terminal answers that make the run worth judging.
    pub successes_min: u64,

    /// The fewest faults of each kind that make the run worth judging.
    pub faults_min: BTreeMap<String, u64>,

    /// A secret text per tenant, found in none of the others' answers.
    pub canaries: BTreeMap<String, String>,

    /// What the system's own counters say, per tenant.
    pub totals: BTreeMap<String, Totals>,
}

/// The system's own count of one tenant's claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Totals {
    /// Claims granted, take-overs included.
    pub grants: u64,
    /// Grants that took over an earlier one.
    pub take_overs: u64,
    /// Generations that ended with an outcome.
    pub completed: u64,
    /// Generations released, or settled as not executed.
    pub released: u64,
    /// Generations whose outcome is unknown.
    pub unknown: u64,
    /// Generations still claimed.
    pub claimed: u64,
}

// === impl LedgerRow ===

impl fmt::Display for LedgerRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mark {
            Some(mark) => write!(f, "effect of {mark} at {}", self.t),
            None => write!(f, "effect at {}", self.t),
        }
    }
}
