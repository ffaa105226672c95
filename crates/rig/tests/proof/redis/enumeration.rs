//! Every single fault at every step, on Redis.

use onceward_rig::redis::{Options, RedisServer};
use tokio::runtime::Runtime;

use super::aged::Keys;
use super::site;
use crate::enumeration::judge_served;

#[test]
fn no_single_fault_breaks_the_promise_on_redis() {
    let runtime = Runtime::new().expect("a runtime starts");
    let server = runtime.block_on(RedisServer::start(Options::default()));
    let store = site::store(&format!("{}?prefix=steps", server.url()));
    let keys = Keys::of(&server, "steps");
    judge_served("faults at every step, redis", store, keys);
}
