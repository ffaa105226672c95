//! What the tests share: places on one server, and stores there.

use onceward_rig::postgres::{Scratch, scratch};
use onceward_stores::postgres::{PostgresStore, Settings};

pub(crate) use crate::nodes::{Nodes, PATIENCE, begin, payload, slot};

/// What keeps a place as long as it is needed.
pub(crate) type Place = Scratch;

/// The URL of a place that nobody else uses.
pub(crate) async fn place() -> (String, Place) {
    scratch().await
}

/// A store on `url`.
pub(crate) fn open(url: &str) -> PostgresStore {
    let settings: Settings = url.parse().expect("the URL is good");
    PostgresStore::open(settings).expect("the store opens")
}
