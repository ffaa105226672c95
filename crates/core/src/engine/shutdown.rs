//! Ending an engine in good order.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;

use super::{Engine, Shared};
use crate::sync::time;
use crate::{Reason, SlotId};

impl Engine {
    /// Takes no more arrivals, waits for the work under way, `grace` at the most, and marks what
    /// is left as unknown. Returns the slots that were left.
    ///
    /// A holder that completes later than that still heals its own record. A claim whose end is
    /// said and not stored yet is left as it is. A store that is away holds this up for as long
    /// as one call of it may take, and no longer: what could not be marked lapses.
    pub async fn shutdown(&self, grace: Duration) -> Vec<SlotId> {
        self.shared.tasks.close();
        let drained = time::timeout(grace, self.shared.drained());
        if drained.await.is_ok() {
            return Vec::new();
        }
        let left = self.shared.keeper.all();
        let slots = left.iter().map(|holding| holding.arrival.id()).collect();
        let marking =
            stream::iter(left).for_each_concurrent(Shared::MARKED_AT_ONCE, |holding| async move {
                if let Err(error) = holding.mark_unknown(Reason::SHUT_DOWN).await {
                    tracing::error!(slot = ?holding.arrival.id(), %error, "claim left to lapse");
                }
            });
        let patience = self.shared.limits.store_patience;
        if time::timeout(patience, marking).await.is_err() {
            tracing::error!("the store is away: claims left to lapse");
        }
        slots
    }
}

// === impl Shared ===

impl Shared {
    /// How many claims are marked at once when time is short.
    const MARKED_AT_ONCE: usize = 64;

    /// Waits until nothing is under way: no task, no chore, and no claim in a caller's own hands.
    async fn drained(&self) {
        loop {
            self.tasks.wait().await;
            if self.keeper.is_empty() && self.tasks.is_empty() {
                return;
            }
            time::sleep(Duration::from_millis(5)).await;
        }
    }
}
