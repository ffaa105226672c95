//! Sights: all that anybody learned about a slot, during the run or after it.

use std::fmt;

use super::{Answer, Fence, FinalRead, State, Verb, op::Op};

/// Somebody who learned something about a slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sight<'a> {
    Op(&'a Op<'a>),
    Last(&'a FinalRead),
}

// === impl Sight ===

impl<'a> Sight<'a> {
    pub(super) fn from(&self) -> u64 {
        match self {
            Self::Op(op) => op.from(),
            Self::Last(read) => read.mono_ns,
        }
    }

    pub(super) fn to(&self) -> u64 {
        match self {
            Self::Op(op) => op.to(),
            Self::Last(read) => read.mono_ns,
        }
    }

    pub(super) fn generation(&self) -> Option<Fence> {
        match self {
            Self::Op(op) => op.generation(),
            Self::Last(read) => read.generation,
        }
    }

    pub(super) fn mark(&self) -> Option<Fence> {
        match self {
            Self::Op(op) => op.mark(),
            Self::Last(read) => read.mark,
        }
    }

    pub(super) fn hash(&self) -> Option<&'a str> {
        match self {
            Self::Op(op) => op.hash(),
            Self::Last(read) => read.body_hash.as_deref(),
        }
    }

    /// Whether somebody was told that there is a record.
    pub(super) fn is_presence(&self) -> bool {
        let answer = match self {
            Self::Op(op) if op.verb() == Verb::Claim && op.is_ok() => op.answer(),
            _ => None,
        };
        let refused = [
            Answer::Replayed,
            Answer::Busy,
            Answer::Unknown,
            Answer::Refused,
        ];
        answer.is_some_and(|answer| refused.contains(&answer))
            || self.state().is_some_and(|state| state != State::Absent)
    }

    pub(super) fn is_grant(&self) -> bool {
        matches!(self, Self::Op(op) if op.is_grant())
    }

    pub(super) fn is_fail(&self) -> bool {
        matches!(self, Self::Op(op) if op.is_fail())
    }

    pub(super) fn is_last(&self) -> bool {
        matches!(self, Self::Last(_))
    }

    /// The state of the slot, if it was read rather than asked for something.
    pub(super) fn state(&self) -> Option<State> {
        match self {
            Self::Op(op) if matches!(op.verb(), Verb::Get | Verb::Sweep) && op.is_ok() => {
                op.answer()?.state()
            }
            Self::Op(_) => None,
            Self::Last(read) => Some(read.state),
        }
    }
}

impl fmt::Display for Sight<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Op(op) => op.fmt(f),
            Self::Last(read) => write!(f, "last read (at {})", read.mono_ns),
        }
    }
}
