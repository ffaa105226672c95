//! Listening: one connection that hears of changed slots from other nodes, and tells them of ours.
//!
//! It sends what changed here after the commit, many slots at a time: a NOTIFY within a write
//! would make all commits of a database take turns. Hints may be lost while there is no
//! connection; whoever waits looks for itself now and then.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

use super::channel;
use super::hub::Hub;
use super::session::Session;
use super::trouble::Trouble;
use crate::server::Backoff;

/// How long slots are gathered before they are told of.
const GATHER: Duration = Duration::from_millis(5);

/// Listens and tells until the store is closed.
pub(super) async fn run(hub: Arc<Hub>) {
    let mut backoff = Backoff::default();
    while !hub.is_closing.load(Ordering::Acquire) {
        let (told, mut heard) = mpsc::unbounded_channel();
        match hub.connector.connect(Some(told)).await {
            Ok(mut session) => {
                let ended = attend(&hub, &mut session, &mut heard, &mut backoff).await;
                if let Err(trouble) = ended {
                    tracing::debug!(why = %trouble, "the listening connection was lost");
                }
            }
            Err(error) => tracing::debug!(%error, "nobody listens for other nodes' changes"),
        }
        tokio::time::sleep(backoff.next()).await;
    }
}

async fn attend(
    hub: &Hub,
    session: &mut Session,
    heard: &mut mpsc::UnboundedReceiver<(i32, String)>,
    backoff: &mut Backoff,
) -> Result<(), Trouble> {
    let channel = hub.connector.settings.channel();
    let begun = tokio::time::timeout(
        hub.connector.settings.timeout,
        begin(hub, session, &channel),
    );
    let begun = begun.await;
    let notify = begun.map_err(|_| Trouble::lost("the server did not answer in time"))??;
    *backoff = Backoff::default();
    loop {
        tokio::select! {
            note = heard.recv() => match note {
                // Our own come back as well, and were hinted at long ago.
                Some((pid, _)) if pid == session.about.pid => {}
                Some((_, payload)) => hub.changes.hint(channel::slots(&payload)),
                None => return Err(Trouble::lost("the connection was closed")),
            },
            () = hub.has_outgoing.notified() => tell(hub, session, &notify, &channel).await?,
        }
    }
}

/// Begins to listen. Returns the statement that tells others.
async fn begin(hub: &Hub, session: &Session, channel: &str) -> Result<Statement, Trouble> {
    // A hint needs no disk: it is worth nothing after a crash.
    let begin = format!("SET synchronous_commit = off; LISTEN \"{channel}\"");
    let client = &session.client;
    let begun = client.batch_execute(&begin).await;
    begun.map_err(|error| Trouble::of(&error))?;
    let notify = client.prepare(&hub.connector.statements.notify).await;
    notify.map_err(|error| Trouble::of(&error))
}

/// Tells other nodes of the slots that changed.
async fn tell(
    hub: &Hub,
    session: &Session,
    notify: &Statement,
    channel: &str,
) -> Result<(), Trouble> {
    tokio::time::sleep(GATHER).await;
    let slots = std::mem::take(&mut *hub.outgoing.lock());
    let payloads = channel::payloads(&slots);
    let parameters: [&(dyn ToSql + Sync); 2] = [&channel, &payloads];
    let sent = session.client.execute(notify, &parameters);
    let sent = tokio::time::timeout(hub.connector.settings.timeout, sent).await;
    let sent = sent.map_err(|_| Trouble::lost("the server did not answer in time"))?;
    sent.map_err(|error| Trouble::of(&error))?;
    Ok(())
}
