//! Stores that break their contract, to see that the simulation notices.

use std::sync::Arc;

use async_trait::async_trait;
use onceward::store::{Error, Insert, Reply, Swap};
use onceward::{Fence, Record, SlotId, Store, Timestamp};

/// How a store is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Break {
    /// A replacement ignores the fence: whoever comes last wins.
    ReplacesAnything,
    /// A removal ignores the fence.
    RemovesAnything,
    /// An insert into a slot that is taken replaces what is there.
    InsertsOver,
    /// A replacement that was lost to another is said to be done.
    SaysDone,
}

#[derive(Debug)]
struct Broken {
    inner: Arc<dyn Store>,
    how: Break,
}

/// Returns `inner`, broken.
pub(super) fn broken(inner: Arc<dyn Store>, how: Break) -> Arc<dyn Store> {
    Arc::new(Broken { inner, how })
}

// === impl Broken ===

impl Broken {
    /// The fence that is there, whatever it is.
    async fn fence_of(&self, slot: SlotId) -> Result<Option<Fence>, Error> {
        let found = self.inner.get(slot).await?.value;
        Ok(found.map(|record| record.fence))
    }
}

#[async_trait]
impl Store for Broken {
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        let reply = self.inner.insert(slot, record, not_after).await?;
        if let Insert::Taken(found) = &reply.value
            && self.how == Break::InsertsOver
            && slot != SlotId::RESERVED
        {
            let over = self.inner.replace(slot, found.fence, record, not_after);
            return Ok(Reply::new(Insert::Done, over.await?.now));
        }
        Ok(reply)
    }

    async fn replace(
        &self,
        slot: SlotId,
        seen: Fence,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        let over = match self.how {
            Break::ReplacesAnything => self.fence_of(slot).await?.unwrap_or(seen),
            _ => seen,
        };
        let reply = self.inner.replace(slot, over, record, not_after).await?;
        Ok(match reply.value {
            Swap::Moved(_) if self.how == Break::SaysDone => Reply::new(Swap::Done, reply.now),
            _ => reply,
        })
    }

    async fn remove(
        &self,
        slot: SlotId,
        seen: Fence,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        let over = match self.how {
            Break::RemovesAnything => self.fence_of(slot).await?.unwrap_or(seen),
            _ => seen,
        };
        self.inner.remove(slot, over, not_after).await
    }

    onceward::forward!(get, recall, forget, list, sweep, watch, durability, kind);
}
