//! Events: what the processes of a run asked and were answered.

use std::{fmt, num::ParseIntError, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use super::State;

/// The number that marks one write: 64 bits that grow with time, then 64 random bits.
///
/// A claim's *mark* and a slot's *generation* are fences too, so all three compare. Written as
/// hexadecimal digits, because JSON numbers end at 53 bits in many readers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Fence(pub u128);

/// One line of a run: a process asks something, or learns what came of it.
///
/// Every operation has an `invoke`, written before anything is done, and at most one line that
/// ends it. One that is never ended counts as `info`. Fields left out are unknown: what an ending
/// leaves out is taken from the `invoke`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// When, on one monotonic clock for the whole run. Equal times count as simultaneous, so a
    /// recorder that knows the order of two events gives them different times.
    pub mono_ns: u64,

    /// Which process.
    pub proc: u32,

    /// Which of its operations.
    pub op_id: u64,

    /// Whether the operation begins here, or how it ends.
    #[serde(rename = "type")]
    pub kind: Kind,

    /// What is asked.
    #[serde(rename = "f")]
    pub verb: Verb,

    /// Whose slot.
    pub tenant: Arc<str>,

    /// Which of the tenant's slots.
    pub key: Arc<str>,

    /// The fingerprint of the payload.
    #[serde(rename = "F", default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Arc<str>>,

    /// The claim's mark.
    #[serde(rename = "nonce", default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Fence>,

    /// The fence of this write, or of the record that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,

    /// The generation of the record written or read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Fence>,

    /// What the operation answered or, for `complete` and `resolve`, what it asked to be written.
    #[serde(rename = "outcome", default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,

    /// The digest of the answer's bytes: status, stored headers and body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_hash: Option<Arc<str>>,

    /// The effect class of the claim. A claim past a recovery point counts as keyed, and a resolve
    /// that a probe decided carries `probed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,

    /// Bytes that reached the caller, to be searched for other tenants' canaries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Arc<str>>,
}

/// Whether an event begins an operation, or how it ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The operation is about to begin.
    #[default]
    Invoke,
    /// It happened, between its invoke and now.
    Ok,
    /// It did not happen and never will.
    Fail,
    /// Nobody knows: it may have happened, and it may yet happen at any later time.
    Info,
}

/// What an operation does to its slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Ask for the right to execute.
    #[default]
    Claim,
    /// Keep the lease from lapsing.
    #[serde(rename = "heartbeat")]
    Renew,
    /// Store the outcome.
    Complete,
    /// Say that the work provably did not happen.
    Release,
    /// Say that the outcome is unknown.
    Abandon,
    /// Settle an unknown record, by an operator or a probe.
    Resolve,
    /// Read the record.
    Get,
    /// Collect what has expired, mark what has lapsed.
    #[serde(rename = "purge")]
    Sweep,
    /// Tell the broker that a message is dealt with.
    MsgAck,
}

/// What an operation answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// A claim: the caller may execute.
    Granted,
    /// A claim, or a completion that lost: here is the stored outcome.
    Replayed,
    /// A claim: somebody else is executing.
    Busy,
    /// A claim: the key was used with another payload.
    Mismatch,
    /// Execution may have happened and no outcome is recorded.
    Unknown,
    /// The outcome is a definite refusal: final, and without an effect.
    Refused,
    /// The outcome is that of work under another key: final, and its effect is filed there.
    Copied,
    /// The slot is empty.
    Absent,
    /// The record is claimed.
    Claimed,
    /// The record is completed.
    Completed,
    /// The record is open.
    Open,
    /// A message: kept aside durably for a person to look at.
    Parked,
}

/// What happens to a claim whose holder falls silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The effect commits together with `complete`: the slot is claimed again.
    Transactional,
    /// The service behind deduplicates on the key: taken over.
    Keyed,
    /// The service behind refuses old fences and can be asked: fenced, then probed.
    Probed,
    /// Nothing is known: held as unknown.
    Opaque,
    /// The route allows duplicates: taken over, outside the promise.
    AtLeastOnce,
}

// === impl Fence ===

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl FromStr for Fence {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(Self)
    }
}

impl TryFrom<String> for Fence {
    type Error = ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Fence> for String {
    fn from(fence: Fence) -> Self {
        fence.to_string()
    }
}

// === impl Event ===

impl Event {
    /// Returns the line that begins an operation on a slot.
    pub fn invoke(verb: Verb, tenant: &Arc<str>, key: &Arc<str>) -> Self {
        Self {
            verb,
            tenant: Arc::clone(tenant),
            key: Arc::clone(key),
            ..Self::default()
        }
    }

    /// Returns the line that ends the operation this one began.
    ///
    /// What the operation asked is left out: a reader takes it from here.
    pub fn ended(&self, kind: Kind, mono_ns: u64) -> Self {
        Self {
            mono_ns,
            proc: self.proc,
            op_id: self.op_id,
            kind,
            ..Self::invoke(self.verb, &self.tenant, &self.key)
        }
    }
}

// === impl Answer ===

impl Answer {
    /// Returns the state of a slot that gives this answer to a read.
    pub(super) fn state(self) -> Option<State> {
        match self {
            Self::Absent => Some(State::Absent),
            Self::Claimed => Some(State::Claimed),
            Self::Completed => Some(State::Completed),
            Self::Unknown => Some(State::Unknown),
            Self::Open => Some(State::Open),
            _ => None,
        }
    }
}

// === impl Verb ===

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Claim => "claim",
            Self::Renew => "renew",
            Self::Complete => "complete",
            Self::Release => "release",
            Self::Abandon => "abandon",
            Self::Resolve => "resolve",
            Self::Get => "get",
            Self::Sweep => "sweep",
            Self::MsgAck => "message ack",
        })
    }
}
