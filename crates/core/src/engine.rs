//! The engine: decides by the protocol, does what was decided, and gives a verdict.

use std::sync::Arc;

use tracing::Instrument as _;

use crate::bugs::{Bug, seeded};
use crate::claim::{Claim, Duty, Holding};
use crate::clock::Clock;
use crate::fence::Mint;
use crate::keeper::Keeper;
use crate::protocol::{Arrival, Rules, Step, claim, decide};
use crate::reach::Reach;
use crate::store::{self, Reply, Store};
use crate::sync::{OnceCell, time};
use crate::tasks::Tasks;
use crate::verdict::{Busy, Unsettled, Verdict};
use crate::wait::Room;
use crate::{Fence, Fingerprint, OnBusy, Policy, Record, Secret, Slot, Timestamp};

mod builder;
mod grant;
mod look;
mod operate;
mod run;
mod secret;
mod shutdown;
mod sweep;
mod twins;

pub use builder::{Builder, Limits};
pub use look::Sight;
pub use operate::{By, Found, NotSettled, Resolution, Settled};
pub use run::{Answer, Attempt, Done, RunError};
pub use sweep::{Pace, Sweeper};

use grant::Granted;

/// Makes work safe to retry, on a store and under a policy.
///
/// Cheap to clone; clones share waiters, claims and the store. [`Engine::with_policy`] gives
/// another kind of work its own rules on the same engine.
///
/// The engine needs a tokio runtime: it renews claims and finishes them in tasks of its own.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Arc<Shared>,
    rules: Rules,
}

/// What the clones of an engine share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) reach: Reach,
    pub(crate) room: Room,
    pub(crate) keeper: Keeper,
    pub(crate) limits: Limits,
    pub(crate) tasks: Tasks,
    given: Option<Secret>,
    secret: OnceCell<Secret>,
}

/// Why the engine could not give a verdict. Nothing was executed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store did not answer, or cannot be used. Ask again later.
    #[error(transparent)]
    Store(#[from] store::Error),

    /// The secret given is not the one this store was first used with.
    #[error("the secret does not match the one that this store was first used with")]
    WrongSecret,

    /// The store was first used with a secret from outside, and none was given.
    #[error("this store was first used with a secret from outside: give the same one again")]
    NoSecret,

    /// The engine is shutting down.
    #[error("the engine is shutting down")]
    Closing,
}

/// What one look at the slot led to.
enum Looked {
    Verdict(Verdict),
    /// Somebody else was at it, at this time of the store.
    Busy(Busy, Timestamp),
}

// === impl Engine ===

impl Engine {
    /// How often a waiter sees its slot become free and go to somebody else before it is told
    /// that the slot is busy.
    const RELEASES_MAX: u64 = 3;

    /// Returns an engine on `store` with the rules of `policy`.
    ///
    /// ```
    /// use onceward::{Engine, MemoryStore, Policy};
    ///
    /// let engine = Engine::new(MemoryStore::new(), Policy::default());
    /// ```
    pub fn new(store: impl Store, policy: Policy) -> Self {
        Self::builder(Arc::new(store)).policy(policy).build()
    }

    /// Starts an engine on a shared store, with more to choose.
    pub fn builder(store: Arc<dyn Store>) -> Builder {
        Builder::new(store)
    }

    /// Returns an engine with other rules that shares everything else with this one.
    #[must_use]
    pub fn with_policy(&self, policy: Policy) -> Self {
        Self {
            shared: self.shared.clone(),
            rules: policy.into(),
        }
    }

    /// The rules of this engine.
    pub fn policy(&self) -> &Policy {
        self.rules.policy()
    }

    /// The store of this engine.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.reach.store
    }

    /// The deployment's secret, read from the store the first time.
    ///
    /// Call it when a service starts, so that a store that is away or a wrong secret is noticed
    /// then.
    pub async fn secret(&self) -> Result<&Secret, Error> {
        self.shared.secret().await
    }

    /// Names the slot and seals the fingerprint, for [`Engine::admit`].
    pub async fn prepare(&self, slot: &Slot, fingerprint: &Fingerprint) -> Result<Arrival, Error> {
        let secret = self.secret().await?;
        Ok(Arrival::new(
            slot.clone(),
            fingerprint,
            self.rules.clone(),
            secret,
        ))
    }

    /// Like [`Engine::prepare`], without waiting: `None` until the deployment's secret was read.
    pub fn prepared(&self, slot: &Slot, fingerprint: &Fingerprint) -> Option<Arrival> {
        let secret = self.shared.secret.get()?;
        let rules = self.rules.clone();
        Some(Arrival::new(slot.clone(), fingerprint, rules, secret))
    }

    /// Returns the verdict about work that is done, if the store has its record at hand.
    ///
    /// `None` says nothing: ask with [`Engine::admit`]. This is how most duplicates are answered
    /// without waiting for anything.
    pub fn recall(&self, arrival: &Arrival) -> Option<Verdict> {
        let verdict = self.shared.recall(arrival)?;
        count(arrival, &verdict);
        Some(verdict)
    }

    /// Asks to do the work named by `slot`, whose payload has this fingerprint.
    ///
    /// While somebody else is at it, waits as long as the policy says. Cancel safe: a claim
    /// that was asked for when the future was dropped is taken back in the background.
    pub async fn begin(&self, slot: &Slot, fingerprint: Fingerprint) -> Result<Verdict, Error> {
        let arrival = self.prepare(slot, &fingerprint).await?;
        self.admit(&arrival).await
    }

    /// Like [`Engine::begin`], for an arrival that is prepared.
    pub async fn admit(&self, arrival: &Arrival) -> Result<Verdict, Error> {
        // Most duplicates end here: no future of the slow path is built, no store is asked.
        if let Some(verdict) = self.recall(arrival) {
            return Ok(verdict);
        }
        self.admit_unrecalled(arrival).await
    }

    /// Like [`Engine::admit`], for an arrival about which [`Engine::recall`] has just said nothing.
    pub async fn admit_unrecalled(&self, arrival: &Arrival) -> Result<Verdict, Error> {
        let span = tracing::debug_span!("begin", slot = ?arrival.id());
        let verdict = match (arrival.identities().is_empty(), span.is_disabled()) {
            (true, true) => self.ask(arrival).await?,
            (true, false) => Box::pin(self.ask(arrival).instrument(span)).await?,
            (false, _) => Box::pin(self.ask_alone(arrival).instrument(span)).await?,
        };
        count(arrival, &verdict);
        Ok(verdict)
    }

    #[cfg(any(onceward_shuttle, onceward_loom))]
    pub(crate) fn room(&self) -> &Room {
        &self.shared.room
    }

    /// Asks the store, and waits where somebody else is at it. What is rare is boxed, so that a
    /// first claim moves no more memory than it needs.
    async fn ask(&self, arrival: &Arrival) -> Result<Verdict, Error> {
        // Taken before looking, so that a shutdown either refuses this arrival or waits for it.
        let _under_way = self.shared.tasks.token();
        match self.ask_once(arrival).await? {
            Looked::Verdict(verdict) => Ok(verdict),
            Looked::Busy(busy, since) => Box::pin(self.wait(arrival, busy, since)).await,
        }
    }

    /// Asks the store, until there is a verdict or somebody else is at it. Whoever calls counts
    /// as a task meanwhile.
    async fn ask_once(&self, arrival: &Arrival) -> Result<Looked, Error> {
        let shared = &self.shared;
        if shared.tasks.is_closed() {
            return Err(Error::Closing);
        }
        // Also the first sight of the store's clock, without which no write can come too late.
        shared.secret().await?;
        // The first look is the claim itself: for a new key it is the only round trip.
        let record = Box::new(Record::claimed(arrival, shared.reach.fence(None)));
        let (found, now) = match shared.grant(arrival, None, record).await {
            Ok(Granted::Yes(holding)) => {
                return Ok(Looked::Verdict(execute(holding, Duty::Execute)));
            }
            Ok(Granted::No(found, now)) => (found, now),
            Err(_) if seeded(Bug::FailsOpen) => {
                return Ok(Looked::Verdict(shared.unclaimed(arrival)));
            }
            // Only a new claim needs room: others are answered from what is there.
            Err(full @ store::Error::Full { .. }) => {
                let reply = Box::pin(shared.reach.ask(shared.reach.store.get(arrival.id())));
                match reply.await? {
                    Reply { value: None, .. } => return Err(full.into()),
                    Reply { value, now } => (value, now),
                }
            }
            Err(error) => return Err(error.into()),
        };
        Box::pin(self.settle(arrival, found, now)).await
    }

    /// Does what the protocol says about what is in the slot, until that is a verdict.
    async fn settle(
        &self,
        arrival: &Arrival,
        mut found: Option<Arc<Record>>,
        mut now: Timestamp,
    ) -> Result<Looked, Error> {
        let shared = &self.shared;
        // Each round is another writer's progress: somebody got what this caller did not.
        loop {
            let step = decide(found.as_deref(), arrival, now);
            let moved = match (Verdict::of(step, arrival.id(), now), found.as_deref()) {
                (Ok(Verdict::Busy(busy)), _) => return Ok(Looked::Busy(busy, now)),
                (Ok(verdict), _) => return Ok(Looked::Verdict(verdict)),
                (Err(Step::Hold { reason, .. }), Some(lapsed)) => {
                    match shared.mark_lapsed(arrival.id(), lapsed).await? {
                        Some(moved) => moved,
                        None => {
                            let slot = arrival.id();
                            let unsettled = Unsettled { slot, reason };
                            return Ok(Looked::Verdict(Verdict::Unknown(unsettled)));
                        }
                    }
                }
                (Err(_), None) if seeded(Bug::ExecutesVanished) => {
                    return Ok(Looked::Verdict(shared.unclaimed(arrival)));
                }
                (Err(step), _) => {
                    let (over, record, duty) = shared.to_write(arrival, found.as_deref(), &step);
                    match shared.grant(arrival, over, Box::new(record)).await? {
                        Granted::Yes(holding) => {
                            return Ok(Looked::Verdict(execute(holding, duty)));
                        }
                        Granted::No(found, now) => Reply::new(found, now),
                    }
                }
            };
            (found, now) = (moved.value, moved.now);
        }
    }

    /// Waits for the outcome as long as the policy says.
    async fn wait(
        &self,
        arrival: &Arrival,
        busy: Busy,
        since: Timestamp,
    ) -> Result<Verdict, Error> {
        let OnBusy::Wait(limit) = arrival.wait_rule() else {
            return Ok(Verdict::Busy(busy));
        };
        if limit.is_zero() {
            return Ok(Verdict::Busy(busy));
        }
        arrival.meters().waits.increment(1);
        match time::timeout(limit, self.wait_in_room(arrival, since)).await {
            Ok(Ok(Some(verdict))) => Ok(verdict),
            Ok(Ok(None)) => Ok(Verdict::Busy(Busy {
                crowded: true,
                ..busy
            })),
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(Verdict::Busy(busy)),
        }
    }

    /// Waits for news until it is a verdict; `None` if there is no seat or no end to it.
    async fn wait_in_room(
        &self,
        arrival: &Arrival,
        since: Timestamp,
    ) -> Result<Option<Verdict>, Error> {
        let scope = arrival.slot().scope();
        let Some(seat) = Room::enter(&self.shared, arrival.id(), scope, since) else {
            return Ok(None);
        };
        let (releases, mut round) = (seat.releases(), 0);
        loop {
            let news = seat.news_after(round).await;
            round = news.round;
            let step = decide(news.record.as_deref(), arrival, news.now);
            match Verdict::of(step, arrival.id(), news.now) {
                Ok(Verdict::Busy(_)) => {}
                Ok(verdict) => return Ok(Some(verdict)),
                Err(_) if seeded(Bug::WaiterExecutes) => {
                    return Ok(Some(self.shared.unclaimed(arrival)));
                }
                // A process that ends takes over nothing.
                Err(_) if self.shared.tasks.is_closed() => return Err(Error::Closing),
                // There is something to do, and one waiter does it; the others wait for it.
                Err(_) if seat.is_elected(&news) => {
                    let settled = self.settle(arrival, news.record, news.now).await?;
                    if let Looked::Verdict(verdict) = settled {
                        if let Verdict::Execute(_) = verdict {
                            seat.claimed();
                        }
                        return Ok(Some(verdict));
                    }
                }
                Err(_) if news.releases.saturating_sub(releases) >= Self::RELEASES_MAX => {
                    return Ok(None);
                }
                Err(_) => {}
            }
        }
    }
}

fn execute(holding: Arc<Holding>, duty: Duty) -> Verdict {
    if duty != Duty::Execute {
        holding.arrival.meters().takeovers.increment(1);
    }
    Verdict::Execute(Claim::new(holding, duty))
}

fn count(arrival: &Arrival, verdict: &Verdict) {
    let meters = arrival.meters();
    match verdict {
        Verdict::Execute(_) => {}
        Verdict::Replay(_) => meters.replays.increment(1),
        Verdict::Busy(_) => meters.busy.increment(1),
        Verdict::Mismatch => meters.mismatches.increment(1),
        Verdict::Unknown(_) => meters.unknown.increment(1),
        Verdict::Elsewhere(_) => {}
    }
}

// === impl Shared ===

impl Shared {
    fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, mint: Mint, limits: Limits) -> Self {
        Self {
            reach: Reach::new(store, clock, mint, limits.store_patience),
            room: Room::default(),
            keeper: Keeper::new(),
            limits,
            tasks: Tasks::default(),
            given: None,
            secret: OnceCell::new(),
        }
    }

    /// What a record that the store has at hand tells the caller, if it is one.
    fn recall(&self, arrival: &Arrival) -> Option<Verdict> {
        let Reply { value, now } = self.reach.store.recall(arrival.id())?;
        Verdict::of(decide(Some(&value), arrival, now), arrival.id(), now).ok()
    }

    /// Lets a caller execute without a claim, which only a mistake made on purpose does.
    fn unclaimed(self: &Arc<Self>, arrival: &Arrival) -> Verdict {
        let record = Box::new(Record::claimed(arrival, self.reach.fence(None)));
        let now = self.reach.latest();
        execute(
            self.hold(arrival, record, now, self.reach.own_time()),
            Duty::Execute,
        )
    }

    /// What to write for a step that claims, over which fence, and what its holder does first.
    fn to_write(
        &self,
        arrival: &Arrival,
        found: Option<&Record>,
        step: &Step,
    ) -> (Option<Fence>, Record, Duty) {
        let over = found.map(|found| found.fence);
        let (record, duty) = claim(step, found, arrival, self.reach.fence(over));
        (over, record, duty)
    }
}
