//! Upkeep: what is done now and then, whether or not anybody calls.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::state::Inner;
use super::{durability, start};

/// How often the time is put on record while there are writes.
const CLOCK: Duration = Duration::from_secs(10);

/// After how many of those the servers' settings are looked at again: a minute.
const LOOK: u32 = 6;

/// How soon they are looked at again when they could not be.
const SOON: Duration = Duration::from_secs(1);

/// Keeps house until the store is closed.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut clock = tokio::time::interval(CLOCK);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    clock.tick().await;
    let mut ticks = 0_u32;
    let mut has_failed = false;
    loop {
        let is_due = tokio::select! {
            _ = clock.tick() => {
                ticks += 1;
                mark(&inner).await;
                ticks.is_multiple_of(LOOK)
            }
            // It may be another server, or set up in another way.
            () = inner.hub.returned.notified() => true,
            () = tokio::time::sleep(SOON), if has_failed => true,
        };
        if is_due {
            has_failed = !look(&inner).await;
        }
    }
}

/// Puts the time on record, so that a node which starts after the server's clock was set back
/// does not begin before it.
async fn mark(inner: &Inner) {
    if !inner.has_written.swap(false, Ordering::Relaxed) {
        return;
    }
    let now = inner.clocks.terms(None).floor;
    let sent = inner.clocks.stopwatch();
    let marked = start::mark(&inner.hub, &inner.scripts, &inner.layout, now).await;
    match marked {
        Ok(on_record) => {
            inner.clocks.follow(on_record.server);
            inner.clocks.observe(on_record.server, on_record.raw, sent);
        }
        Err(trouble) => {
            tracing::debug!(why = %trouble, "the time was not put on record");
            inner.has_written.store(true, Ordering::Relaxed);
        }
    }
}

/// Looks at the servers' settings again. Says whether they could be seen.
async fn look(inner: &Inner) -> bool {
    match durability::look(&inner.hub).await {
        Ok(found) => {
            inner.found(found, false);
            true
        }
        Err(trouble) => {
            tracing::debug!(why = %trouble, "the settings were not looked at");
            false
        }
    }
}
