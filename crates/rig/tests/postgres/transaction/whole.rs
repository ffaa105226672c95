//! What must be one transaction is one, or nothing; and what nobody heard of is found out.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use onceward::{BoxError, OnBusy, Outcome, Policy, RunError, Timestamp};
use onceward_rig::postgres::proxy::{Fault, Proxy};
use onceward_stores::postgres::{
    Begun, Connections, Next, Settings, TransactionError, Transactional,
};
use tokio::sync::Notify;

use super::world::{InTx, World, open, payload};

/// A proxy in front of the world's server, and a pool of one connection through it.
fn through_a_proxy(world: &World) -> (Proxy, Connections) {
    let settings: tokio_postgres::Config = world.server().parse().unwrap();
    let tokio_postgres::config::Host::Tcp(host) = &settings.get_hosts()[0] else {
        panic!("the server is reached by TCP");
    };
    let target = format!("{host}:{}", settings.get_ports()[0]);
    let proxy = Proxy::start(target.parse().unwrap());
    let settings: Settings = proxy.url(&world.url).parse().unwrap();
    (proxy, Connections::new(&settings, 1))
}

#[tokio::test]
async fn a_record_that_is_gone_from_under_the_hold_takes_the_whole_transaction_with_it() {
    let world = &World::new().await;
    let refusing = Policy::default().on_busy(OnBusy::Refuse);
    let records = &world.store.settings().table("records");
    let work = |tx: InTx| async move {
        let name = tx.point_name().map(str::to_owned);
        world.insert(&*tx, "k1", 1).await?;
        let Some(_) = name else {
            return Ok(Next::reached("reserved", "r1"));
        };
        let remove = format!("DELETE FROM {records} WHERE tenant = 'acct_42'");
        assert_eq!(tx.execute(&remove, &[]).await?, 1);
        Ok::<_, BoxError>(Next::Done(Outcome::success("done")))
    };
    let keys = world.keys.with_policy(refusing);
    let slot = world.slot("k1");
    let run = keys.run(&world.pool, &slot, payload(1), work);
    let error = run.await.unwrap_err();
    assert!(matches!(error, RunError::Busy(_)), "{error:?}");
    // What was done up to the point, and the point.
    assert_eq!((world.charges().await, world.records().await), (1, 1));
}

#[tokio::test]
async fn a_client_on_which_nothing_was_begun_is_refused() {
    let world = &World::new().await;
    let connection = world.pool.get().await.unwrap();
    let client: &tokio_postgres::Client = &connection;
    let (slot, payload) = (world.slot("k1"), payload(1));
    let begun = world.keys.begin(client, &slot, &payload);
    let error = begun.await.unwrap_err();
    assert!(matches!(error, TransactionError::Apart), "{error:?}");
    assert!(error.to_string().contains("one transaction"), "{error}");
}

#[tokio::test]
async fn completing_in_another_transaction_stores_nothing() {
    let world = &World::new().await;
    let (slot, payload) = (world.slot("k1"), payload(1));
    let connection = world.pool.get().await.unwrap();
    connection.batch_execute("BEGIN").await.unwrap();
    let Begun::Execute(work) = world
        .keys
        .begin(&*connection, &slot, &payload)
        .await
        .unwrap()
    else {
        panic!("the slot is free");
    };
    connection.batch_execute("COMMIT; BEGIN").await.unwrap();
    world.insert(&**connection, "k1", 1).await.unwrap();
    let error = work.complete(&*connection, Outcome::success("apart")).await;
    assert!(matches!(error, Err(TransactionError::Apart)), "{error:?}");
    connection.batch_execute("COMMIT").await.unwrap();
    assert_eq!((world.charges().await, world.records().await), (0, 0));
}

#[tokio::test]
async fn an_outcome_is_kept_from_its_completion_on_and_not_from_the_beginning() {
    let world = &World::new().await;
    let records = world.store.settings().table("records");
    let slot = world.slot("k1");
    let took = Duration::from_millis(400);
    let work = |tx: InTx| async move {
        let sleep = format!("SELECT pg_sleep({})", took.as_secs_f64());
        tx.batch_execute(&sleep).await?;
        Ok::<_, BoxError>(Outcome::success("done"))
    };
    let before = world
        .count("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        .await;
    let run = world.keys.run(&world.pool, &slot, payload(1), work);
    let answer = run.await.unwrap();

    let of_record = format!("FROM {records} WHERE operation = 'charge'");
    let written = world.count(&format!("SELECT written {of_record}")).await;
    // The server's time as it is told here may be behind by as long as an answer takes.
    let least = before + i64::try_from(took.as_micros()).unwrap() / 2;
    assert!(least <= written, "{written} is before {least}");
    let retention = world.keys.policy().retention;
    let written = Timestamp::from_micros(written.unsigned_abs());
    assert_eq!(answer.expires, written + retention);
    let due = world.count(&format!("SELECT due {of_record}")).await;
    assert_eq!(
        Timestamp::from_micros(due.unsigned_abs()),
        written + retention
    );
}

#[tokio::test]
async fn work_that_ends_its_own_transaction_is_told_so_and_not_done_twice() {
    let world = &World::new().await;
    for (key, at) in [("k1", None), ("k2", Some("reserved"))] {
        let calls = &AtomicU32::new(0);
        let work = |tx: InTx| async move {
            let is_here = tx.point_name() == at;
            if !is_here {
                return Ok(Next::reached("reserved", "r1"));
            }
            calls.fetch_add(1, Ordering::Relaxed);
            tx.batch_execute("COMMIT").await?;
            Ok::<_, BoxError>(Next::Done(Outcome::success("done")))
        };
        let slot = world.slot(key);
        let run = world.keys.run(&world.pool, &slot, payload(1), work);
        let error = run.await.unwrap_err();
        let RunError::Unknown(unsettled) = &error else {
            panic!("{error:?}");
        };
        let reason = unsettled.reason.to_string();
        assert!(reason.contains("one transaction"), "{reason}");
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_commit_that_is_not_answered_is_pending_and_its_connection_is_not_used_again() {
    let world = &World::new().await;
    let (proxy, pool) = through_a_proxy(world);
    let store = open(&format!("{}&timeout=500ms", world.url)).await;
    let patient = Policy::default().on_busy(OnBusy::Wait(Duration::from_secs(1)));
    let keys = Transactional::new(&store, patient).await.unwrap();
    let charge = async |key: &str, strikes: bool| {
        let proxy = &proxy;
        let work = |tx: InTx| async move {
            world.insert(&*tx, key, 1).await?;
            if strikes {
                proxy.strike(Fault::HalfOpen);
            }
            Ok::<_, BoxError>(Outcome::success("done"))
        };
        keys.run(&pool, &world.slot(key), payload(1), work).await
    };
    // The first has its statements prepared, so that what hangs at the second is the commit.
    charge("k1", false).await.unwrap();
    let error = charge("k2", true).await.unwrap_err();
    assert!(matches!(error, RunError::Pending(_)), "{error:?}");
    assert!(proxy.struck() >= 1);
    let next = pool.get().await.unwrap();
    next.batch_execute("SELECT 1").await.unwrap();
}

#[tokio::test]
async fn a_connection_that_does_not_answer_the_begin_is_given_up_in_time() {
    // New connections hang where a statement is prepared, used ones at the beginning itself.
    for is_new in [true, false] {
        let world = &World::new().await;
        let (proxy, pool) = through_a_proxy(world);
        let store = open(&format!("{}&timeout=500ms", world.url)).await;
        let keys = Transactional::new(&store, Policy::default()).await.unwrap();
        let charge = async |key: &str| {
            let work = |tx: InTx| async move {
                world.insert(&*tx, key, 1).await?;
                Ok::<_, BoxError>(Outcome::success("done"))
            };
            keys.run(&pool, &world.slot(key), payload(1), work).await
        };
        match is_new {
            true => drop(pool.get().await.unwrap()),
            false => drop(charge("k0").await.unwrap()),
        }
        let before = world.charges().await;
        proxy.strike(Fault::HalfOpen);
        let error = charge("k1").await.unwrap_err();
        assert!(matches!(error, RunError::Engine(_)), "{error:?}");
        charge("k1").await.unwrap();
        assert_eq!(world.charges().await, before + 1);
    }
}

#[tokio::test]
async fn a_future_that_is_dropped_while_it_begins_leaves_the_slot_free() {
    let world = &World::new().await;
    world.charge("k0", 1).await.unwrap();
    let slot = world.slot("k1");
    let work = async |_: InTx| -> Result<Outcome, BoxError> { panic!("it is gone by then") };
    let run = world.keys.run(&world.pool, &slot, payload(1), work);
    // Polled once: the message is on its way, and nobody hears the answer.
    assert!(Box::pin(run).now_or_never().is_none());
    // Not on that connection, to which its own lock would be no obstacle.
    let _dropped = world.pool.get().await.unwrap();
    let answer = world.charge("k1", 1).await.unwrap();
    assert!(!answer.replayed);
    assert_eq!(world.charges().await, 2);
}

#[tokio::test]
async fn a_phase_whose_commit_was_not_heard_of_goes_on() {
    let world = &World::new().await;
    let (proxy, pool) = through_a_proxy(world);
    let (proxy, reserves) = (&proxy, &AtomicU32::new(0));
    // The first has its statements prepared, so that what is struck at the second is the commit.
    for (key, strikes) in [("k1", false), ("k2", true)] {
        let work = |tx: InTx| async move {
            assert_eq!(tx.attempt(), 1);
            world.insert(&*tx, key, 1).await?;
            if tx.point_name().is_some() {
                return Ok(Next::Done(Outcome::success("done")));
            }
            reserves.fetch_add(1, Ordering::Relaxed);
            if strikes {
                proxy.strike(Fault::ReplyDropped);
            }
            Ok::<_, BoxError>(Next::reached("reserved", "r1"))
        };
        let slot = world.slot(key);
        let run = world.keys.run(&pool, &slot, payload(1), work);
        let answer = run.await.unwrap();
        assert!(!answer.replayed);
    }
    assert_eq!((proxy.struck(), reserves.load(Ordering::Relaxed)), (1, 2));
    assert_eq!((world.charges().await, world.records().await), (4, 2));
}

#[tokio::test]
async fn only_so_many_wait_for_one_slot() {
    const WAITERS: usize = 10_000;
    let world = &World::new().await;
    let (began, end) = (&Notify::new(), &Notify::new());
    let work = |_: InTx| async move {
        began.notify_one();
        end.notified().await;
        Ok::<_, BoxError>(Outcome::success("done"))
    };
    let slot = &world.slot("k1");
    let run = || world.keys.run(&world.pool, slot, payload(1), work);
    let mut first = std::pin::pin!(run());
    tokio::select! {
        _ = &mut first => panic!("it waits"),
        () = began.notified() => {}
    }
    let mut waiting: FuturesUnordered<_> = (0..=WAITERS).map(|_| run()).collect();
    let refused = waiting.next().await.unwrap();
    let Err(RunError::Busy(busy)) = refused else {
        panic!("{refused:?}");
    };
    assert!(busy.crowded);
    drop(waiting);
    // Those who are gone are not counted any more.
    let mut late = std::pin::pin!(run());
    end.notify_one();
    let (first, late) = tokio::join!(first, &mut late);
    assert!(!first.unwrap().replayed && late.unwrap().replayed);
}
