//! Claims: the right to execute, once.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;

use crate::bugs::{Bug, seeded};
use crate::clock::{GuardedClock, micros};
use crate::engine::{Attempt, Shared};
use crate::protocol::Arrival;
use crate::record::{Point, Reservation};
use crate::sync::AsyncMutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::{Fence, Key, Outcome, Reason, Record, Slot, SlotId};

mod end;
mod write;

pub(crate) use end::{End, Ended, Pause};
pub use end::{EndError, Kept};

/// The right to execute one piece of work, and the duty to say how it ended.
///
/// The engine renews the claim while it lives. It is consumed by [`complete`](Claim::complete),
/// [`release`](Claim::release) or [`abandon`](Claim::abandon); dropping it says nothing, and the
/// lease lapses.
///
/// The three are cancel safe: once called, the write goes on in the background even if the
/// future is dropped or the store is away.
#[derive(Debug)]
#[must_use = "a claim that is dropped stays claimed until its lease lapses"]
pub struct Claim {
    holding: Arc<Holding>,
    place: usize,
    duty: Duty,
    retention: Duration,
}

/// What the holder of a claim has to do first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Duty {
    /// Do the work: nobody has tried.
    Execute,
    /// Do the work again under the same key: a silent holder may have done it, and the service
    /// behind us recognises the key; or go on after the recovery point.
    Repeat,
    /// Tell the service the new fence, then ask it whether the work happened.
    Probe,
}

/// What the engine knows about one live claim. Shared by the claim, its renewals and whatever
/// finishes it.
pub(crate) struct Holding {
    pub(crate) shared: Arc<Shared>,
    pub(crate) arrival: Arrival,
    /// The fence of the claim's first write.
    pub(crate) mark: Fence,
    generation: Fence,
    attempt: u32,
    resumed: Option<Box<Point>>,
    /// The record as we last wrote it. Whoever writes holds the lock: renewals, points and the
    /// end go one after the other.
    pub(crate) record: AsyncMutex<Box<Record>>,
    /// When the lease last started anew, on our monotonic clock from before that write.
    renewed: AtomicU64,
    /// How the claim is to end, once that is said.
    end: OnceLock<End>,
    /// Somebody else has the slot, or callers were told that nobody knows: nothing is renewed any
    /// more. How the work ended is still to be said.
    lost: AtomicBool,
    /// Nothing more is to be written: the store has its end, or cannot take it.
    over: AtomicBool,
    /// A renewal is under way.
    renewing: AtomicBool,
    /// A recovery point was, or may have been, recorded.
    pointed: AtomicBool,
}

/// The right to renew a claim. It is given back even by a task that dies with its runtime.
#[derive(Debug)]
pub(crate) struct Renewing(Arc<Holding>);

/// A recovery point could not be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PointError {
    /// The point is larger than [`Point::DATA_MAX`], or its name is empty or too long.
    #[error("a recovery point has a name of 1 to 255 bytes and at most 64 KiB of data")]
    TooLarge,

    /// Somebody else has the slot: stop working, what follows is theirs.
    #[error("the claim is lost")]
    Lost,

    /// The store did not take it: it may or may not be recorded.
    #[error(transparent)]
    Store(#[from] crate::store::Error),
}

// === impl Claim ===

impl Claim {
    pub(crate) fn new(holding: Arc<Holding>, duty: Duty) -> Self {
        Self {
            place: holding.shared.keeper.keep(&holding),
            duty,
            retention: holding.arrival.policy().retention,
            holding,
        }
    }

    /// The slot that is claimed.
    pub fn slot(&self) -> &Slot {
        self.holding.arrival.slot()
    }

    /// The caller's name for the work: what to forward to a service that deduplicates.
    pub fn key(&self) -> &Key {
        self.slot().key()
    }

    /// The name under which the store files the slot.
    pub fn id(&self) -> SlotId {
        self.holding.arrival.id()
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.holding.attempt
    }

    /// The fence of this claim: greater than that of any earlier attempt.
    pub fn fence(&self) -> Fence {
        self.holding.mark
    }

    /// What to do first.
    pub fn duty(&self) -> Duty {
        self.duty
    }

    /// The recovery point that an earlier attempt reached.
    pub fn resumed(&self) -> Option<&Point> {
        self.holding.resumed.as_deref()
    }

    /// Whether the claim is still ours, as far as can be told without asking the store. Look
    /// right before the first byte of the work leaves.
    pub fn is_held(&self) -> bool {
        self.holding.is_held()
    }

    /// What whoever does the work needs to know about it, apart from the claim itself.
    pub fn as_attempt(&self) -> Attempt {
        Attempt::new(self.holding.clone(), self.duty)
    }

    /// Whether a release leaves the key free: no earlier attempt and no recovery point may have
    /// left something behind. Otherwise a release puts the unknown record back.
    pub fn is_whole(&self) -> bool {
        self.holding.is_whole()
    }

    /// Overrides how long the outcome is kept.
    pub fn keep_for(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Records that a stage is reached: an attempt that takes over goes on after it.
    ///
    /// From then on a take-over is allowed whatever the effect's class: the point declares that
    /// what follows it may be repeated.
    pub async fn reached(&self, name: &str, data: impl Into<Bytes>) -> Result<(), PointError> {
        self.holding.reach(name, data.into()).await
    }

    /// Records the outcome: every duplicate gets it from now on.
    ///
    /// Retried until the store has it. If it is not stored within a few seconds this returns
    /// [`EndError::Pending`] and goes on in the background: the caller has to be told that the
    /// answer is not known yet, for no caller may hold an answer that is not stored.
    pub fn complete(
        self,
        outcome: impl Into<Outcome>,
    ) -> impl Future<Output = Result<Kept, EndError>> + Send {
        let policy = self.holding.arrival.policy();
        let outcome = outcome.into().keeping(policy.body_max);
        let leaked = seeded(Bug::OutcomeCopied).then(|| outcome.clone());
        // An end counts from the call on: a future that is never polled leaves it to the keeper.
        self.holding.plan(End::Complete {
            outcome: outcome.keeping_for(policy.keep_body),
            retention: self.retention,
            copied: false,
        });
        async move {
            if let Some(outcome) = leaked {
                let holding = &self.holding;
                holding.shared.copy(&holding.arrival, &outcome).await;
            }
            self.kept().await
        }
    }

    /// Records the outcome of a twin, without having executed anything.
    pub(crate) async fn copy(self, outcome: Outcome) -> Result<Kept, EndError> {
        let policy = self.holding.arrival.policy();
        self.holding.plan(End::Complete {
            outcome: outcome.keeping_for(policy.keep_body),
            retention: self.retention,
            copied: true,
        });
        self.kept().await
    }

    async fn kept(self) -> Result<Kept, EndError> {
        match self.holding.finish_soon().await? {
            Ended::Kept(kept) => Ok(kept),
            Ended::Settled => unreachable!("a completion ends with what is kept, or is lost"),
        }
    }

    /// Says that the work provably did not happen: the next arrival may claim.
    pub fn release(self) -> impl Future<Output = Result<(), EndError>> + Send {
        self.holding.plan(End::Release);
        async move { self.holding.finish_soon().await.map(drop) }
    }

    /// Says that nobody can tell whether the work happened.
    pub fn abandon(self, reason: Reason) -> impl Future<Output = Result<(), EndError>> + Send {
        self.holding.plan(End::Abandon(reason));
        async move { self.holding.finish_soon().await.map(drop) }
    }

    /// Whether this is the work that a reservation is for.
    pub(crate) fn is_for(&self, reservation: &Reservation) -> bool {
        reservation.slot == self.id() && reservation.generation == self.holding.generation
    }

    pub(crate) fn holding(&self) -> &Arc<Holding> {
        &self.holding
    }
}

impl Drop for Claim {
    /// Talks to no store: a claim that is merely dropped is no longer renewed, and one whose end
    /// was said is left to the keeper until the store has it.
    fn drop(&mut self) {
        let keeper = &self.holding.shared.keeper;
        match self.holding.is_over() || !self.holding.is_planned() {
            true => keeper.forget(self.place),
            false => keeper.finish(&self.holding, self.place),
        }
    }
}

// === impl Holding ===

impl Holding {
    /// Returns what is known of a claim that the store granted: `record` is in the slot, and
    /// `sent` is our monotonic time from before it was sent there.
    pub(crate) fn new(
        shared: Arc<Shared>,
        arrival: Arrival,
        record: Box<Record>,
        sent: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared,
            arrival,
            mark: record.fence,
            generation: record.generation,
            attempt: record.attempt,
            resumed: record.point.clone(),
            record: AsyncMutex::new(record),
            renewed: AtomicU64::new(micros(sent)),
            end: OnceLock::new(),
            lost: AtomicBool::new(false),
            over: AtomicBool::new(false),
            renewing: AtomicBool::new(false),
            pointed: AtomicBool::new(false),
        })
    }

    pub(crate) fn attempt(&self) -> u32 {
        self.attempt
    }

    pub(crate) fn resumed(&self) -> Option<&Point> {
        self.resumed.as_deref()
    }

    /// Whether a release speaks for the whole work: no earlier attempt and no recovery point may
    /// have left something behind.
    pub(crate) fn is_whole(&self) -> bool {
        self.attempt == 1 && self.resumed.is_none() && !self.pointed.load(Ordering::Relaxed)
    }

    /// A tenth of the lease is left out: a store's guarded clock may run that much faster than
    /// ours while it works off a step.
    pub(crate) fn is_held(&self) -> bool {
        let lease = micros(self.lease());
        self.is_live() && self.age() < lease - lease / GuardedClock::CATCH_UP
    }

    /// Whether there is something to renew, as far as we know.
    pub(crate) fn is_live(&self) -> bool {
        !self.is_over() && !self.lost.load(Ordering::Acquire)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Whether a third of the lease is over: time to renew.
    pub(crate) fn wants_renewal(&self) -> bool {
        self.is_live() && self.age() >= micros(self.lease()) / 3
    }

    /// Claims the right to renew, which one task at a time has.
    pub(crate) fn start_renewing(self: &Arc<Self>) -> Option<Renewing> {
        let won = self.wants_renewal() && !self.renewing.swap(true, Ordering::Relaxed);
        won.then(|| Renewing(self.clone()))
    }

    pub(crate) fn lease(&self) -> Duration {
        self.arrival.policy().lease
    }

    fn now(&self) -> u64 {
        micros(self.shared.reach.own_time())
    }

    /// How long ago the lease last started anew, in microseconds.
    fn age(&self) -> u64 {
        self.now()
            .saturating_sub(self.renewed.load(Ordering::Relaxed))
    }

    fn renewed_at(&self, sent: u64) {
        self.renewed.fetch_max(sent, Ordering::Relaxed);
    }

    fn set_lost(&self) {
        self.lost.store(true, Ordering::Release);
    }

    fn set_over(&self) {
        self.over.store(true, Ordering::Release);
    }
}

/// Not the engine, which holds every other claim, nor the record with its answer.
impl fmt::Debug for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holding")
            .field("slot", &self.arrival.id())
            .field("attempt", &self.attempt)
            .field("mark", &self.mark)
            .finish_non_exhaustive()
    }
}

// === impl Renewing ===

impl Renewing {
    /// Starts the lease anew.
    pub(crate) async fn renew(self) {
        self.0.renew().await;
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        self.0.renewing.store(false, Ordering::Relaxed);
    }
}
