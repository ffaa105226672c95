//! Keys inside the caller's own transaction.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod doubts;
mod duplicates;
mod opening;
mod outbox;
mod phases;
mod service;
#[cfg(feature = "sqlx")]
mod sqlx;
mod whole;
mod world;

use onceward::{BoxError, Effect, Engine, OnBusy, Outcome, Policy, RunError, Store as _, Verdict};
use onceward_stores::postgres::{Begun, Next, TransactionError, Transactional};

use world::{InTx, World, payload};

#[tokio::test]
async fn key_and_data_commit_together() {
    let world = &World::new().await;
    let answer = world.charge("k1", 100).await.unwrap();
    assert_eq!(answer.outcome.body().unwrap(), "charged 100");
    assert!(!answer.replayed);
    assert_eq!((world.charges().await, world.records().await), (1, 1));

    let again = world.charge("k1", 100).await.unwrap();
    assert_eq!(again.outcome, answer.outcome);
    assert_eq!(again.expires, answer.expires);
    assert!(again.replayed);
    assert_eq!(world.charges().await, 1);
}

#[tokio::test]
async fn an_error_rolls_both_back_and_leaves_the_key_free() {
    let world = &World::new().await;
    let slot = world.slot("k1");
    let run = world
        .keys
        .run(&world.pool, &slot, payload(5), |tx| async move {
            world.insert(&*tx, "k1", 5).await?;
            Err::<Outcome, BoxError>("no money".into())
        });
    let error = run.await.unwrap_err();
    assert!(matches!(&error, RunError::NotExecuted(error) if error.to_string() == "no money"));
    assert_eq!((world.charges().await, world.records().await), (0, 0));

    // Another payload is no mismatch: nothing remains of the first.
    world.charge("k1", 6).await.unwrap();
    assert_eq!(world.charges().await, 1);
}

#[tokio::test]
async fn a_failed_statement_that_the_work_hides_commits_nothing() {
    let world = &World::new().await;
    let slot = world.slot("k1");
    let run = world
        .keys
        .run(&world.pool, &slot, payload(5), |tx| async move {
            world.insert(&*tx, "k1", 5).await?;
            let _ = tx.batch_execute("SELECT 1/0").await;
            Ok::<_, BoxError>(Outcome::success("fine"))
        });
    assert!(matches!(run.await, Err(RunError::NotExecuted(_))));
    assert_eq!((world.charges().await, world.records().await), (0, 0));
}

#[tokio::test]
async fn a_constraint_that_fails_at_the_commit_commits_nothing() {
    let world = &World::new().await;
    world.charge("k1", 1).await.unwrap();
    let table = &world.table("unique_later");
    world
        .sql(&format!(
            "CREATE TABLE {table} (id int UNIQUE DEFERRABLE INITIALLY DEFERRED); \
             INSERT INTO {table} VALUES (1)"
        ))
        .await;
    let slot = world.slot("k2");
    let run = world
        .keys
        .run(&world.pool, &slot, payload(5), |tx| async move {
            let insert = format!("INSERT INTO {table} VALUES (1)");
            tx.batch_execute(&insert).await?;
            Ok::<_, BoxError>(Outcome::success("fine"))
        });
    assert!(matches!(run.await, Err(RunError::NotExecuted(_))));
    assert_eq!(world.records().await, 1);
}

#[tokio::test]
async fn a_future_that_is_dropped_is_rolled_back() {
    let world = &World::new().await;
    let slot = world.slot("k1");
    {
        let began = &tokio::sync::Notify::new();
        let run = world
            .keys
            .run(&world.pool, &slot, payload(5), |tx| async move {
                world.insert(&*tx, "k1", 5).await?;
                began.notify_one();
                std::future::pending::<Result<Outcome, BoxError>>().await
            });
        tokio::select! {
            _ = run => unreachable!("the work never ends"),
            () = began.notified() => {}
        }
    }
    world.charge("k1", 5).await.unwrap();
    assert_eq!((world.charges().await, world.records().await), (1, 1));
}

#[tokio::test]
async fn another_payload_is_a_mismatch() {
    let world = &World::new().await;
    world.charge("k1", 100).await.unwrap();
    assert!(matches!(
        world.charge("k1", 900).await,
        Err(RunError::Mismatch)
    ));
    assert_eq!(world.charges().await, 1);
}

#[tokio::test]
async fn by_hand_it_is_the_same() {
    let world = &World::new().await;
    let (slot, payload) = (world.slot("k1"), payload(7));
    let mut connection = world.pool.get().await.unwrap();

    // Rolled back: nothing remains.
    let tx = connection.transaction().await.unwrap();
    let Begun::Execute(work) = world.keys.begin(&tx, &slot, &payload).await.unwrap() else {
        panic!("the slot is free");
    };
    world.insert(&*tx, "k1", 7).await.unwrap();
    let completed = work.complete(&tx, Outcome::success("first")).await.unwrap();
    tx.rollback().await.unwrap();
    completed.announce();
    assert_eq!((world.charges().await, world.records().await), (0, 0));

    // A plain client of tokio-postgres with a plain transaction.
    let client: &mut tokio_postgres::Client = &mut connection;
    let tx = client.transaction().await.unwrap();
    let Begun::Execute(work) = world.keys.begin(&tx, &slot, &payload).await.unwrap() else {
        panic!("the slot is free");
    };
    assert_eq!((work.attempt(), work.key().as_str()), (1, "k1"));
    world.insert(&tx, "k1", 7).await.unwrap();
    let completed = work
        .complete(&tx, Outcome::success("second"))
        .await
        .unwrap();
    assert!(completed.kept().body);
    tx.commit().await.unwrap();
    completed.announce();

    let tx = client.transaction().await.unwrap();
    let Begun::Replay(replay) = world.keys.begin(&tx, &slot, &payload).await.unwrap() else {
        panic!("the work is done");
    };
    assert_eq!(replay.outcome.body().unwrap(), "second");
    assert_eq!((world.charges().await, world.records().await), (1, 1));
}

#[tokio::test]
async fn one_connection_serves_the_keys_of_several_schemas() {
    let (one, two) = (&World::new().await, &World::new().await);
    let mut connection = one.pool.get().await.unwrap();
    for world in [one, two, one, two] {
        let tx = connection.transaction().await.unwrap();
        let slot = world.slot("k1");
        match world.keys.begin(&tx, &slot, &payload(7)).await.unwrap() {
            Begun::Execute(work) => {
                world.insert(&*tx, "k1", 7).await.unwrap();
                let done = work.complete(&tx, Outcome::success("charged")).await;
                tx.commit().await.unwrap();
                done.unwrap().announce();
            }
            Begun::Replay(replay) => assert_eq!(replay.outcome.body().unwrap(), "charged"),
            other => panic!("{other:?}"),
        }
        assert_eq!((world.charges().await, world.records().await), (1, 1));
    }
}

#[tokio::test]
async fn an_engine_on_the_same_store_replays_what_a_transaction_did() {
    let world = &World::new().await;
    world.charge("k1", 100).await.unwrap();
    let engine = Engine::new(world.store.clone(), Policy::default());
    let verdict = engine.begin(&world.slot("k1"), payload(100)).await.unwrap();
    let Verdict::Replay(replay) = verdict else {
        panic!("the work is done");
    };
    assert_eq!(replay.outcome.body().unwrap(), "charged 100");
}

#[tokio::test]
async fn what_an_engine_claims_is_not_run_in_a_transaction() {
    let world = &World::new().await;
    let engine = Engine::new(
        world.store.clone(),
        Policy::default().lease(Policy::LEASE_MIN),
    );
    let claim = engine.begin(&world.slot("k1"), payload(100)).await.unwrap();
    let refusing = world
        .keys
        .with_policy(Policy::default().on_busy(OnBusy::Refuse));
    let run = async || {
        let work =
            async |_: InTx| -> Result<Outcome, BoxError> { panic!("somebody else has the slot") };
        refusing
            .run(&world.pool, &world.slot("k1"), payload(100), work)
            .await
    };
    assert!(matches!(run().await, Err(RunError::Busy(_))));

    // Nobody knows what became of opaque work whose holder fell silent, in no transaction either.
    drop((claim, engine));
    let unknown = loop {
        match run().await {
            Err(RunError::Busy(busy)) => tokio::time::sleep(busy.retry_after).await,
            other => break other,
        }
    };
    assert!(matches!(unknown, Err(RunError::Unknown(_))));
    assert_eq!(world.charges().await, 0);
}

#[tokio::test]
async fn a_claim_that_came_in_between_takes_the_whole_transaction_with_it() {
    let world = &World::new().await;
    let engine = &Engine::new(world.store.clone(), Policy::default());
    let refusing = Policy::default().on_busy(OnBusy::Refuse);
    let (keys, slot) = (world.keys.with_policy(refusing), &world.slot("k1"));
    let claims = &tokio::sync::Mutex::new(Vec::new());
    let work = |tx: InTx| async move {
        world.insert(&*tx, "k1", 1).await?;
        claims
            .lock()
            .await
            .push(engine.begin(slot, payload(1)).await?);
        Ok::<_, BoxError>(Outcome::success("done"))
    };
    let overtaken = keys.run(&world.pool, slot, payload(1), work).await;
    assert!(matches!(overtaken, Err(RunError::Busy(_))), "{overtaken:?}");
    assert!(matches!(claims.lock().await[..], [Verdict::Execute(_)]));
    assert_eq!(world.charges().await, 0);
}

#[tokio::test]
async fn an_outcome_is_forgotten_after_its_retention() {
    let world = &World::new().await;
    let policy = Policy::default().retention(std::time::Duration::from_millis(1));
    let keys = world.keys.with_policy(policy);
    for count in 1..=3 {
        let slot = world.slot("k1");
        let run = keys.run(&world.pool, &slot, payload(count), |tx| async move {
            world.insert(&*tx, "k1", 1).await?;
            Ok::<_, BoxError>(Outcome::success("done"))
        });
        let answer = run.await.unwrap();
        assert!(!answer.replayed);
        // The record is replaced, not added to.
        assert_eq!((world.charges().await, world.records().await), (count, 1));
        while world.store.get(world.id("k1").await).await.unwrap().now <= answer.expires {}
    }
}

#[tokio::test]
async fn the_effect_is_transactional_whatever_the_policy_says() {
    let world = &World::new().await;
    let keys = Transactional::new(&world.store, Policy::default().effect(Effect::Opaque)).await;
    assert_eq!(keys.unwrap().policy().effect, Effect::Transactional);
}

#[tokio::test]
async fn a_stricter_isolation_finds_out_when_it_completes() {
    let world = &World::new().await;
    let (slot, payload) = (world.slot("k1"), payload(7));
    let mut late = world.pool.get().await.unwrap();
    let builder = late.build_transaction();
    let serializable = tokio_postgres::IsolationLevel::RepeatableRead;
    let tx = builder.isolation_level(serializable).start().await.unwrap();
    // Its snapshot is from before the other one's commit.
    tx.query_one("SELECT 1", &[]).await.unwrap();
    world.charge("k1", 7).await.unwrap();

    let Begun::Execute(work) = world.keys.begin(&tx, &slot, &payload).await.unwrap() else {
        panic!("it does not see the record");
    };
    world.insert(&tx, "k1", 7).await.unwrap();
    let error = work
        .complete(&tx, Outcome::success("twice"))
        .await
        .unwrap_err();
    assert!(matches!(error, TransactionError::Overtaken(_)));
    tx.rollback().await.unwrap();
    assert_eq!((world.charges().await, world.records().await), (1, 1));
}

#[tokio::test]
async fn a_body_that_is_too_large_is_not_kept_but_the_work_is_done_once() {
    let world = &World::new().await;
    let keys = world.keys.with_policy(Policy::default().body_max(4));
    let run = async || {
        let work = |tx: InTx| async move {
            world.insert(&*tx, "k1", 1).await?;
            Ok::<_, BoxError>(Next::Done(Outcome::success("12345")))
        };
        keys.run(&world.pool, &world.slot("k1"), payload(1), work)
            .await
    };
    assert_eq!(run().await.unwrap().outcome.body().unwrap(), "12345");
    assert_eq!(run().await.unwrap().outcome.body(), None);
    assert_eq!(world.charges().await, 1);
}
