//! Servers that forget, fill up, change their role or go away: the store says so, and goes on when
//! they are well again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onceward::store::{Error, Insert, Swap};
use onceward::testing::ExpectVerdict as _;
use onceward::testing::records::{self, LONG};
use onceward::{Durability, Effect, Store as _, Timestamp};
use onceward_rig::proxy::Fault;
use onceward_rig::redis::{Options, RedisServer, shared as shared_server};
use onceward_stores::redis::RedisStore;

use crate::shared::{Nodes, PATIENCE, begin, open, place};

const ANSWERS: &str = "the store answers";

/// Puts a claim into a slot.
async fn put(store: &RedisStore, name: &str) -> Result<Insert, Error> {
    let claim = records::claimed(LONG);
    let insert = store.insert(records::slot(name), &claim, Timestamp::NEVER);
    insert.await.map(|reply| reply.value)
}

/// Asks again until a claim is put into a slot.
async fn put_in_the_end(store: &RedisStore, name: &str) {
    let put = async {
        while put(store, name).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let put = tokio::time::timeout(PATIENCE, put).await;
    put.expect("the store goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_notices_that_the_scripts_are_forgotten() {
    let server = shared_server().await;
    let (url, ()) = place().await;
    let store = open(&url);
    let is_over = Arc::new(AtomicBool::new(false));
    let forgets = tokio::spawn({
        let is_over = is_over.clone();
        async move {
            let mut times = 0;
            while !is_over.load(Ordering::Relaxed) {
                server.cli(&["SCRIPT", "FLUSH"]).await;
                times += 1;
            }
            times
        }
    });
    for number in 0..300 {
        let slot = records::slot(&number.to_string());
        let (claim, done) = (records::claimed(LONG), records::completed(LONG));
        let insert = store.insert(slot, &claim, Timestamp::NEVER).await;
        assert_eq!(insert.expect(ANSWERS).value, Insert::Done);
        let swap = store.replace(slot, claim.fence, &done, Timestamp::NEVER);
        assert_eq!(swap.await.expect(ANSWERS).value, Swap::Done);
        let found = store.get(slot).await.expect(ANSWERS).value.unwrap();
        assert_eq!(found.fence, done.fence);
    }
    is_over.store(true, Ordering::Relaxed);
    assert!(forgets.await.unwrap() > 3, "they were hardly forgotten");
}

#[tokio::test]
async fn a_server_that_is_started_again_is_told_the_scripts_again() {
    let mut server = RedisServer::durable().await;
    let store = open(&server.url());
    assert_eq!(put(&store, "before").await.unwrap(), Insert::Done);
    server.kill9().await;
    assert!(put(&store, "during").await.is_err());
    server.restart().await;
    put_in_the_end(&store, "after").await;
    let found = store.get(records::slot("before")).await.expect(ANSWERS);
    assert!(found.value.is_some(), "it was on disk");
}

/// The settings may have changed behind a connection that broke, though others of the store have
/// not: on a busy machine one is back before the next has noticed that the server was away.
#[tokio::test]
async fn settings_are_looked_at_again_when_a_single_connection_is_made_anew() {
    let server = RedisServer::durable().await;
    let store = open(&format!("{}?connections=2", server.url()));
    assert_eq!(store.durability(), Durability::D2);
    server
        .cli(&["CONFIG", "SET", "appendfsync", "everysec"])
        .await;
    // Those who listen for news are clients of another type.
    let clients = server.cli(&["CLIENT", "LIST", "TYPE", "normal"]).await;
    let oldest = clients.lines().find_map(|line| line.strip_prefix("id="));
    let (id, _) = oldest.and_then(|line| line.split_once(' ')).unwrap();
    server.cli(&["CLIENT", "KILL", "ID", id]).await;
    let seen = async {
        while store.durability() != Durability::D1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let seen = tokio::time::timeout(PATIENCE, seen).await;
    seen.expect("the new setting is seen");
}

#[tokio::test]
async fn a_master_that_becomes_a_replica_writes_nothing_until_it_is_one_again() {
    let server = RedisServer::start(Options::default()).await;
    let other = RedisServer::start(Options::default()).await;
    let store = open(&format!("{}?timeout=500ms", server.url()));
    assert_eq!(put(&store, "before").await.unwrap(), Insert::Done);
    let port = other.addr().port().to_string();
    server.cli(&["REPLICAOF", "127.0.0.1", &port]).await;
    put(&store, "during").await.unwrap_err();
    server.promote().await;
    put_in_the_end(&store, "after").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_hear_of_the_outcome_though_their_line_was_cut() {
    let server = RedisServer::start(Options::default()).await;
    let proxy = server.proxy();
    let nodes = Nodes::at(&proxy.url(&server.url()), Effect::Opaque);
    let claim = begin(&nodes.a, "k").await.expect_claim();
    let b = nodes.b.clone();
    let waiter = tokio::spawn(async move { begin(&b, "k").await });
    proxy.strike(Fault::Reset);
    claim.complete("paid").await.unwrap();
    let verdict = tokio::time::timeout(PATIENCE, waiter).await.unwrap();
    assert_eq!(verdict.unwrap().expect_replay(), "paid");
}
