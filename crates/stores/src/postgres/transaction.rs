//! Transactions: keys that commit together with the caller's own data.
//!
//! Where the effect of some work is rows in the same database, its key can live and die with
//! them: the record is written in the transaction that writes the rows. Both are there after a
//! commit, neither after anything else, so work of this kind is done *exactly once*
//! ([`Effect::Transactional`]).
//!
//! ```no_run
//! # use onceward::{BoxError, Fingerprint, Outcome, Policy, Slot};
//! use onceward_stores::postgres::{Connections, PostgresStore, Transactional};
//!
//! # async fn example(store: PostgresStore, slot: Slot) -> Result<(), BoxError> {
//! let keys = Transactional::new(&store, Policy::default()).await?;
//! let pool = Connections::new(store.settings(), 8);
//!
//! let answer = keys
//!     .run(&pool, &slot, Fingerprint::of(b"amount=100"), |mut tx| async move {
//!         tx.execute("INSERT INTO ledger (amount) VALUES (100)", &[]).await?;
//!         tx.stage("charged", "acct_42", b"100").await?;
//!         Ok::<_, BoxError>(Outcome::success("charged 100"))
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # How
//!
//! [`Transactional::begin`] asks for the slot with a lock that ends with the transaction and does
//! not wait for it, then reads the record; the protocol decides. Whoever does not get the slot
//! gives its connection back, waits for a hint, and finds the answer. Nothing is written before
//! [`Work::complete`], which inserts the completed record: one row for each key, and no dead ones.
//!
//! Waiters are told after the commit, over a connection of the store that tells of many slots at
//! once. A `NOTIFY` in the transaction itself would be simpler and would be far slower: PostgreSQL
//! lets only one transaction with a notification commit at a time, disk and all.

use std::sync::Arc;
use std::time::Duration;

use onceward::protocol::{Step, claim, decide};
use onceward::store::{self, Store as _, Swap};
use onceward::{
    Arrival, BoxError, Busy, Effect, Engine, Fence, Fingerprint, Policy, Reason, Record, Replay,
    Secret, Slot, SlotId, Timestamp, Unsettled, Verdict, codec,
};

use super::PostgresStore;
use crate::reckon::timestamp;

mod fault;
mod hub;
mod notices;
mod opening;
mod patience;
mod phase;
mod run;
mod session;
mod source;
#[cfg(feature = "sqlx")]
mod sqlx;
mod statements;
mod tx;
mod work;

pub use hub::Waiter;
pub use phase::Paused;
pub use run::Next;
pub use session::{Connection, PreparedTransaction, Session};
pub use source::{Checkout, Connections, Lent, Source};
pub use tx::Tx;
pub use work::{Completed, Work};

pub(super) use source::connect;
pub(super) use statements::Sql;

use fault::Fault;
use hub::Hub;
use session::{Call, Calls as _, Cells, Value};
use work::Held;

/// Begins and completes work inside the caller's own transactions.
///
/// Cheap to clone; clones share waiters and the store. Its records are ordinary ones: operators
/// see them, an [`Engine`] on the same store replays them, and they expire after their retention.
#[derive(Clone, Debug)]
pub struct Transactional(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    engine: Engine,
    store: PostgresStore,
    sql: Arc<Sql>,
    hub: Arc<Hub>,
    /// What sets the locks of this schema and prefix apart from those of others.
    locks: i64,
}

/// What a caller that arrived with a transaction may do, or gets.
#[derive(Debug)]
#[must_use]
pub enum Begun {
    /// Do the work in this transaction, complete it, and commit. A rollback, a crash or a broken
    /// line leaves nothing behind.
    Execute(Work),
    /// The work is done; this is its answer. There is nothing to commit.
    Replay(Replay),
    /// Somebody is at it: roll back, so that no connection is held, and wait.
    Busy(Waiter),
    /// The key is used for another payload.
    Mismatch,
    /// Nobody knows whether the work happened, and nobody may try again until it is settled.
    Unknown(Unsettled),
}

/// Why work could not begin, go on or end inside a transaction. Roll the transaction back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store did not answer, or the secret is not the right one.
    #[error(transparent)]
    Engine(#[from] onceward::Error),

    /// Another transaction came in between. Roll back and begin again: its record decides.
    #[error("another transaction came in between")]
    Overtaken(#[source] BoxError),

    /// Somebody else has the slot by now: stop working, what follows is theirs.
    #[error("the claim is lost")]
    Lost,

    /// The slot was asked for in another transaction than this, or in none: it is not held, and
    /// nothing was written. Send `BEGIN` before, and let the work not end its own transaction.
    #[error("{}", statements::APART)]
    Apart,

    /// The recovery point or the event is too large, or has no name.
    #[error("{0}")]
    TooLarge(&'static str),

    /// The database refused, or the line broke: nothing of this transaction is kept.
    #[error("the database did not do as it was asked")]
    Database(#[source] BoxError),
}

/// What was found in a slot, and whether it is ours to write.
struct Looked {
    taken: bool,
    /// When the transaction began, by which it is known again.
    began: i64,
    found: Option<Record>,
    now: Timestamp,
}

// === impl Transactional ===

impl Transactional {
    /// Returns keys on `store` with the rules of `policy`, whose effect becomes transactional.
    ///
    /// Reads the deployment's secret, so that a store that is away is noticed now.
    pub async fn new(store: &PostgresStore, policy: Policy) -> Result<Self, onceward::Error> {
        let engine = Engine::builder(Arc::new(store.clone()))
            .policy(policy)
            .build();
        Self::on(store, &engine).await
    }

    /// The same with a secret that is given and not kept in the store.
    pub async fn with_secret(
        store: &PostgresStore,
        policy: Policy,
        secret: Secret,
    ) -> Result<Self, onceward::Error> {
        let engine = Engine::builder(Arc::new(store.clone()))
            .policy(policy)
            .secret(secret);
        Self::on(store, &engine.build()).await
    }

    async fn on(store: &PostgresStore, engine: &Engine) -> Result<Self, onceward::Error> {
        let policy = engine.policy().clone().effect(Effect::Transactional);
        let engine = engine.with_policy(policy);
        engine.secret().await?;
        Ok(Self(Arc::new(Shared {
            engine,
            sql: Arc::new(Sql::new(store.settings())),
            hub: Hub::new(store.clone()),
            locks: store.settings().lock("slot"),
            store: store.clone(),
        })))
    }

    /// Returns keys with other rules that share everything else with these.
    #[must_use]
    pub fn with_policy(&self, policy: Policy) -> Self {
        let policy = policy.effect(Effect::Transactional);
        Self(Arc::new(Shared {
            engine: self.0.engine.with_policy(policy),
            store: self.0.store.clone(),
            sql: self.0.sql.clone(),
            hub: self.0.hub.clone(),
            locks: self.0.locks,
        }))
    }

    /// The rules, with their effect.
    pub fn policy(&self) -> &Policy {
        self.0.engine.policy()
    }

    /// Asks to do the work named by `slot` within the transaction of `session`.
    ///
    /// Does not wait for anybody: see [`Begun::Busy`]. In a transaction stricter than READ
    /// COMMITTED, what others commit meanwhile is found out by [`Work::complete`], which then
    /// fails with [`Error::Overtaken`].
    pub async fn begin<S: Session>(
        &self,
        mut session: S,
        slot: &Slot,
        fingerprint: &Fingerprint,
    ) -> Result<Begun, Error> {
        let arrival = self.0.engine.prepare(slot, fingerprint).await?;
        self.0.begin(&mut session, &arrival).await
    }
}

// === impl Shared ===

impl Shared {
    async fn begin<S: Session>(
        self: &Arc<Self>,
        session: &mut S,
        arrival: &Arrival,
    ) -> Result<Begun, Error> {
        session.tell(self.store.doubts());
        let looked = self.look(session, arrival.id()).await?;
        self.settle(session, arrival, looked).await
    }

    /// Asks for the slot and reads it, in one go where the driver can.
    async fn look<S: Session>(&self, session: &mut S, slot: SlotId) -> Result<Looked, Error> {
        let (take, look) = ([self.lock(slot)], [Value::Bytes(slot.as_bytes())]);
        let calls = [call(&self.sql.take, &take), call(&self.sql.look, &look)];
        let rows = session.calls(&calls).await?;
        let Ok([Some(taken), Some(row)]) = <[_; 2]>::try_from(rows) else {
            return Err(Error::unanswered());
        };
        // Each statement would stand alone, and the lock would have ended with the first.
        if taken.began != row.began {
            return Err(Error::Apart);
        }
        self.looked(slot, &taken, Some(row))
    }

    /// The same in a transaction that is begun with it.
    async fn open<P: Source>(&self, source: &P, slot: SlotId) -> Result<(P::Open, Looked), Error> {
        let (take, find) = ([self.lock(slot)], [Value::Bytes(slot.as_bytes())]);
        let calls = [call(&self.sql.take, &take), call(&self.sql.find, &find)];
        let (open, rows) = source.open(&calls, self.within()).await?;
        open.tell(self.store.doubts());
        let Ok([Some(taken), row]) = <[_; 2]>::try_from(rows) else {
            return Err(Error::unanswered());
        };
        let looked = self.looked(slot, &taken, row)?;
        Ok((open, looked))
    }

    fn lock(&self, slot: SlotId) -> Value<'static> {
        Value::Int(slot.spread().cast_signed() ^ self.locks)
    }

    /// How long the database has to answer.
    fn within(&self) -> Duration {
        self.store.settings().timeout()
    }

    /// What the rows tell of the slot, and whether that is ours.
    fn looked(&self, slot: SlotId, taken: &Cells, row: Option<Cells>) -> Result<Looked, Error> {
        let unreadable = |source| onceward::Error::Store(store::Error::Unreadable { slot, source });
        let (record, written) = row.map_or((None, None), |row| (row.record, row.written));
        let found = match (record, written) {
            (None, None) => None,
            (Some(bytes), Some(written)) => {
                let decoded = codec::decode(&bytes, timestamp(written));
                Some(decoded.map_err(|source| unreadable(source.into()))?)
            }
            // Half a row is not an empty slot.
            _ => return Err(unreadable("a column is empty".into()).into()),
        };
        Ok(Looked {
            taken: taken.yes,
            began: taken.began,
            found,
            now: timestamp(self.store.terms().now(taken.number)),
        })
    }

    /// Does what the protocol says about what was found.
    async fn settle<S: Session>(
        self: &Arc<Self>,
        session: &mut S,
        arrival: &Arrival,
        looked: Looked,
    ) -> Result<Begun, Error> {
        let Looked {
            taken,
            began,
            found,
            now,
        } = looked;
        if found.is_some() && self.store.doubts().is_open() {
            // It may be on the server alone, and is told to nobody before the standby has it.
            self.store.doubts().want();
            return Ok(self.busy(arrival, None));
        }
        let step = decide(found.as_ref(), arrival, now);
        let step = match Verdict::of(step, arrival.id(), now) {
            Ok(Verdict::Replay(replay)) => return Ok(Begun::Replay(replay)),
            Ok(Verdict::Mismatch) => return Ok(Begun::Mismatch),
            Ok(Verdict::Unknown(unsettled)) => return Ok(Begun::Unknown(unsettled)),
            Ok(Verdict::Busy(busy)) => return Ok(self.busy(arrival, Some(busy))),
            Ok(Verdict::Execute(_) | Verdict::Elsewhere(_)) => {
                unreachable!("a step alone gives no claim, and knows no twin")
            }
            Err(step) => step,
        };
        match (step, &found) {
            (Step::Hold { reason, .. }, Some(lapsed)) => {
                self.mark_lapsed(arrival, lapsed, reason, now).await
            }
            // There is something to do, and somebody else is about to do it.
            _ if !taken => Ok(self.busy(arrival, None)),
            (step, None) => {
                let work = self.work(arrival, &step, None, now, began);
                Ok(Begun::Execute(work))
            }
            (step, Some(found)) => {
                match self.hold(session, arrival.id(), found.fence).await? {
                    Some(held) if held != began => Err(Error::Apart),
                    Some(_) => {
                        let work = self.work(arrival, &step, Some(found), now, began);
                        Ok(Begun::Execute(work))
                    }
                    // It moved, or is about to.
                    None => Ok(self.busy(arrival, None)),
                }
            }
        }
    }

    /// Keeps a record from being changed by others until the transaction ends. Returns when that
    /// began, or `None` where the record is not there to be held.
    async fn hold<S: Session>(
        &self,
        session: &mut S,
        slot: SlotId,
        fence: Fence,
    ) -> Result<Option<i64>, Error> {
        let fence = fence.to_string();
        let values = [Value::Bytes(slot.as_bytes()), Value::Text(&fence)];
        let rows = session.calls(&[call(&self.sql.hold, &values)]).await?;
        Ok(rows.into_iter().next().flatten().map(|row| row.began))
    }

    fn work(
        self: &Arc<Self>,
        arrival: &Arrival,
        step: &Step,
        found: Option<&Record>,
        now: Timestamp,
        began: i64,
    ) -> Work {
        let over = found.map(|found| found.fence);
        let (record, duty) = claim(step, found, arrival, Fence::mint(over, now));
        Work::new(
            self.clone(),
            arrival.clone(),
            record.stamped(now),
            Held { over, began },
            duty,
        )
    }

    fn busy(self: &Arc<Self>, arrival: &Arrival, busy: Option<Busy>) -> Begun {
        Begun::Busy(Waiter::new(self.hub.seat(arrival.id()), busy))
    }

    /// Marks a lapsed claim unknown, for whoever comes next and for lists. Not within the
    /// caller's transaction, which has nothing to commit.
    async fn mark_lapsed(
        self: &Arc<Self>,
        arrival: &Arrival,
        lapsed: &Record,
        reason: Reason,
        now: Timestamp,
    ) -> Result<Begun, Error> {
        let slot = arrival.id();
        let fence = Fence::mint(Some(lapsed.fence), now);
        let record = lapsed.unsettled(reason.clone(), fence);
        let swap = self
            .store
            .replace(slot, lapsed.fence, &record, Timestamp::NEVER)
            .await
            .map_err(onceward::Error::from)?;
        match swap.value {
            Swap::Done | Swap::Late => Ok(Begun::Unknown(Unsettled { slot, reason })),
            // Whatever it is by now, it has just changed: the next look finds it.
            Swap::Moved(_) => Ok(self.busy(arrival, None)),
        }
    }
}

fn call<'a>(statement: &'a statements::Statement, values: &'a [Value<'a>]) -> Call<'a> {
    Call { statement, values }
}

// === impl Error ===

impl Error {
    /// A statement that answers did not.
    fn unanswered() -> Self {
        Self::Database("a statement had no answer".into())
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Conflict(source) | Fault::Missed(source) => Self::Overtaken(source),
            Fault::Apart => Self::Apart,
            Fault::Forgotten(source) | Fault::Gone(source) | Fault::Refused(source) => {
                Self::Database(source)
            }
        }
    }
}
