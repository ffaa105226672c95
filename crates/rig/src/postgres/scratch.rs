//! Scratch: a schema of its own for each test, on one server for all of them.

use std::sync::Arc;

use tokio::sync::OnceCell;

use super::{Server, sql};

/// The variable that names a server for ordinary tests, by the URL of a superuser. Without it each
/// process starts one.
pub const SERVER_VAR: &str = "ONCEWARD_TEST_POSTGRES";

/// A schema that nobody else uses, removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    server: String,
    schema: String,
}

/// Returns the URL of a fresh schema on the server that this process shares, and what removes it.
///
/// That server does not sync, so that tests which do not kill it are fast.
///
/// # Panics
///
/// Panics if there is no server and none can be started.
pub async fn scratch() -> (String, Scratch) {
    let server = shared_url().await;
    let schema = format!("scratch_{:016x}", fastrand::u64(..));
    let between = if server.contains('?') { '&' } else { '?' };
    let url = format!("{server}{between}schema={schema}");
    (url, Scratch { server, schema })
}

/// The URL of the server that this process shares, as its superuser.
///
/// # Panics
///
/// Panics if there is no server and none can be started.
pub async fn shared_url() -> String {
    static SHARED: OnceCell<Arc<Server>> = OnceCell::const_new();
    if let Ok(url) = std::env::var(SERVER_VAR) {
        return url;
    }
    let start = || async {
        let server = Server::builder()
            .setting("fsync", "off")
            .setting("max_connections", "500");
        Arc::new(server.start().await)
    };
    SHARED.get_or_init(start).await.url()
}

// === impl Scratch ===

impl Scratch {
    /// The name of the schema.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The URL of the server without the schema, as its superuser.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Runs statements as the superuser, in the database of the schema.
    ///
    /// # Panics
    ///
    /// Panics if the server does not do them.
    pub async fn sql(&self, text: &str) {
        sql(&self.server, text).await.expect("the server does it");
    }

    /// Runs a statement as the superuser, and returns the first value that comes back as text.
    ///
    /// # Panics
    ///
    /// Panics if the server does not do it.
    pub async fn value(&self, text: &str) -> String {
        let value = super::value(&self.server, text).await;
        value.expect("the server does it")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let (server, schema) = (self.server.clone(), self.schema.clone());
        // Whatever runtime this is dropped on, it cannot wait there.
        let cleaning = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime starts");
            let text = format!(
                "SET lock_timeout = '2s'; SET client_min_messages = error; \
                 DROP SCHEMA IF EXISTS {schema} CASCADE"
            );
            // A server that was taken away has nothing left to remove.
            let _ = runtime.block_on(sql(&server, &text));
        });
        let _ = cleaning.join();
    }
}
