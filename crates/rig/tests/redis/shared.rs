//! What the tests share: places on one server, and stores there.

use onceward_rig::redis::fresh_url;
use onceward_stores::redis::{RedisStore, Settings};

pub(crate) use crate::nodes::{Nodes, PATIENCE, begin, payload, slot};

/// Nothing has to be kept: names that nobody else uses are enough.
pub(crate) type Place = ();

/// The URL of a place that nobody else uses.
pub(crate) async fn place() -> (String, Place) {
    (fresh_url().await, ())
}

/// A store on `url`.
pub(crate) fn open(url: &str) -> RedisStore {
    let settings: Settings = url.parse().expect("the URL is good");
    RedisStore::open(settings).expect("the store opens")
}
