//! A store whose calls wait at a gate: asked for now, and carried out when the gate opens.
//!
//! It stands below the recorder, so that a call that is late was asked for when it was, and not
//! when it arrived.

use std::sync::Arc;

use async_trait::async_trait;
use onceward::store::{Error, Filter, Insert, Page, Reply, Swap, Swept};
use onceward::{Fence, MemoryStore, Record, SlotId, Store, Timestamp};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A store with a gate in front of it.
#[derive(Debug)]
pub(crate) struct Gated {
    pub(crate) inner: MemoryStore,
    pub(crate) gate: Gate,
}

/// What the next call waits at, if it is closed. Clones are the same gate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<Mutex<Option<oneshot::Receiver<()>>>>);

/// Opens the gate for the one call that waits at it.
#[derive(Debug)]
pub(crate) struct Opener(oneshot::Sender<()>);

// === impl Gate ===

impl Gate {
    /// Closes the gate for the next call.
    pub(crate) fn close(&self) -> Opener {
        let (open, opened) = oneshot::channel();
        *self.0.lock() = Some(opened);
        Opener(open)
    }

    async fn pass(&self) {
        let opened = self.0.lock().take();
        if let Some(opened) = opened {
            // Whoever drops the opener drops the call with it.
            let _ = opened.await;
        }
    }
}

// === impl Opener ===

impl Opener {
    pub(crate) fn open(self) {
        let _ = self.0.send(());
    }
}

#[async_trait]
impl Store for Gated {
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        self.gate.pass().await;
        self.inner.insert(slot, record, not_after).await
    }

    async fn replace(
        &self,
        slot: SlotId,
        seen: Fence,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        self.gate.pass().await;
        self.inner.replace(slot, seen, record, not_after).await
    }

    async fn remove(
        &self,
        slot: SlotId,
        seen: Fence,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        self.gate.pass().await;
        self.inner.remove(slot, seen, not_after).await
    }

    async fn get(&self, slot: SlotId) -> Result<Reply<Option<Arc<Record>>>, Error> {
        self.gate.pass().await;
        self.inner.get(slot).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<SlotId>,
        limit: usize,
    ) -> Result<Reply<Page>, Error> {
        self.gate.pass().await;
        self.inner.list(filter, after, limit).await
    }

    async fn sweep(&self, before: Timestamp, limit: usize) -> Result<Reply<Swept>, Error> {
        self.gate.pass().await;
        self.inner.sweep(before, limit).await
    }

    onceward::forward!(recall, forget, watch, durability, kind);
}
