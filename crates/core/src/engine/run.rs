//! Running a piece of work once, in a task of its own.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tracing::Instrument as _;

use super::{Engine, Error};
use crate::bugs::{Bug, seeded};
use crate::claim::{Claim, Duty, EndError, Holding, PointError};
use crate::record::Point;
use crate::store::{self, BoxError};
use crate::verdict::{Busy, Elsewhere, Replay, Unsettled, Verdict};
use crate::{Arrival, Fence, Fingerprint, Key, Outcome, Reason, Slot, Timestamp};

/// How a piece of work ended, in the words of whoever did it.
#[derive(Debug)]
pub struct Done(Ended);

#[derive(Debug)]
enum Ended {
    Outcome(Outcome),
    NotExecuted(BoxError),
    Unknown(BoxError),
}

/// What the work needs to know about the attempt it is part of. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Attempt {
    holding: Arc<Holding>,
    duty: Duty,
}

/// What a caller of [`Engine::run`] gets: the same for every caller with the same key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// How the work ended.
    pub outcome: Outcome,
    /// Whether this is the answer to an earlier call, once more.
    pub replayed: bool,
    /// When the outcome is forgotten, by the store's clock.
    pub expires: Timestamp,
}

/// Why [`Engine::run`] has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Somebody else is at it. Ask again later, with the same key.
    #[error("the operation is in progress")]
    Busy(Busy),

    /// The key is used for another payload. Use a new key for a new intent.
    #[error("the key is already used for another payload")]
    Mismatch,

    /// Nobody knows whether the work happened. Somebody has to find out and settle it.
    #[error("the outcome is unknown ({0})")]
    Unknown(Unsettled),

    /// The same work stands under another key, and a rule says to refuse this one.
    #[error("the same work stands under another key (rule {:?})", .0.rule)]
    Elsewhere(Elsewhere),

    /// The work provably did not happen, and the key is free again.
    #[error("the work was not executed")]
    NotExecuted(#[source] BoxError),

    /// The work is done, but its answer is not stored yet. Ask again with the same key.
    #[error("the answer is not stored yet")]
    Pending(#[source] Option<store::Error>),

    /// The work is done, but the record in its slot cannot be read, so its answer is not stored.
    /// The slot has to be repaired, and the log tells what was to be stored.
    #[error("the answer cannot be stored")]
    NotStored(#[source] store::Error),

    /// The store did not answer, and nothing was executed.
    #[error(transparent)]
    Engine(#[from] Error),
}

// === impl Done ===

impl Done {
    /// The work came to an end that a retry would only repeat: a success, or a final refusal.
    pub fn outcome(outcome: impl Into<Outcome>) -> Self {
        Self(Ended::Outcome(outcome.into()))
    }

    /// The work provably did not happen: nothing was sent. The key is free for the next attempt.
    pub fn not_executed(error: impl Into<BoxError>) -> Self {
        Self(Ended::NotExecuted(error.into()))
    }

    /// The work may have happened: a timeout, a lost connection, an error nobody understands.
    pub fn unknown(error: impl Into<BoxError>) -> Self {
        Self(Ended::Unknown(error.into()))
    }
}

// === impl Attempt ===

impl Attempt {
    pub(crate) fn new(holding: Arc<Holding>, duty: Duty) -> Self {
        Self { holding, duty }
    }

    /// The caller's name for the work: forward it to a service that deduplicates.
    pub fn key(&self) -> &Key {
        self.holding.arrival.slot().key()
    }

    /// Which attempt this is, from 1.
    pub fn number(&self) -> u32 {
        self.holding.attempt()
    }

    /// The fence of this attempt: greater than that of any earlier one.
    pub fn fence(&self) -> Fence {
        self.holding.mark
    }

    /// What to do first.
    pub fn duty(&self) -> Duty {
        self.duty
    }

    /// The recovery point that an earlier attempt reached.
    pub fn resumed(&self) -> Option<&Point> {
        self.holding.resumed()
    }

    /// Whether the claim is still ours, as far as can be told without asking the store. Look
    /// right before the first byte of the work leaves.
    pub fn is_held(&self) -> bool {
        self.holding.is_held()
    }

    /// Records that a stage is reached; see [`Claim::reached`].
    pub async fn reached(&self, name: &str, data: impl Into<Bytes>) -> Result<(), PointError> {
        self.holding.reach(name, data.into()).await
    }
}

// === impl Engine ===

impl Engine {
    /// Runs `work` unless it was run before under this key, and returns its outcome either way.
    ///
    /// The work runs in a task of its own: a caller that goes away changes nothing. An outcome is
    /// stored before anybody gets it. A panic of the work leaves the outcome unknown.
    pub async fn run<W, F>(
        &self,
        slot: &Slot,
        fingerprint: Fingerprint,
        work: W,
    ) -> Result<Answer, RunError>
    where
        W: FnOnce(Attempt) -> F + Send + 'static,
        F: Future<Output = Done> + Send + 'static,
    {
        let arrival = self.prepare(slot, &fingerprint).await?;
        self.run_for(&arrival, work).await
    }

    /// Like [`Engine::run`], for an arrival that is prepared: also bound to business identities,
    /// or with a mind of its own about waiting.
    ///
    /// ```
    /// use onceward::{Done, Engine, Fingerprint, Identity, Key, MemoryStore, Policy, Scope, Slot};
    /// use onceward::Then;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = Engine::new(MemoryStore::new(), Policy::default());
    /// let pay = async |key: &str| {
    ///     let slot = Slot::new(Scope::new("acct_42", "pay"), Key::parse(key).unwrap());
    ///     let order = Identity::unique("paid-order", "order-1001", Then::Return);
    ///     let arrival = engine.prepare(&slot, &Fingerprint::of(b"100 EUR")).await?;
    ///     let arrival = arrival.under(order, engine.secret().await?);
    ///     let work = |_| async { Done::outcome("paid") };
    ///     engine.run_for(&arrival, work).await
    /// };
    /// // One order is paid once, even by a caller that makes up a new key for each retry.
    /// assert!(!pay("first").await?.replayed);
    /// assert!(pay("second").await?.replayed);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_for<W, F>(&self, arrival: &Arrival, work: W) -> Result<Answer, RunError>
    where
        W: FnOnce(Attempt) -> F + Send + 'static,
        F: Future<Output = Done> + Send + 'static,
    {
        let claim = match self.admit(arrival).await? {
            Verdict::Execute(claim) => claim,
            other => return answer(other),
        };
        let span = tracing::debug_span!("run", slot = ?claim.id(), attempt = claim.attempt());
        let task = self
            .shared
            .tasks
            .spawn(execute(claim, work).instrument(span));
        task.await.unwrap_or_else(|ended| {
            // Only the end of the runtime ends this task early: the lease lapses.
            Err(RunError::Pending(Some(store::Error::unavailable(
                self.store().kind(),
                ended,
            ))))
        })
    }
}

async fn execute<W, F>(claim: Claim, work: W) -> Result<Answer, RunError>
where
    W: FnOnce(Attempt) -> F,
    F: Future<Output = Done>,
{
    if !claim.is_held() {
        // The process was paused for a whole lease: somebody may be told by now that nobody
        // knows, so the work must not start.
        let late = "the claim lapsed before the work began";
        return not_executed(claim, late.into()).await;
    }
    let attempt = claim.as_attempt();
    let worked = AssertUnwindSafe(async move { work(attempt).await })
        .catch_unwind()
        .await;
    match worked {
        Ok(Done(Ended::Outcome(outcome))) => completed(claim, outcome).await,
        Ok(Done(Ended::NotExecuted(error))) => not_executed(claim, error).await,
        Ok(Done(Ended::Unknown(error))) if seeded(Bug::ErrorReleases) => {
            not_executed(claim, error).await
        }
        Ok(Done(Ended::Unknown(error))) => {
            abandoned(claim, Reason::new(format!("{}", Chain(&*error)))).await
        }
        Err(_) if seeded(Bug::PanicReleases) => not_executed(claim, "it panicked".into()).await,
        Err(_) => abandoned(claim, Reason::PANICKED).await,
    }
}

async fn completed(claim: Claim, outcome: Outcome) -> Result<Answer, RunError> {
    match claim.complete(outcome.clone()).await {
        Ok(kept) => Ok(Answer {
            // The first caller gets its answer whole, even where it is too large to keep.
            outcome,
            replayed: false,
            expires: kept.expires,
        }),
        Err(EndError::Lost { .. }) if seeded(Bug::StaleAnswersOwn) => Ok(Answer {
            outcome,
            replayed: false,
            expires: Timestamp::NEVER,
        }),
        Err(error) => instead(error),
    }
}

async fn not_executed(claim: Claim, error: BoxError) -> Result<Answer, RunError> {
    let (slot, whole) = (claim.id(), claim.holding().is_whole());
    match claim.release().await {
        Ok(()) | Err(EndError::Pending { .. }) if whole => Err(RunError::NotExecuted(error)),
        // This attempt did not happen, but that says nothing about an earlier one.
        Ok(()) | Err(EndError::Pending { .. }) => {
            tracing::warn!(?slot, %error, "a later attempt was not executed");
            let reason = Reason::EARLIER_ATTEMPT;
            Err(RunError::Unknown(Unsettled { slot, reason }))
        }
        Err(lost) => instead(lost),
    }
}

async fn abandoned(claim: Claim, reason: Reason) -> Result<Answer, RunError> {
    let slot = claim.id();
    match claim.abandon(reason.clone()).await {
        Ok(()) | Err(EndError::Pending { .. }) => {
            Err(RunError::Unknown(Unsettled { slot, reason }))
        }
        Err(lost) => instead(lost),
    }
}

/// What to say instead of one's own result.
fn instead(error: EndError) -> Result<Answer, RunError> {
    match error {
        EndError::Lost { verdict } => answer(*verdict),
        EndError::Pending { source } => Err(RunError::Pending(source)),
        EndError::Store(error) => Err(RunError::NotStored(error)),
    }
}

fn answer(verdict: Verdict) -> Result<Answer, RunError> {
    match verdict {
        Verdict::Replay(Replay {
            outcome, expires, ..
        }) => Ok(Answer {
            outcome,
            replayed: true,
            expires,
        }),
        Verdict::Busy(busy) => Err(RunError::Busy(busy)),
        Verdict::Mismatch => Err(RunError::Mismatch),
        Verdict::Unknown(unsettled) => Err(RunError::Unknown(unsettled)),
        Verdict::Elsewhere(elsewhere) => Err(RunError::Elsewhere(elsewhere)),
        Verdict::Execute(_) => unreachable!("a claim is executed, not answered"),
    }
}

/// An error with its causes, on one line.
struct Chain<'a>(&'a (dyn std::error::Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
