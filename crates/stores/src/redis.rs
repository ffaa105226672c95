//! The Redis store: records in a server that many nodes share, in Redis or Valkey.
//!
//! Every write is one script that compares and swaps. Calls of one process share few connections:
//! whatever waits is sent at once, so that a lone call pays one round trip and many share one. All
//! of it runs on one thread of the store's own; callers on any runtime wait for their answers. One
//! more connection hears of other nodes' changes.
//!
//! A write that did not happen for sure is tried again until its deadline. One whose answer was
//! lost is sent again in a way that recognises itself; if that does not tell either, it is an
//! error. So is one that fewer replicas have than it was to wait for.
//!
//! Where to read on: [`script`] has the scripts and why they are as they are, [`layout`] the names
//! of the keys, [`link`] how commands get to the servers, [`clocks`] and
//! [`reckon`](crate::reckon) whose clock counts, [`durability`] what a write survives.

use std::sync::Arc;

use async_trait::async_trait;
use onceward::clock::GuardedClock;
use onceward::store::{Error, Filter, Hints, Insert, Page, Reply, Swap, Swept};
use onceward::{Durability, Fence, Record, SlotId, Store, Timestamp};

pub(crate) mod ask;
mod batch;
mod clocks;
pub(crate) mod cluster;
mod connect;
mod durability;
mod lane;
pub(crate) mod layout;
pub(crate) mod link;
mod listen;
mod node;
mod pages;
mod reply;
pub(crate) mod script;
mod settings;
mod start;
mod state;
pub(crate) mod trouble;
mod upkeep;

pub use crate::report::{DurabilityReport, Fact};
pub use settings::{InvalidSettings, Settings};
pub use start::{Inspection, inspect};

use crate::OpenError;
use crate::open::REDIS as SERVER;
use link::Link;
use reply::Became;
use state::{Inner, Op};

/// A store in Redis or Valkey.
///
/// Clones share one store; dropping the last one closes it.
#[derive(Clone, Debug)]
pub struct RedisStore {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    link: Link,
    inner: Arc<Inner>,
}

const KIND: &str = "redis";

// === impl RedisStore ===

impl RedisStore {
    /// Opens the store: connects, and sees that the servers are such that can be served from.
    ///
    /// Blocks until that is done.
    pub fn open(settings: Settings) -> Result<Self, OpenError> {
        let (link, inner) = start::open(settings)?;
        Ok(Self {
            handle: Arc::new(Handle { link, inner }),
        })
    }

    /// Closes the store: ends what is under way, and answers whatever is asked later with an
    /// error. Blocks until the connections are closed.
    pub fn close(&self) {
        self.handle.close();
    }

    /// The settings that the store was opened with.
    pub fn settings(&self) -> &Settings {
        self.inner().hub.settings()
    }

    /// The clock that stamps the records, as this node reckons it.
    pub fn clock(&self) -> &GuardedClock {
        self.inner().clocks.guard()
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.handle.inner
    }

    async fn swap(
        &self,
        op: Op,
        slot: SlotId,
        seen: Fence,
        record: Option<&Record>,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        let write = self.inner().write(op, slot, Some(seen), record, not_after);
        let Reply { value, now } = write.await?;
        let value = match value {
            Became::Done => Swap::Done,
            Became::Late => Swap::Late,
            Became::Found(found) => Swap::Moved(reply::read(slot, found)?),
        };
        Ok(Reply::new(value, now))
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        let inner = self.inner();
        let write = inner.write(Op::Insert, slot, None, Some(record), not_after);
        let Reply { value, now } = write.await?;
        let value = match value {
            Became::Done => Insert::Done,
            Became::Late => Insert::Late,
            Became::Found(found) => match reply::read(slot, found)? {
                Some(found) => Insert::Taken(found),
                None => return Err(Error::unavailable(KIND, "an insert found nothing there")),
            },
        };
        Ok(Reply::new(value, now))
    }

    async fn replace(
        &self,
        slot: SlotId,
        seen: Fence,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        self.swap(Op::Replace, slot, seen, Some(record), not_after)
            .await
    }

    async fn remove(
        &self,
        slot: SlotId,
        seen: Fence,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        self.swap(Op::Remove, slot, seen, None, not_after).await
    }

    async fn get(&self, slot: SlotId) -> Result<Reply<Option<Arc<Record>>>, Error> {
        let Reply { value, now } = self.inner().get(slot).await?;
        Ok(Reply::new(reply::read(slot, value)?, now))
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
        pages::list(self.inner(), filter, after, limit).await
    }

    async fn sweep(&self, before: Timestamp, limit: usize) -> Result<Reply<Swept>, Error> {
        pages::sweep(self.inner(), before, limit).await
    }

    fn watch(&self) -> Hints {
        self.inner().changes.watch()
    }

    fn durability(&self) -> Durability {
        self.inner().durability()
    }

    fn kind(&self) -> &'static str {
        KIND
    }
}

// === impl Handle ===

impl Handle {
    fn close(&self) {
        self.link.close();
        self.inner.changes.end();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}
