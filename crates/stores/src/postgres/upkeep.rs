//! Upkeep: what is done now and then, whether or not anybody calls.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::durability::{Found, QUESTION};
use super::hub::Hub;
use super::trouble::Trouble;

/// How often calls that wait for too long are looked for.
const TICK: Duration = Duration::from_millis(100);
/// How many ticks lie between two marks of the clock: ten seconds.
const CLOCK_TICKS: u64 = 100;
/// How many ticks lie between two looks at the server's settings: a minute.
const DURABILITY_TICKS: u64 = 600;

/// Keeps house until the store is closed.
pub(super) async fn run(hub: Arc<Hub>) {
    let mut ticks = 0_u64;
    loop {
        tokio::time::sleep(TICK).await;
        hub.reap();
        ticks += 1;
        if ticks.is_multiple_of(CLOCK_TICKS) {
            mark(&hub).await;
        }
        if ticks.is_multiple_of(DURABILITY_TICKS) {
            look(&hub).await;
        }
    }
}

/// Puts the time on record, so that a node which starts after the server's clock was set back
/// does not begin before it.
pub(super) async fn mark(hub: &Hub) {
    if !hub.has_written.swap(false, Ordering::Relaxed) {
        return;
    }
    let now = hub.reckoning.terms().floor;
    let text = &hub.connector.statements.raise;
    if let Err(trouble) = hub.run(text, vec![Box::new(now)]).await {
        tracing::debug!(why = %trouble, "the time was not put on record");
        hub.has_written.store(true, Ordering::Relaxed);
    }
}

/// Looks at the server's settings again.
async fn look(hub: &Hub) {
    match found(hub).await {
        Ok(found) => hub.found(found),
        Err(trouble) => tracing::debug!(why = %trouble, "the settings were not looked at"),
    }
}

async fn found(hub: &Hub) -> Result<Found, Trouble> {
    let rows = hub.run(QUESTION, Vec::new()).await?;
    let row = rows
        .first()
        .ok_or_else(|| Trouble::lost("nothing came back"))?;
    let found = Found::read(row, !hub.connector.settings.promotes);
    found.map_err(|error| Trouble::of(&error))
}
