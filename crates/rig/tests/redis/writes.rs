//! Writes: what becomes of them when answers are lost, scripts forgotten, servers full.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use onceward::store::{Error, Insert, Swap};
use onceward::testing::records::{self, LONG};
use onceward::{SlotId, Store as _, Timestamp};
use onceward_rig::proxy::Fault;
use onceward_rig::redis::{Options, RedisServer};
use onceward_stores::redis::RedisStore;

const NEVER: Timestamp = Timestamp::NEVER;

fn open(url: &str) -> RedisStore {
    let settings = url.parse().expect("the URL is good");
    RedisStore::open(settings).expect("the store opens")
}

/// The key of the record in `slot`.
fn key(slot: SlotId) -> String {
    let name = slot.to_string();
    format!("onceward{{{}}}:r:{name}", &name[..3])
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_recognises_itself() {
    let server = RedisServer::start(Options::default()).await;
    let proxy = server.proxy();
    let store = open(&format!("redis://{}?connections=1", proxy.addr()));
    // Not every answer that is dropped is that of a write: the store looks at its server as well.
    for round in 0..100 {
        let (slot, claim) = (records::slot(&format!("{round}")), records::claimed(LONG));
        proxy.strike(Fault::ReplyDropped);
        let insert = store.insert(slot, &claim, NEVER).await.unwrap();
        assert_eq!(insert.value, Insert::Done);
        let found = store.get(slot).await.unwrap().value.unwrap();
        assert_eq!((found.fence, found.written), (claim.fence, insert.now));

        let done = records::completed(LONG);
        proxy.strike(Fault::ReplyDropped);
        let replace = store.replace(slot, claim.fence, &done, NEVER).await;
        assert_eq!(replace.unwrap().value, Swap::Done);
    }
    assert!(proxy.struck() >= 50, "{} were dropped", proxy.struck());
}

#[tokio::test]
async fn a_removal_whose_answer_was_lost_leaves_nothing_that_could_tell() {
    let server = RedisServer::start(Options::default()).await;
    let proxy = server.proxy();
    let store = open(&format!("redis://{}?connections=1", proxy.addr()));
    // The answer that is dropped may be another one: the store looks at its server meanwhile.
    for round in 0..100 {
        let (slot, claim) = (records::slot(&format!("{round}")), records::claimed(LONG));
        store.insert(slot, &claim, NEVER).await.unwrap();
        proxy.strike(Fault::ReplyDropped);
        let removal = store.remove(slot, claim.fence, NEVER).await;
        assert!(store.get(slot).await.unwrap().value.is_none());
        match removal {
            Ok(removal) => assert_eq!(removal.value, Swap::Done),
            Err(Error::Unavailable { .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("none of 100 answers that were dropped was that of a removal");
}

#[tokio::test]
async fn a_request_that_never_arrived_is_sent_again() {
    let server = RedisServer::start(Options::default()).await;
    let proxy = server.proxy();
    let store = open(&format!("redis://{}?connections=1", proxy.addr()));
    proxy.strike(Fault::RequestDropped);
    let (slot, claim) = (records::slot("k"), records::claimed(LONG));
    let insert = store.insert(slot, &claim, NEVER).await.unwrap();
    assert_eq!(insert.value, Insert::Done);
}

#[tokio::test]
async fn scripts_that_were_forgotten_are_taught_again() {
    let server = RedisServer::start(Options::default()).await;
    let store = open(&server.url());
    for round in 0..20 {
        server.cli(&["SCRIPT", "FLUSH"]).await;
        let inserts = (0..10).map(|at| {
            let (slot, store) = (records::slot(&format!("{round} {at}")), &store);
            async move { store.insert(slot, &records::claimed(LONG), NEVER).await }
        });
        for insert in join_all(inserts).await {
            assert_eq!(insert.unwrap().value, Insert::Done);
        }
    }
}

#[tokio::test]
async fn a_write_that_too_few_replicas_have_is_an_error() {
    let server = RedisServer::start(Options::default()).await;
    let store = open(&format!("{}?wait=1&wait_timeout=50ms", server.url()));
    let (slot, claim) = (records::slot("k"), records::claimed(LONG));
    let insert = store.insert(slot, &claim, NEVER).await;
    assert!(
        matches!(insert, Err(Error::Unavailable { .. })),
        "{insert:?}"
    );
    // It may have happened, and did; and nobody who waits for replicas is shown it, its own writer
    // included.
    let hasty = open(&server.url());
    assert!(hasty.get(slot).await.unwrap().value.is_some());
    store.get(slot).await.unwrap_err();
    store.insert(slot, &claim, NEVER).await.unwrap_err();

    let replica = RedisServer::start(Options::default().replica_of(server.addr())).await;
    replica.heard_by(&server).await;
    let patient = open(&format!("{}?wait=1&wait_timeout=4s", server.url()));
    let insert = patient.insert(records::slot("l"), &claim, NEVER).await;
    assert_eq!(insert.unwrap().value, Insert::Done);
}

#[tokio::test]
async fn a_full_server_takes_no_claims() {
    let server = RedisServer::start(Options::default().memory("3mb", "noeviction")).await;
    let store = open(&server.url());
    let (mut last, mut why) = (records::slot("first"), None);
    for at in 0..100_000 {
        let slot = records::slot(&format!("{at}"));
        match store.insert(slot, &records::completed(LONG), NEVER).await {
            Ok(_) => last = slot,
            Err(Error::Full { why: full, .. }) => {
                why = Some(full);
                assert!(store.get(slot).await.unwrap().value.is_none());
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(why.is_some_and(|why| why.contains("OOM")));
    // What is there can be read and removed.
    let found = store.get(last).await.unwrap().value.unwrap();
    let removal = store.remove(last, found.fence, NEVER).await;
    assert_eq!(removal.unwrap().value, Swap::Done);
}

#[tokio::test]
async fn what_is_wrong_with_one_slot_leaves_the_others_alone() {
    let server = RedisServer::start(Options::default()).await;
    let store = open(&format!("{}?connections=1", server.url()));
    let slots: Vec<_> = (0..40).map(|at| records::slot(&format!("{at}"))).collect();
    // Somebody else's list, which a replacement cannot be written over.
    server.cli(&["LPUSH", &key(slots[7]), "x"]).await;
    let record = records::claimed(LONG);
    let inserts = slots.iter().map(|slot| store.insert(*slot, &record, NEVER));
    for (at, insert) in join_all(inserts).await.into_iter().enumerate() {
        match at {
            7 => assert!(insert.is_err(), "{insert:?}"),
            _ => assert_eq!(insert.unwrap().value, Insert::Done),
        }
    }
}

#[tokio::test]
async fn only_what_expires_is_given_a_time_to_live_and_long_past_its_retention() {
    let server = RedisServer::start(Options::default()).await;
    let store = open(&server.url());
    let (slot, claim) = (records::slot("k"), records::claimed(LONG));
    store.insert(slot, &claim, NEVER).await.unwrap();
    assert_eq!(server.cli(&["PTTL", &key(slot)]).await, "-1");

    let done = records::completed(Duration::from_secs(1));
    store
        .replace(slot, claim.fence, &done, NEVER)
        .await
        .unwrap();
    let left: u64 = server.cli(&["PTTL", &key(slot)]).await.parse().unwrap();
    assert!(left > 60 * 24 * 3_600_000, "{left}");

    let claim = records::claimed(LONG);
    store
        .replace(slot, done.fence, &claim, NEVER)
        .await
        .unwrap();
    assert_eq!(server.cli(&["PTTL", &key(slot)]).await, "-1");
}

#[tokio::test]
async fn other_nodes_are_told_when_a_claim_ends() {
    let server = RedisServer::start(Options::default()).await;
    let (here, there) = (open(&server.url()), open(&server.url()));
    let mut hints = there.watch();
    let heard = async {
        for at in 0.. {
            let slot = records::slot(&format!("{at}"));
            let claim = records::claimed(LONG);
            here.insert(slot, &claim, NEVER).await.unwrap();
            let done = records::completed(LONG);
            here.replace(slot, claim.fence, &done, NEVER).await.unwrap();
            // The first may come before anybody listens.
            let soon = Duration::from_millis(100);
            if let Ok(hint) = tokio::time::timeout(soon, hints.next()).await {
                return (hint, slot);
            }
        }
        unreachable!("somebody hears sooner or later")
    };
    let (hint, slot) = heard.await;
    assert_eq!(hint, Some(slot));
}

#[tokio::test]
async fn a_server_that_was_away_serves_again() {
    let mut server = RedisServer::durable().await;
    let store = open(&server.url());
    let (slot, claim) = (records::slot("k"), records::claimed(LONG));
    store.insert(slot, &claim, NEVER).await.unwrap();
    server.kill9().await;
    let away = async {
        while store.get(slot).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    away.await;
    server.restart().await;
    let back = async {
        loop {
            if let Ok(found) = store.get(slot).await {
                return found.value;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(5), back).await;
    assert_eq!(found.expect("it serves again").unwrap().fence, claim.fence);
}
