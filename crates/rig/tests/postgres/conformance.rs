//! The contract of every store.

use onceward::conformance;
use onceward_rig::postgres::{Scratch, scratch};
use onceward_stores::postgres::PostgresStore;

use crate::shared::open;

async fn fresh(parameters: &str) -> (PostgresStore, Scratch) {
    let (url, scratch) = scratch().await;
    (open(&format!("{url}{parameters}")), scratch)
}

conformance!(postgres, fresh("").await);
// Everything in one line: nothing passes anything else.
conformance!(on_one_connection, fresh("&connections=1").await);
