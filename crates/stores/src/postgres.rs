//! The PostgreSQL store: records in a database that many nodes share.
//!
//! Calls of one process are put together: whenever a connection is free it takes all that wait of
//! one kind and sends them as one statement, so that a lone call pays one round trip and many pay
//! for one commit together. A second connection hears of other nodes' changes by LISTEN. All of it
//! runs on one thread of the store's own; callers on any runtime wait for their answers.
//!
//! A write that fails for sure is tried again until its deadline; one of which nobody knows is an
//! error. So is one that the server committed without waiting for its standby.
//!
//! Where to read on: [`sql`] has the statements and why they are as they are, [`schema`] the
//! tables, [`queue`] how batches come about, [`reckon`](crate::reckon) whose clock counts, [`durability`] what a
//! write survives. `docs/postgres.md` tells the same for operators.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use onceward::clock::GuardedClock;
use onceward::store::{Error, Filter, Hints, Insert, Page, Reply, Swap, Swept};
use onceward::{Durability, Fence, Record, SlotId, Store, Timestamp, codec};
use parking_lot::Mutex;
use tokio::sync::oneshot;

mod batch;
mod channel;
mod doubts;
mod durability;
mod guest;
mod home;
mod hub;
mod lane;
mod listen;
mod outbox;
mod pages;
mod passfile;
mod queue;
mod rows;
mod schema;
mod send;
mod session;
mod settings;
mod settle;
mod sql;
mod start;
mod tls;
mod transaction;
mod trouble;
mod upkeep;

pub use crate::report::{DurabilityReport, Fact};
pub use outbox::{Event, Outbox, Relay, RelayPace, Staged};
pub use queue::Figures;
pub use schema::Migrated;
pub use settings::{InvalidSettings, Settings};
pub use start::{Inspection, inspect, migrate, pending};
pub use transaction::{
    Begun, Checkout, Completed, Connection, Connections, Error as TransactionError, Lent, Next,
    Paused, PreparedTransaction, Session, Source, Transactional, Tx, Waiter, Work,
};

use doubts::Doubts;
use hub::Hub;
use queue::{Answer, Became, Draft, Job, Kind, Raw};
use start::Thread;
use trouble::Trouble;

use crate::OpenError;
use crate::reckon::{Terms, as_i64, micros};

/// A store in a PostgreSQL database.
///
/// Clones share one store; dropping the last one closes it.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    hub: Arc<Hub>,
    thread: Mutex<Option<Thread>>,
}

const KIND: &str = "postgres";

/// What the server is called in errors.
const SERVER: &str = "PostgreSQL";

// === impl PostgresStore ===

impl PostgresStore {
    /// Opens the store: connects, sees that the server is one that can be served from, and brings
    /// the tables up to date unless the settings say otherwise.
    ///
    /// Blocks until that is done.
    pub fn open(settings: Settings) -> Result<Self, OpenError> {
        let (hub, thread) = start::start(settings)?;
        Ok(Self {
            handle: Arc::new(Handle {
                hub,
                thread: Mutex::new(Some(thread)),
            }),
        })
    }

    /// Closes the store: ends what is under way, and answers whatever is asked later with an
    /// error. Blocks until the connections are closed.
    pub fn close(&self) {
        self.handle.close();
    }

    /// The settings that the store was opened with.
    pub fn settings(&self) -> &Settings {
        &self.hub().connector.settings
    }

    /// The clock that stamps the records, as this node reckons it.
    pub fn clock(&self) -> &GuardedClock {
        self.hub().reckoning.guard()
    }

    /// The time that counts, by what is known here: no earlier than any that was told.
    #[cfg(feature = "redis")]
    pub(crate) fn now(&self) -> Timestamp {
        let reckoning = &self.hub().reckoning;
        reckoning.tell(reckoning.terms().floor)
    }

    /// How calls were put together so far.
    pub fn figures(&self) -> Figures {
        self.hub().queue.lock().figures
    }

    /// Hints at a slot that somebody changed beside the store: here at once, and to other nodes
    /// along with others.
    pub(crate) fn announce(&self, slot: SlotId) {
        self.hub().changed(&[slot], |_| true);
    }

    /// What a statement beside the store needs to know of the time, if it is sent now.
    pub(crate) fn terms(&self) -> Terms {
        self.hub().reckoning.terms()
    }

    /// Whether what can be read may not be where it should be.
    pub(crate) fn doubts(&self) -> &Arc<Doubts> {
        &self.hub().doubts
    }

    fn hub(&self) -> &Arc<Hub> {
        &self.handle.hub
    }

    /// Puts a call into the queue and waits for its answer.
    async fn call(
        &self,
        kind: Kind,
        slot: SlotId,
        seen: Option<Fence>,
        record: Option<&Record>,
        not_after: Timestamp,
    ) -> Result<Answer, Error> {
        let hub = self.hub();
        let (reply, answer) = oneshot::channel();
        let job = Job {
            kind,
            slot,
            seen,
            draft: record.map(Draft::of),
            not_after: as_i64(not_after),
            deadline: hub.deadline(),
            tries: 0,
            reply: Mutex::new(Some(reply)),
            followers: Vec::new(),
        };
        let asked = match guest::run(hub, job).await {
            Some(job) => hub.ask(job),
            None => Ok(()),
        };
        let answered = match asked {
            Ok(()) => match answer.await {
                Ok(answered) => answered,
                Err(_) => Err(Trouble::lost("the store was closed")),
            },
            Err(trouble) => Err(trouble),
        };
        answered.map_err(|trouble| trouble.into_error(kind == Kind::Insert))
    }

    async fn swap(
        &self,
        kind: Kind,
        slot: SlotId,
        seen: Fence,
        record: Option<&Record>,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        let answer = self.call(kind, slot, Some(seen), record, not_after).await?;
        let value = match answer.became {
            Became::Done => Swap::Done,
            Became::Late => Swap::Late,
            Became::Found(found) => Swap::Moved(read(slot, found)?),
        };
        Ok(Reply::new(value, answer.now))
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        let call = self.call(Kind::Insert, slot, None, Some(record), not_after);
        let answer = call.await?;
        let value = match answer.became {
            Became::Done => Insert::Done,
            Became::Late => Insert::Late,
            Became::Found(Some(found)) => Insert::Taken(decode(slot, found)?),
            Became::Found(None) => {
                return Err(Error::unavailable(KIND, "an insert found nothing there"));
            }
        };
        Ok(Reply::new(value, answer.now))
    }

    async fn replace(
        &self,
        slot: SlotId,
        seen: Fence,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        self.swap(Kind::Replace, slot, seen, Some(record), not_after)
            .await
    }

    async fn remove(
        &self,
        slot: SlotId,
        seen: Fence,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        self.swap(Kind::Remove, slot, seen, None, not_after).await
    }

    async fn get(&self, slot: SlotId) -> Result<Reply<Option<Arc<Record>>>, Error> {
        let call = self.call(Kind::Get, slot, None, None, Timestamp::NEVER);
        let answer = call.await?;
        let found = match answer.became {
            Became::Found(found) => read(slot, found)?,
            Became::Done | Became::Late => None,
        };
        Ok(Reply::new(found, answer.now))
    }

    /// Nothing is at hand: another node may have changed any record a moment ago.
    fn recall(&self, _: SlotId) -> Option<Reply<Arc<Record>>> {
        None
    }

    /// Nothing is remembered beside the slots.
    async fn forget(&self, _: SlotId, _: Fence) -> Result<(), Error> {
        Ok(())
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<SlotId>,
        limit: usize,
    ) -> Result<Reply<Page>, Error> {
        pages::list(self.hub(), filter, after, limit).await
    }

    async fn sweep(&self, before: Timestamp, limit: usize) -> Result<Reply<Swept>, Error> {
        pages::sweep(self.hub(), before, limit).await
    }

    fn watch(&self) -> Hints {
        self.hub().changes.watch()
    }

    fn durability(&self) -> Durability {
        self.hub().durability()
    }

    fn kind(&self) -> &'static str {
        KIND
    }
}

// === impl Handle ===

impl Handle {
    fn close(&self) {
        self.hub.close();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the PostgreSQL store panicked");
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}

// === impl Draft ===

impl Draft {
    fn of(record: &Record) -> Self {
        Self {
            fence: record.fence,
            state: i16::from(record.state.name() as u8),
            due_after: micros(record.due_after()),
            scope: record.scope.clone(),
            record: codec::encode(record),
        }
    }
}

/// Reads what a slot holds, if it holds something.
fn read(slot: SlotId, found: Option<Raw>) -> Result<Option<Arc<Record>>, Error> {
    found.map(|raw| decode(slot, raw)).transpose()
}

fn decode(slot: SlotId, raw: Raw) -> Result<Arc<Record>, Error> {
    let Raw { written, bytes } = raw;
    decode_bytes(slot, &bytes, written)
}

fn decode_bytes(slot: SlotId, bytes: &Bytes, written: Timestamp) -> Result<Arc<Record>, Error> {
    let record = codec::decode(bytes, written);
    let unreadable = |source: codec::Error| Error::Unreadable {
        slot,
        source: source.into(),
    };
    record.map(Arc::new).map_err(unreadable)
}
