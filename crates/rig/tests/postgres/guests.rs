//! Calls that go on a connection of their caller's runtime, and what is left of it afterwards.

use std::pin::pin;
use std::task::Poll;
use std::thread;

use futures_util::FutureExt as _;
use futures_util::future::{join_all, poll_fn};
use onceward::store::{Insert, Swap};
use onceward::testing::records::{self, LONG};
use onceward::{Fence, SlotId, Store as _, Timestamp};
use onceward_rig::postgres::{Scratch, scratch};
use onceward_stores::postgres::PostgresStore;
use tokio::runtime::Builder;
use tokio_postgres::NoTls;

use crate::shared::open;

const ANSWERS: &str = "the store answers";

async fn fresh() -> (PostgresStore, Scratch) {
    let (url, scratch) = scratch().await;
    (open(&url), scratch)
}

/// Calls until a call was sent by its caller: this runtime has a connection from then on.
async fn settle(store: &PostgresStore) {
    let before = store.figures().lone;
    while store.figures().lone == before {
        store.get(records::slot("none")).await.expect(ANSWERS);
    }
}

/// Puts a claim into a slot, and returns its fence.
async fn claim(store: &PostgresStore, slot: SlotId) -> Fence {
    let claim = records::claimed(LONG);
    let put = store.insert(slot, &claim, Timestamp::NEVER).await;
    assert_eq!(put.expect(ANSWERS).value, Insert::Done);
    claim.fence
}

/// Does something on the only worker of a runtime of its own, which is gone afterwards.
async fn elsewhere<T, F>(deed: F) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let run = || {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(on_the_worker(deed))
    };
    let thread = thread::spawn(run);
    let joined = tokio::task::spawn_blocking(|| thread.join());
    joined.await.unwrap().unwrap()
}

/// Does something on the only worker of this runtime: nothing else of it happens between two polls.
async fn on_the_worker<T, F>(deed: F) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    tokio::spawn(deed).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn caller_that_goes_away_leaves_its_slot_to_others() {
    on_the_worker(async {
        let (store, _scratch) = fresh().await;
        settle(&store).await;
        for at in 0..20 {
            let slot = records::slot(&at.to_string());
            let before = store.figures();
            let first = records::claimed(LONG);
            let insert = store.insert(slot, &first, Timestamp::NEVER);
            assert!(insert.now_or_never().is_none(), "it waits for the server");
            assert_eq!(store.figures().lone, before.lone + 1);

            // What nobody waits for any more may have happened.
            let second = records::claimed(LONG);
            let insert = store.insert(slot, &second, Timestamp::NEVER).await;
            let seen = match insert.expect(ANSWERS).value {
                Insert::Done => second.fence,
                Insert::Taken(found) => found.fence,
                Insert::Late => panic!("it may come at any time"),
            };
            let replace = records::completed(LONG);
            let replace = store.replace(slot, seen, &replace, Timestamp::NEVER);
            assert_eq!(replace.await.expect(ANSWERS).value, Swap::Done);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn runtime_that_ends_takes_nothing_with_it() {
    let (store, _scratch) = fresh().await;
    // More of them than there are connections.
    for at in 0..6 {
        let visited = store.clone();
        let slot = records::slot(&at.to_string());
        let seen = elsewhere(async move {
            settle(&visited).await;
            let seen = claim(&visited, slot).await;
            // In the middle of a call, which ends with it.
            let done = records::completed(LONG);
            let call = visited.replace(slot, seen, &done, Timestamp::NEVER);
            assert!(call.now_or_never().is_none());
            seen
        })
        .await;
        let done = records::completed(LONG);
        let replaced = store.replace(slot, seen, &done, Timestamp::NEVER).await;
        let replaced = replaced.expect(ANSWERS).value;
        assert!(!matches!(replaced, Swap::Late), "{replaced:?}");
    }
    settle(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn call_that_waits_for_a_lock_outlives_the_runtime_of_its_caller() {
    let (store, scratch) = fresh().await;
    let slot = records::slot("held");
    let seen = claim(&store, slot).await;
    let connected = tokio_postgres::connect(scratch.server(), NoTls).await;
    let (stranger, connection) = connected.unwrap();
    tokio::spawn(connection);
    let table = store.settings().table("records");
    let lock = format!("BEGIN; SELECT 1 FROM {table} FOR UPDATE");
    stranger.batch_execute(&lock).await.unwrap();

    let visited = store.clone();
    elsewhere(async move {
        settle(&visited).await;
        let done = records::completed(LONG);
        let mut call = pin!(visited.replace(slot, seen, &done, Timestamp::NEVER));
        // It is sent, finds the row locked, reads it, and is to be sent again.
        let mut polls = 0;
        poll_fn(|cx| {
            assert!(call.as_mut().poll(cx).is_pending(), "somebody holds it");
            polls += 1;
            if polls == 3 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    })
    .await;
    stranger.batch_execute("ROLLBACK").await.unwrap();
    let done = records::completed(LONG);
    let replaced = store.replace(slot, seen, &done, Timestamp::NEVER).await;
    let replaced = replaced.expect(ANSWERS).value;
    assert!(!matches!(replaced, Swap::Late), "{replaced:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn lone_callers_and_crowds_take_turns() {
    let (store, _scratch) = fresh().await;
    settle(&store).await;
    for round in 0..20 {
        let slot = records::slot(&format!("lone {round}"));
        claim(&store, slot).await;
        let crowd = (0..32).map(|at| {
            let store = store.clone();
            async move { claim(&store, records::slot(&format!("{round} {at}"))).await }
        });
        join_all(crowd).await;
    }
    let figures = store.figures();
    assert!(figures.lone > 1, "{figures:?}");
    assert!(figures.batches < figures.calls, "{figures:?}");
}
