//! What tests expect, in a word each.

use crate::verdict::{Busy, Elsewhere, Unsettled, Verdict};
use crate::{Answer, Claim, EndError, Outcome, RunError};

/// What a test expects of a [`Verdict`]. Each panics when the verdict is another.
pub trait ExpectVerdict {
    /// Returns the claim to execute under.
    fn expect_claim(self) -> Claim;
    /// Returns the body that is replayed.
    fn expect_replay(self) -> String;
    /// Returns what is said about somebody else being at it.
    fn expect_busy(self) -> Busy;
    /// Sees that the key is used for another payload.
    fn expect_mismatch(self);
    /// Returns why nobody knows.
    fn expect_unknown(self) -> Unsettled;
    /// Returns what stands under another key.
    fn expect_elsewhere(self) -> Elsewhere;
}

/// What a test expects when a claim did not end as its holder said.
pub trait ExpectLost {
    /// Returns what the record that won tells a caller.
    fn expect_lost(self) -> Verdict;
    /// Sees that the write goes on in the background.
    fn expect_pending(self);
}

/// What a test expects of [`Engine::run`](crate::Engine::run).
pub trait ExpectRun {
    /// Returns the body of a first answer.
    fn expect_first(self) -> String;
    /// Returns the body of a repeated answer.
    fn expect_replay(self) -> String;
    /// Returns what is said about somebody else being at it.
    fn expect_busy(self) -> Busy;
    /// Returns why nobody knows.
    fn expect_unknown(self) -> Unsettled;
    /// Returns why the work was not executed.
    fn expect_not_executed(self) -> String;
    /// Sees that the work is done and its answer is not stored yet.
    fn expect_pending(self);
}

fn text(outcome: &Outcome) -> String {
    let body = outcome.body().expect("the body is kept");
    String::from_utf8(body.to_vec()).expect("the body is text")
}

// === impl Expect* ===

impl ExpectVerdict for Verdict {
    #[track_caller]
    fn expect_claim(self) -> Claim {
        match self {
            Self::Execute(claim) => claim,
            other => panic!("expected a claim, got {other:?}"),
        }
    }

    #[track_caller]
    fn expect_replay(self) -> String {
        match self {
            Self::Replay(replay) => text(&replay.outcome),
            other => panic!("expected a replay, got {other:?}"),
        }
    }

    #[track_caller]
    fn expect_busy(self) -> Busy {
        match self {
            Self::Busy(busy) => busy,
            other => panic!("expected busy, got {other:?}"),
        }
    }

    #[track_caller]
    fn expect_mismatch(self) {
        match self {
            Self::Mismatch => {}
            other => panic!("expected a mismatch, got {other:?}"),
        }
    }

    #[track_caller]
    fn expect_unknown(self) -> Unsettled {
        match self {
            Self::Unknown(unsettled) => unsettled,
            other => panic!("expected unknown, got {other:?}"),
        }
    }

    #[track_caller]
    fn expect_elsewhere(self) -> Elsewhere {
        match self {
            Self::Elsewhere(elsewhere) => elsewhere,
            other => panic!("expected work elsewhere, got {other:?}"),
        }
    }
}

impl ExpectLost for EndError {
    #[track_caller]
    fn expect_lost(self) -> Verdict {
        match self {
            Self::Lost { verdict } => *verdict,
            other => panic!("expected a lost claim, got {other:?}"),
        }
    }

    #[track_caller]
    fn expect_pending(self) {
        match self {
            Self::Pending { .. } => {}
            other => panic!("expected a pending end, got {other:?}"),
        }
    }
}

impl ExpectRun for Result<Answer, RunError> {
    #[track_caller]
    fn expect_first(self) -> String {
        match self {
            Ok(answer) if !answer.replayed => text(&answer.outcome),
            other => panic!("expected a first answer, got {other:?}"),
        }
    }

    #[track_caller]
    fn expect_replay(self) -> String {
        match self {
            Ok(answer) if answer.replayed => text(&answer.outcome),
            other => panic!("expected a repeated answer, got {other:?}"),
        }
    }

    #[track_caller]
    fn expect_busy(self) -> Busy {
        match self {
            Err(RunError::Busy(busy)) => busy,
            other => panic!("expected busy, got {other:?}"),
        }
    }

    #[track_caller]
    fn expect_unknown(self) -> Unsettled {
        match self {
            Err(RunError::Unknown(unsettled)) => unsettled,
            other => panic!("expected unknown, got {other:?}"),
        }
    }

    #[track_caller]
    fn expect_not_executed(self) -> String {
        match self {
            Err(RunError::NotExecuted(error)) => error.to_string(),
            other => panic!("expected work not executed, got {other:?}"),
        }
    }

    #[track_caller]
    fn expect_pending(self) {
        match self {
            Err(RunError::Pending(_)) => {}
            other => panic!("expected a pending answer, got {other:?}"),
        }
    }
}
