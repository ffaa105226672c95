//! Listening: one connection that hears of changed slots from other nodes.
//!
//! The scripts tell of them. In a cluster every server hears what any of them is told, so one is
//! listened to. Hints may be lost while there is no connection; whoever waits looks for itself now
//! and then.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use onceward::SlotId;
use redis::RedisError;

use super::state::Inner;
use super::trouble::words;
use crate::server::Backoff;

/// How often the server is asked whether it is still there.
const PING: Duration = Duration::from_secs(10);

/// Listens until the store is closed.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut backoff = Backoff::default();
    while !inner.hub.is_closing() {
        if let Err(error) = attend(&inner, &mut backoff).await {
            let why = words(&error);
            tracing::debug!(why, "nobody listens for other nodes' changes");
        }
        tokio::time::sleep(backoff.next()).await;
    }
}

async fn attend(inner: &Inner, backoff: &mut Backoff) -> Result<(), RedisError> {
    let hub = &inner.hub;
    let servers = hub.masters();
    let at = fastrand::usize(..servers.len().max(1));
    let node = servers.get(at).and_then(|id| hub.node(*id));
    let Some(node) = node else {
        return Ok(());
    };
    let host = node.host.lock().clone();
    let timeout = hub.settings().timeout;
    let listened = async {
        let mut listener = hub.connector.listen(&host).await?;
        listener.subscribe(inner.channel.as_str()).await?;
        Ok::<_, RedisError>(listener)
    };
    let Ok(listened) = tokio::time::timeout(timeout, listened).await else {
        return Ok(());
    };
    let (mut sink, mut heard) = listened?.split();
    *backoff = Backoff::default();
    loop {
        tokio::select! {
            message = heard.next() => match message {
                Some(message) => {
                    if let Some(slot) = changed(message.get_payload_bytes(), &inner.me) {
                        inner.changes.hint([slot]);
                    }
                }
                None => return Ok(()),
            },
            () = tokio::time::sleep(PING) => {
                // A line that is silent may be dead.
                let ping = tokio::time::timeout(timeout, sink.ping::<redis::Value>());
                match ping.await {
                    Ok(answered) => drop(answered?),
                    Err(_) => return Ok(()),
                }
            }
        }
    }
}

/// The slot that somebody else tells of.
fn changed(payload: &[u8], me: &[u8; 8]) -> Option<SlotId> {
    let (who, slot) = payload.split_at_checked(me.len())?;
    // Our own come back as well, and were hinted at long ago.
    let slot = (who != me).then_some(slot)?;
    slot.try_into().ok().map(SlotId::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_tell_of_is_heard_and_what_we_told_is_not() {
        let slot = SlotId::from_bytes([9; SlotId::LEN]);
        let told = [&[1; 8], slot.as_bytes().as_slice()].concat();
        assert_eq!(changed(&told, &[2; 8]), Some(slot));
        assert_eq!(changed(&told, &[1; 8]), None);
        assert_eq!(changed(b"short", &[2; 8]), None);
        assert_eq!(changed(&told[..30], &[2; 8]), None);
    }
}
