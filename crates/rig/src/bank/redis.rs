//! The Redis store: a few cases of the contract, and stories of servers that forget their scripts,
//! evict, are set wrong or are alone, and of answers that are lost.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use onceward::store::{Insert, Reply, Swap};
use onceward::testing::conformance::{CASES, Case};
use onceward::testing::records::{self, LONG};
use onceward::{Record, SlotId, Store as _, Timestamp};
use onceward_stores::OpenError;
use onceward_stores::redis::RedisStore;
use tokio::runtime::Runtime;

use super::contract;
use crate::proxy::Fault;
use crate::redis::{Options, RedisServer, fresh_url};

type Story = fn() -> BoxFuture<'static, Option<String>>;

/// The cases of the contract that the scripts can break in ways of their own.
const HELD_TO: [&str; 2] = [
    "a_stale_fence_replaces_nothing",
    "a_late_insert_changes_nothing",
];

const STORIES: [(&str, Story); 7] = [
    ("a clock that is stepped", || Box::pin(is_stepped())),
    ("a clock that is told", || Box::pin(tells_the_time())),
    ("scripts that are forgotten", || Box::pin(forgets_scripts())),
    ("an answer that is lost", || Box::pin(loses_an_answer())),
    ("a replica that is missing", || {
        Box::pin(misses_its_replica())
    }),
    ("a server that evicts", || Box::pin(evicts())),
    ("a server that is a replica", || Box::pin(is_a_replica())),
];

const ANSWERS: &str = "the store answers";

/// How far a clock is stepped, in seconds: two hours.
const STEP: i64 = 2 * 3600;

pub(super) fn round() -> u64 {
    (HELD_TO.len() + STORIES.len()) as u64
}

pub(super) fn trial(number: u64) -> Option<String> {
    let runtime = Runtime::new().expect("a runtime starts");
    let at = (number % round()) as usize;
    let Some(at) = at.checked_sub(HELD_TO.len()) else {
        let is_it = |case: &&Case| case.name == HELD_TO[at];
        let case = CASES.iter().find(is_it).expect("it is in the contract");
        let store = runtime.block_on(async { opened(&fresh_url().await).await });
        return contract::hold(case, Arc::new(store.expect("the store opens")));
    };
    let (name, story) = STORIES[at];
    let wrong = runtime.block_on(story());
    runtime.shutdown_background();
    Some(format!("{name}: {}", wrong?))
}

/// The server's clock goes two hours ahead, and a lease of a minute is as long as before.
async fn is_stepped() -> Option<String> {
    let server = RedisServer::start(Options::default().movable_clock()).await;
    let store = opened(&server.url()).await.expect("the store opens");
    let (slot, claim) = (records::slot("k"), records::claimed(LONG));
    put(&store, slot, &claim).await;
    server.step_clock(STEP);
    let another = records::claimed(LONG);
    let reply = store.insert(slot, &another, Timestamp::NEVER).await;
    let granted = reply.expect(ANSWERS).value == Insert::Done;
    granted.then(|| "a claim is gone with a step of the clock".to_owned())
}

/// The server's clock goes two hours ahead, and the time that callers are told does not.
async fn tells_the_time() -> Option<String> {
    let server = RedisServer::start(Options::default().movable_clock()).await;
    let store = opened(&server.url()).await.expect("the store opens");
    let slot = records::slot("k");
    let before = store.get(slot).await.expect(ANSWERS).now;
    server.step_clock(STEP);
    let put = put(&store, slot, &records::claimed(LONG)).await;
    let told = store.get(slot).await.expect(ANSWERS).now.max(put);
    let ahead = told.since(before);
    let jumped = ahead.as_secs() >= STEP.unsigned_abs() / 2;
    jumped.then(|| format!("the time that counts jumps by {ahead:?}"))
}

/// The server forgets its scripts between two writes.
async fn forgets_scripts() -> Option<String> {
    let server = RedisServer::start(Options::default()).await;
    let store = opened(&server.url()).await.expect("the store opens");
    put(&store, records::slot("one"), &records::claimed(LONG)).await;
    server.cli(&["SCRIPT", "FLUSH"]).await;
    let (slot, claim) = (records::slot("two"), records::claimed(LONG));
    let insert = store.insert(slot, &claim, Timestamp::NEVER).await;
    insert
        .err()
        .map(|error| format!("the server is not told its scripts again: {error:?}"))
}

/// A claim happens and the connection ends instead of the answer: nobody may tell its holder that
/// the slot is somebody else's.
async fn loses_an_answer() -> Option<String> {
    let server = RedisServer::start(Options::default()).await;
    let proxy = server.proxy();
    let url = format!("{}?connections=1", proxy.url(&server.url()));
    let store = opened(&url).await.expect("the store opens");
    for round in 0..20 {
        let (slot, claim) = (records::slot(&format!("k{round}")), records::claimed(LONG));
        proxy.strike(Fault::ReplyDropped);
        let insert = store.insert(slot, &claim, Timestamp::NEVER).await;
        if is_own(insert.ok(), &claim) {
            return Some("a claim is turned away by itself".to_owned());
        }
        let next = records::rewritten(&claim);
        proxy.strike(Fault::ReplyDropped);
        let replace = store.replace(slot, claim.fence, &next, Timestamp::NEVER);
        if let Ok(reply) = replace.await
            && matches!(&reply.value, Swap::Moved(Some(found)) if found.fence == next.fence)
        {
            return Some("a write is turned away by itself".to_owned());
        }
    }
    None
}

/// Whether an insert was told that its own record is in the way.
fn is_own(reply: Option<Reply<Insert>>, claim: &Record) -> bool {
    let found = reply.map(|reply| reply.value);
    matches!(found, Some(Insert::Taken(found)) if found.fence == claim.fence)
}

/// A write is to wait for a replica, and there is none.
async fn misses_its_replica() -> Option<String> {
    let server = RedisServer::start(Options::default()).await;
    let url = format!("{}?wait=1&wait_timeout=100ms", server.url());
    let store = opened(&url).await.ok()?;
    let (slot, claim) = (records::slot("k"), records::claimed(LONG));
    let reply = store.insert(slot, &claim, Timestamp::NEVER).await.ok()?;
    Some(format!("it is {:?} though no replica has it", reply.value))
}

/// A server throws away whatever was not used for long.
async fn evicts() -> Option<String> {
    let server = RedisServer::start(Options::default().memory("64mb", "allkeys-lru")).await;
    let opened = opened(&server.url()).await;
    opened
        .ok()
        .map(|_| "a server that evicts is trusted".to_owned())
}

/// A replica is taken for a server that can be written to.
async fn is_a_replica() -> Option<String> {
    let master = RedisServer::start(Options::default()).await;
    let replica = RedisServer::start(Options::default().replica_of(master.addr())).await;
    let opened = opened(&replica.url()).await;
    opened
        .ok()
        .map(|_| "a replica is taken for a master".to_owned())
}

/// Opening blocks, so it is done beside the runtime.
async fn opened(url: &str) -> Result<RedisStore, OpenError> {
    let settings = url.parse().expect("the URL is good");
    let opened = tokio::task::spawn_blocking(move || RedisStore::open(settings));
    opened.await.expect("it does not panic")
}

/// Puts a record into an empty slot, and returns its stamp.
async fn put(store: &RedisStore, slot: SlotId, record: &Record) -> Timestamp {
    let reply = store.insert(slot, record, Timestamp::NEVER).await;
    let reply = reply.expect(ANSWERS);
    assert_eq!(reply.value, Insert::Done);
    reply.now
}
