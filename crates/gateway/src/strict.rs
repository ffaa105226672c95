//! Strictness: a store whose class falls while it serves takes no new claims.
//!
//! A database can be made to forget at any time: an operator turns `synchronous_commit` off, or a
//! failover ends at a server that is set up in another way. A strict gateway that started on a
//! store of class D2 does not go on promising then what the store no longer keeps.

use std::sync::Arc;

use async_trait::async_trait;
use onceward::store::{Error, Insert, Reply, Swap};
use onceward::{Durability, Effect, Fence, Record, SlotId, State, Store, Timestamp};

/// The least that an acknowledged write has to survive where the gateway is strict.
pub(crate) const CLASS_MIN: Durability = Durability::D2;

/// Whether work of this class is safe on a store that can forget: somebody else remembers.
pub(crate) fn is_covered(effect: Effect) -> bool {
    matches!(effect, Effect::Keyed | Effect::Transactional)
}

/// A store that takes new claims only while it is of the class that strictness wants.
///
/// Replays, renewals and completions go on: nothing gets worse by them. So do claims of work that
/// is [covered](is_covered).
#[derive(Debug)]
pub(crate) struct StrictStore {
    inner: Arc<dyn Store>,
}

// === impl StrictStore ===

impl StrictStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner }
    }

    /// Refuses a write that begins work which this store might forget.
    fn check(&self, record: &Record) -> Result<(), Error> {
        let begins = matches!(record.state, State::Claimed(_)) && record.mark == Some(record.fence);
        let class = self.inner.durability();
        if !begins || class >= CLASS_MIN || is_covered(record.effect) {
            return Ok(());
        }
        Err(Error::Full {
            store: self.inner.kind(),
            why: format!("strict = true, and an acknowledged write is only {class} now"),
        })
    }
}

#[async_trait]
impl Store for StrictStore {
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        self.check(record)?;
        self.inner.insert(slot, record, not_after).await
    }

    async fn replace(
        &self,
        slot: SlotId,
        seen: Fence,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        self.check(record)?;
        self.inner.replace(slot, seen, record, not_after).await
    }

    onceward::forward!(
        remove, get, recall, forget, list, sweep, watch, durability, kind
    );
}

#[cfg(test)]
mod tests;
