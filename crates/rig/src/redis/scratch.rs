//! One server for all tests of a process, and names on it that nobody else uses.

use std::sync::Arc;

use tokio::sync::OnceCell;

use super::{Options, RedisServer};

/// The server that this process shares, for tests that leave it as it is.
///
/// # Panics
///
/// Panics if it does not start.
pub async fn shared() -> Arc<RedisServer> {
    static SHARED: OnceCell<Arc<RedisServer>> = OnceCell::const_new();
    let start = || async {
        // It is not killed, so nothing has to be synced.
        let options = Options::default().append("everysec");
        Arc::new(RedisServer::start(options).await)
    };
    SHARED.get_or_init(start).await.clone()
}

/// Returns the URL of the shared server with names of its own for whoever asks.
///
/// # Panics
///
/// Panics if the server does not start.
pub async fn fresh_url() -> String {
    let server = shared().await;
    format!("{}?prefix=scratch_{:016x}", server.url(), fastrand::u64(..))
}
