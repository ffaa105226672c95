//! A store whose class falls and rises.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use onceward::store::{Error, Filter, Insert, Page, Reply, Swap, Swept};
use onceward::{Durability, Fence, MemoryStore, Record, SlotId, Store, Timestamp};

/// A store in memory that says of itself to be on a disk, until it says otherwise.
#[derive(Debug, Default)]
pub(super) struct Wavering {
    inner: MemoryStore,
    forgets: AtomicBool,
}

// === impl Wavering ===

impl Wavering {
    /// Sets whether what was acknowledged can be forgotten.
    pub(super) fn forgets(&self, forgets: bool) {
        self.forgets.store(forgets, Ordering::Relaxed);
    }
}

#[async_trait]
impl Store for Wavering {
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        self.inner.insert(slot, record, not_after).await
    }

    async fn replace(
        &self,
        slot: SlotId,
        seen: Fence,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        self.inner.replace(slot, seen, record, not_after).await
    }

    async fn remove(
        &self,
        slot: SlotId,
        seen: Fence,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        self.inner.remove(slot, seen, not_after).await
    }

    async fn get(&self, slot: SlotId) -> Result<Reply<Option<Arc<Record>>>, Error> {
        self.inner.get(slot).await
    }

    fn recall(&self, slot: SlotId) -> Option<Reply<Arc<Record>>> {
        self.inner.recall(slot)
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<SlotId>,
        limit: usize,
    ) -> Result<Reply<Page>, Error> {
        self.inner.list(filter, after, limit).await
    }

    async fn sweep(&self, before: Timestamp, limit: usize) -> Result<Reply<Swept>, Error> {
        self.inner.sweep(before, limit).await
    }

    fn watch(&self) -> BoxStream<'static, SlotId> {
        self.inner.watch()
    }

    fn durability(&self) -> Durability {
        match self.forgets.load(Ordering::Relaxed) {
            true => Durability::D1,
            false => Durability::D2,
        }
    }

    fn kind(&self) -> &'static str {
        "wavering"
    }
}
