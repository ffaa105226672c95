//! Stores and sites on PostgreSQL.

use std::sync::Arc;

use onceward::{Effect, Store};
use onceward_stores::OpenError;
use onceward_stores::postgres::{PostgresStore, Settings};

pub(super) use crate::site::{Site, run};

// === impl Site ===

impl Site {
    /// Opens a site on the database of `url`, for work of one class.
    pub(crate) async fn open(url: &str, effect: Effect) -> Self {
        Self::open_beside(url, url, effect).await
    }

    /// Opens a site whose records are read in the end by another way than the nodes' own.
    pub(super) async fn open_beside(url: &str, reads: &str, effect: Effect) -> Self {
        Self::over([store(url), store(url)], store(reads), effect).await
    }
}

/// A store on a server, which gives up on a silent one soon.
pub(crate) fn store(url: &str) -> Arc<dyn Store> {
    let between = if url.contains('?') { '&' } else { '?' };
    patient(&format!("{url}{between}timeout=1500ms&sslmode=disable"))
}

/// A store on a server, with calls that may take as long as its URL says.
pub(crate) fn patient(url: &str) -> Arc<dyn Store> {
    let settings: Settings = url.parse().expect("the URL is good");
    let mut tries = 0;
    loop {
        tries += 1;
        match PostgresStore::open(settings.clone()) {
            Ok(store) => return Arc::new(store),
            // A busy machine may be slow to let anybody in.
            Err(OpenError::Unreachable { .. }) if tries < 10 => {}
            Err(error) => panic!("the store does not open: {}", error.line()),
        }
    }
}
