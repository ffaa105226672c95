//! Sweeping: expired records go, lapsed claims become unknown, bodies and reservations go when
//! their time has come, at a pace that hurts nobody.

use std::sync::Weak;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};

use super::{Engine, Error, Shared};
use crate::store::{Swap, Swept};
use crate::sync::{JoinHandle, time};
use crate::{Record, SlotId, State, Timestamp};

/// How fast to sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// How long to wait when nothing is due. Default: 1 s.
    pub every: Duration,
    /// How many records one step looks at. Default: 500. A step may hold up writers of an
    /// embedded store for as long as it takes.
    pub step: usize,
    /// How long to pause between steps while there is more. Default: 10 ms.
    pub pause: Duration,
}

/// A task that sweeps until it is dropped.
#[derive(Debug)]
pub struct Sweeper(JoinHandle<()>);

// === impl Engine ===

impl Engine {
    /// Sweeps once: removes expired records, bodies that are not kept any longer and reservations
    /// for work that is gone, and marks lapsed claims unknown. Looks at `limit` records at the
    /// most.
    pub async fn sweep(&self, limit: usize) -> Result<Swept, Error> {
        self.secret().await?;
        self.shared.sweep(limit).await
    }

    /// Sweeps in the background for as long as the returned value lives.
    ///
    /// Claims are renewed from the same runtime, unless one was made before: so a program with
    /// several runtimes says which of them is for the chores.
    pub fn sweeper(&self, pace: Pace) -> Sweeper {
        self.shared.keeper.start(&self.shared);
        let shared = std::sync::Arc::downgrade(&self.shared);
        Sweeper(self.shared.tasks.spawn_apart(sweep_on(shared, pace)))
    }
}

async fn sweep_on(shared: Weak<Shared>, pace: Pace) {
    loop {
        let Some(engine) = shared.upgrade() else {
            return;
        };
        let more = match engine.sweep(pace.step).await {
            Ok(swept) => swept.more,
            Err(error) => {
                tracing::warn!(%error, "sweep failed");
                false
            }
        };
        drop(engine);
        time::sleep(if more { pace.pause } else { pace.every }).await;
    }
}

// === impl Shared ===

impl Shared {
    async fn sweep(&self, limit: usize) -> Result<Swept, Error> {
        let reach = &self.reach;
        // Its own clock decides what is due, so the horizon is only a cap.
        let horizon = Timestamp::NEVER;
        let swept = reach.ask(reach.store.sweep(horizon, limit)).await?.value;
        reach.meters.swept.increment(swept.removed as u64);
        let chores = stream::iter(swept.lapsed.clone());
        let dealt = chores.for_each_concurrent(Self::AT_ONCE, |(id, due)| async move {
            if let Err(error) = self.tend(id, &due).await {
                // It comes up again, and must not keep the others from being dealt with.
                tracing::warn!(slot = ?id, %error, "what is due stays as it is");
            }
        });
        dealt.await;
        Ok(swept)
    }

    /// How much is dealt with at a time: stores gather what is asked at once.
    const AT_ONCE: usize = 64;

    /// Deals with a record that is due. What moved meanwhile is somebody else's business.
    async fn tend(&self, id: SlotId, due: &Record) -> Result<(), Error> {
        match &due.state {
            State::Claimed(_) => {
                if self.mark_lapsed(id, due).await?.is_none() {
                    self.reach.meters.lapsed.increment(1);
                }
                Ok(())
            }
            State::Reserved(reservation) => self.review(id, due, reservation).await,
            State::Completed(_) => self.shed(id, due).await,
            State::Unknown(_) | State::Open => Ok(()),
        }
    }

    /// Removes a body that is not kept any longer.
    async fn shed(&self, id: SlotId, found: &Record) -> Result<(), Error> {
        let reach = &self.reach;
        let now = reach.latest();
        if found.has_expired(now) {
            let call = reach.store.remove(id, found.fence, Timestamp::NEVER);
            if reach.ask(call).await?.value == Swap::Done {
                reach.meters.swept.increment(1);
            }
        } else if let Some(record) = found.shed(now, reach.fence(Some(found.fence))) {
            let call = reach
                .store
                .replace(id, found.fence, &record, Timestamp::NEVER);
            if reach.ask(call).await?.value == Swap::Done {
                reach.meters.shed.increment(1);
            }
        }
        Ok(())
    }
}

// === impl Pace ===

impl Default for Pace {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(1),
            step: 500,
            pause: Duration::from_millis(10),
        }
    }
}

// === impl Sweeper ===

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}
