//! Many callers with one key, on few connections and on several nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use onceward::{BoxError, OnBusy, Outcome, Policy, RunError};
use onceward_rig::postgres::Proxy;
use onceward_rig::postgres::proxy::Fault;
use onceward_stores::postgres::{Begun, Connections, Settings, Transactional};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::world::{InTx, World, open, payload};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_duplicates_on_two_connections_get_one_answer() {
    let world = Arc::new(World::new().await);
    let runs = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..50 {
        let (world, runs) = (world.clone(), runs.clone());
        callers.spawn(async move {
            let (world, runs) = (&*world, &*runs);
            let work = |tx: InTx| async move {
                let run = runs.fetch_add(1, Ordering::Relaxed);
                world.insert(&*tx, "k1", 1).await?;
                Ok::<_, BoxError>(Outcome::success(format!("run {run}")))
            };
            world
                .keys
                .run(&world.pool, &world.slot("k1"), payload(1), work)
                .await
        });
    }
    let answers = callers.join_all().await;
    for answer in answers {
        assert_eq!(answer.unwrap().outcome.body().unwrap(), "run 0");
    }
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert_eq!((world.charges().await, world.records().await), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_on_several_nodes_get_one_answer() {
    let world = &World::new().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let mut nodes = Vec::new();
    for _ in 0..4 {
        let store = open(&world.url).await;
        let keys = Transactional::new(&store, Policy::default()).await.unwrap();
        nodes.push(Arc::new((keys, Connections::new(store.settings(), 2))));
    }
    let insert = format!(
        "INSERT INTO {} (key, amount) VALUES ($1, 1)",
        world.table("ledger")
    );
    for round in 0..20 {
        let key = format!("k{round}");
        let mut callers = JoinSet::new();
        for at in 0..16 {
            let (node, runs, key) = (nodes[at % 4].clone(), runs.clone(), key.clone());
            let (slot, insert) = (world.slot(&key), insert.clone());
            callers.spawn(async move {
                let (runs, key, insert) = (&*runs, &key, &insert);
                let work = |tx: InTx| async move {
                    runs.fetch_add(1, Ordering::Relaxed);
                    tx.execute(insert, &[key]).await?;
                    Ok::<_, BoxError>(Outcome::success(format!("caller {at}")))
                };
                node.0.run(&node.1, &slot, payload(1), work).await
            });
        }
        let answers = callers.join_all().await;
        let first = answers[0].as_ref().unwrap().outcome.clone();
        for answer in answers {
            assert_eq!(answer.unwrap().outcome, first);
        }
        assert_eq!(world.charges().await, round + 1);
    }
    // Nobody even starts work that somebody else has done or is doing.
    assert_eq!(runs.load(Ordering::Relaxed), 20);
}

#[tokio::test]
async fn whoever_waits_holds_no_connection() {
    let world = &World::new().await;
    let (began, go_on) = (&Notify::new(), &Notify::new());
    let slot = world.slot("k1");
    let first = world
        .keys
        .run(&world.pool, &slot, payload(1), |tx| async move {
            began.notify_one();
            go_on.notified().await;
            world.insert(&*tx, "k1", 1).await?;
            Ok::<_, BoxError>(Outcome::success("first"))
        });
    // Of another node, so that it has to ask the database.
    let node = open(&world.url).await;
    let keys = Transactional::new(&node, Policy::default()).await.unwrap();
    let pool = Connections::new(node.settings(), 1);
    let second = async {
        began.notified().await;
        let work =
            async |_: InTx| -> Result<Outcome, BoxError> { panic!("somebody else is at it") };
        keys.run(&pool, &slot, payload(1), work).await
    };
    let others = async {
        // While the second waits, its only connection is free most of the time: each of these
        // needs it.
        for other in 0..20 {
            let key = format!("other-{other}");
            let work = |_: InTx| async move { Ok::<_, BoxError>(Outcome::success("other")) };
            keys.run(&pool, &world.slot(&key), payload(1), work)
                .await
                .unwrap();
        }
        go_on.notify_one();
    };
    let (first, second, ()) = tokio::join!(first, second, others);
    assert_eq!(first.unwrap().outcome.body().unwrap(), "first");
    let second = second.unwrap();
    assert_eq!(second.outcome.body().unwrap(), "first");
    assert!(second.replayed);
}

#[tokio::test]
async fn by_hand_a_duplicate_is_busy_and_finds_the_answer_after_the_commit() {
    let world = &World::new().await;
    let (slot, payload) = (world.slot("k1"), payload(1));
    let (mut one, mut two) = (
        world.pool.get().await.unwrap(),
        world.pool.get().await.unwrap(),
    );
    let first = one.transaction().await.unwrap();
    let Begun::Execute(work) = world.keys.begin(&first, &slot, &payload).await.unwrap() else {
        panic!("the slot is free");
    };
    let second = two.transaction().await.unwrap();
    let Begun::Busy(waiter) = world.keys.begin(&second, &slot, &payload).await.unwrap() else {
        panic!("somebody is at it");
    };
    second.rollback().await.unwrap();

    let completed = work
        .complete(&first, Outcome::success("first"))
        .await
        .unwrap();
    let waiting = tokio::spawn(waiter.wait());
    first.commit().await.unwrap();
    completed.announce();
    waiting.await.unwrap();
    let second = two.transaction().await.unwrap();
    let Begun::Replay(replay) = world.keys.begin(&second, &slot, &payload).await.unwrap() else {
        panic!("the work is done");
    };
    assert_eq!(replay.outcome.body().unwrap(), "first");
}

#[tokio::test]
async fn a_rollback_lets_the_next_one_in() {
    let world = &World::new().await;
    let (began, go_on) = (&Notify::new(), &Notify::new());
    let slot = world.slot("k1");
    let first = world
        .keys
        .run(&world.pool, &slot, payload(1), |tx| async move {
            world.insert(&*tx, "k1", 1).await?;
            began.notify_one();
            go_on.notified().await;
            Err::<Outcome, BoxError>("it failed".into())
        });
    let second = async {
        began.notified().await;
        go_on.notify_one();
        world.charge("k1", 1).await
    };
    let (first, second) = tokio::join!(first, second);
    assert!(matches!(first, Err(RunError::NotExecuted(_))));
    assert!(!second.unwrap().replayed);
    assert_eq!(world.charges().await, 1);
}

#[tokio::test]
async fn patience_ends() {
    let world = &World::new().await;
    let waits = Policy::default().on_busy(OnBusy::Wait(Duration::from_millis(50)));
    let refuses = Policy::default().on_busy(OnBusy::Refuse);
    let (slot, waits, refuses) = (&world.slot("k1"), &waits, &refuses);
    let run = world
        .keys
        .run(&world.pool, slot, payload(1), |tx| async move {
            for policy in [waits.clone(), refuses.clone()] {
                // In this process, and as if of another one.
                let elsewhere = Transactional::new(&world.store, policy.clone()).await?;
                for keys in [world.keys.with_policy(policy), elsewhere] {
                    let work = async |_: InTx| -> Result<Outcome, BoxError> {
                        panic!("somebody else is at it")
                    };
                    let waited = keys.run(&world.pool, slot, payload(1), work).await;
                    assert!(matches!(waited, Err(RunError::Busy(_))), "{waited:?}");
                }
            }
            world.insert(&*tx, "k1", 1).await?;
            Ok::<_, BoxError>(Outcome::success("first"))
        });
    run.await.unwrap();
}

#[tokio::test]
async fn a_commit_whose_reply_is_lost_happens_once() {
    let world = &World::new().await;
    let place = world.store.settings().place();
    let (server, _) = place.split_once('/').unwrap();
    let proxy = Proxy::start(server.parse().unwrap());
    let settings: Settings = proxy.url(&world.url).parse().unwrap();
    for round in 0..40 {
        let (key, proxy) = (&format!("k{round}"), &proxy);
        let pool = Connections::new(&settings, 1);
        // So that the write and the commit are all that is sent below.
        let other = |_: InTx| async { Ok::<_, BoxError>(Outcome::success("")) };
        let slot = world.slot(&format!("other-{round}"));
        world
            .keys
            .run(&pool, &slot, payload(1), other)
            .await
            .unwrap();
        let is_first = &AtomicBool::new(true);
        let work = |tx: InTx| async move {
            world.insert(&*tx, key, 1).await?;
            if is_first.swap(false, Ordering::Relaxed) {
                proxy.strike(match round % 4 {
                    0 => Fault::Cut,
                    1 => Fault::RequestDropped,
                    _ => Fault::ReplyDropped,
                });
            }
            Ok::<_, BoxError>(Outcome::success("done"))
        };
        let slot = world.slot(key);
        let answer = world
            .keys
            .run(&pool, &slot, payload(1), work)
            .await
            .unwrap();
        assert_eq!(answer.outcome.body().unwrap(), "done");
        let ledger = world.table("ledger");
        let charged = format!("SELECT count(*) FROM {ledger} WHERE key = '{key}'");
        assert_eq!(world.count(&charged).await, 1);
    }
}
