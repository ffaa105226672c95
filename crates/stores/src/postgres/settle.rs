//! Settling: seeing to it that whatever can be read is where it should be.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::hub::Hub;
use super::session::Session;
use super::trouble::Trouble;
use crate::server::Backoff;

/// How long a write in the background waits for the standby before another one is tried: the
/// server may be one that nobody uses any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// Settles the doubts that there are by a write of which the standby has heard, `within` that time.
///
/// They are taken back once that is acknowledged and not before: whoever waits for it may leave.
pub(super) async fn settle(hub: &Hub, session: &Session, within: Duration) -> Result<(), Trouble> {
    let doubts = &hub.doubts;
    // Whoever doubts from now on is not spoken for.
    let raised = doubts.raised();
    let text = &hub.connector.statements.settle;
    let written = session.client.execute(text, &[]);
    let written = tokio::time::timeout(within, written).await;
    match written {
        Err(_) => Err(Trouble::lost("the server did not answer in time")),
        Ok(Err(error)) => Err(Trouble::of(&error)),
        Ok(Ok(_)) if session.is_in_doubt() => {
            doubts.raise();
            Err(Trouble::lost("the server did not wait for its standby"))
        }
        Ok(Ok(_)) => {
            doubts.settle(raised);
            Ok(())
        }
    }
}

/// Settles in the background what somebody wants to be settled who does not wait for it.
///
/// On a connection of its own, which it has only then: the wait may be long, and no call of the
/// store is to stand behind it.
pub(super) async fn run(hub: Arc<Hub>) {
    let mut backoff = Backoff::default();
    while !hub.is_closing.load(Ordering::Acquire) {
        hub.doubts.wanted().await;
        while hub.doubts.is_open() {
            match attend(&hub).await {
                Ok(()) => backoff = Backoff::default(),
                Err(why) => {
                    tracing::debug!(why, "what was committed in doubt is not settled yet");
                    tokio::time::sleep(backoff.next()).await;
                }
            }
        }
    }
}

async fn attend(hub: &Hub) -> Result<(), String> {
    let session = hub.connector.connect(None).await;
    let session = session.map_err(|error| error.line())?;
    hub.is_home(&session.about)?;
    let settled = settle(hub, &session, PATIENCE).await;
    settled.map_err(|trouble| trouble.to_string())
}
