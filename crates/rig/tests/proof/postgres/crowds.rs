//! Crowds and strangers: many who wait, and transactions of others that hold a slot.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use onceward::clock::{Clock as _, SystemClock};
use onceward::store::{Error, Insert, Reply, Swap};
use onceward::testing::{ExpectVerdict as _, records};
use onceward::{Engine, Fingerprint, Key, OnBusy, Policy, Scope, Slot, Store, Timestamp};
use onceward_rig::postgres::{Scratch, scratch};
use onceward_rig::tally::Tally;
use tokio_postgres::{Client, NoTls};

use super::site::{patient, run, store};
use crate::budget::Budget;

const HOUR: Duration = Duration::from_secs(3600);

/// How many wait for one key.
const WAITERS: usize = 10_000;

#[test]
fn ten_thousand_waiters_hold_no_connection() {
    run(async {
        let (url, scratch) = scratch().await;
        let url = format!("{url}&connections=2&application_name={}", scratch.schema());
        let policy = Policy::default().on_busy(OnBusy::Wait(Duration::from_secs(60)));
        let node = || Engine::builder(store(&url)).policy(policy.clone()).build();
        let (holder, crowd) = (node(), node());
        let claim = begin(&holder, "wanted").await.expect_claim();
        let mut waiters = tokio::task::JoinSet::new();
        for _ in 0..WAITERS {
            let crowd = crowd.clone();
            waiters.spawn(async move { begin(&crowd, "wanted").await.expect_replay() });
        }
        // While they wait the store serves others, at once.
        let start = SystemClock.stopwatch();
        for number in 0..20 {
            let claim = begin(&crowd, &format!("other-{number}"))
                .await
                .expect_claim();
            claim.complete("served").await.expect("it is stored");
        }
        let others = SystemClock.stopwatch() - start;
        let connections = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}'",
            scratch.schema()
        );
        let connections: u64 = scratch.value(&connections).await.parse().expect("a number");
        claim.complete("paid").await.expect("it is stored");
        let mut answered = 0;
        while let Some(answer) = waiters.join_next().await {
            assert_eq!(answer.expect("nobody panics"), "paid");
            answered += 1;
        }
        assert_eq!(answered, WAITERS);
        // Two stores, each with two for calls, one that listens and one that keeps house.
        assert!(connections <= 8, "{connections} connections");
        assert!(others < Duration::from_secs(10), "others waited {others:?}");
        let note = format!(
            "{connections} connections in all; 20 others were served meanwhile in {others:.1?}"
        );
        println!("waiters, postgres: {WAITERS}; {note}");
        Tally::record(
            "waiters without a connection, postgres",
            WAITERS as u64,
            None,
            0,
            &note,
        );
    });
}

async fn begin(engine: &Engine, key: &str) -> onceward::Verdict {
    let key = Key::parse(key).expect("printable");
    let slot = Slot::new(Scope::new("crowd", "pay"), key);
    let verdict = engine.begin(&slot, Fingerprint::of(b"100")).await;
    verdict.expect("the store answers")
}

#[test]
fn a_strangers_transaction_holds_up_its_own_slot_and_no_other() {
    run(async {
        let (url, scratch) = scratch().await;
        let store = patient(&format!("{url}&connections=2"));
        let stranger = stranger(&scratch).await;
        let budget = Budget::seconds(6);
        let (mut rounds, mut slowest) = (0, Duration::ZERO);
        while budget.lasts() {
            slowest = slowest.max(held_row(&store, &stranger, &scratch, rounds).await);
            slowest = slowest.max(half_inserted_row(&store, &stranger, &scratch, rounds).await);
            rounds += 1;
        }
        let note = format!("99 others in the same batches took {slowest:.1?} at the most");
        println!("strangers, postgres: {rounds} rounds; {note}");
        Tally::record(
            "a slot held by a stranger, postgres",
            rounds * 2,
            None,
            0,
            &note,
        );
    });
}

/// Others are not to wait for the call's deadline.
const SOON: Duration = Duration::from_millis(2_500);

/// How many slots are written at once, and which of them the stranger holds.
const SLOTS: usize = 100;
const HELD: usize = 50;

async fn stranger(scratch: &Scratch) -> Client {
    let connected = tokio_postgres::connect(scratch.server(), NoTls).await;
    let (client, connection) = connected.expect("the server answers");
    tokio::spawn(connection);
    client
}

/// A stranger has locked a row that is to be replaced along with many others.
async fn held_row(
    store: &Arc<dyn Store>,
    stranger: &Client,
    scratch: &Scratch,
    round: u64,
) -> Duration {
    let slots: Vec<_> = (0..SLOTS)
        .map(|slot| records::slot(&format!("held-{round}-{slot}")))
        .collect();
    let claim = records::claimed(HOUR);
    let claims = slots
        .iter()
        .map(|slot| store.insert(*slot, &claim, Timestamp::NEVER));
    for reply in futures_util::future::join_all(claims).await {
        assert_eq!(reply.expect("it answers").value, Insert::Done);
    }
    let lock = format!(
        "BEGIN; SELECT 1 FROM {}.records WHERE slot = '\\x{}' FOR UPDATE",
        scratch.schema(),
        hex(slots[HELD])
    );
    stranger.batch_execute(&lock).await.expect("it is free");
    let done = records::rewritten(&records::completed(HOUR));
    let replacing = |at: usize| {
        let (store, done, slot, seen) = (store.clone(), done.clone(), slots[at], claim.fence);
        async move { store.replace(slot, seen, &done, Timestamp::NEVER).await }
    };
    held_up(stranger, replacing, &Swap::Done).await
}

/// A stranger has put a row into a slot that is to be filled along with many others, and has not
/// committed it.
async fn half_inserted_row(
    store: &Arc<dyn Store>,
    stranger: &Client,
    scratch: &Scratch,
    round: u64,
) -> Duration {
    let slots: Vec<_> = (0..SLOTS)
        .map(|slot| records::slot(&format!("new-{round}-{slot}")))
        .collect();
    let begin = format!(
        "BEGIN; INSERT INTO {}.records VALUES \
         ('\\x{}', gen_random_uuid(), 1, 0, 0, 'stranger', 'pay', '')",
        scratch.schema(),
        hex(slots[HELD])
    );
    stranger.batch_execute(&begin).await.expect("it is empty");
    let claim = records::claimed(HOUR);
    let inserting = |at: usize| {
        let (store, claim, slot) = (store.clone(), claim.clone(), slots[at]);
        async move { store.insert(slot, &claim, Timestamp::NEVER).await }
    };
    held_up(stranger, inserting, &Insert::Done).await
}

/// Writes to slots of which a stranger holds the one at [`HELD`], then lets it go. Returns how long
/// the others took.
async fn held_up<T, F>(stranger: &Client, write: impl Fn(usize) -> F, done: &T) -> Duration
where
    T: PartialEq + fmt::Debug + Send + 'static,
    F: Future<Output = Result<Reply<T>, Error>> + Send + 'static,
{
    let start = SystemClock.stopwatch();
    let held = tokio::spawn(write(HELD));
    let others = (0..SLOTS).filter(|at| *at != HELD).map(write);
    for reply in futures_util::future::join_all(others).await {
        assert_eq!(reply.expect("others go on").value, *done);
    }
    let took = SystemClock.stopwatch() - start;
    assert!(took < SOON, "others waited {took:?}");
    let gone = stranger.batch_execute("ROLLBACK").await;
    gone.expect("it is there");
    // It ends with the write, or with "nobody knows", and then it is one or the other: what the
    // stranger did never was.
    if let Ok(reply) = held.await.expect("it does not panic") {
        assert_eq!(reply.value, *done);
    }
    took
}

fn hex(slot: onceward::SlotId) -> String {
    slot.as_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
