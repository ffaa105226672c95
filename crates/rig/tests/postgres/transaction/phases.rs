//! Work of several transactions, with recovery points between them.

use std::time::Duration;

use onceward::{BoxError, Outcome, Policy, Reason, RunError};
use onceward_stores::postgres::{Begun, Next, TransactionError};

use super::world::{InTx, World, payload};

/// Work of three phases, each of which leaves a row. `fails` names the one that fails.
async fn phase(world: &World, tx: InTx, fails: &str) -> Result<Next, BoxError> {
    let (name, next) = match tx.point_name() {
        None => ("reserve", Next::reached("reserved", "r1")),
        Some("reserved") => ("charge", Next::reached("charged", "c1")),
        Some("charged") => ("ship", Next::Done(Outcome::success("shipped"))),
        Some(other) => panic!("{other} is no point of this work"),
    };
    world.insert(&*tx, name, 1).await?;
    match name == fails {
        true => Err(format!("{name} failed").into()),
        false => Ok(next),
    }
}

#[tokio::test]
async fn phases_commit_one_after_the_other() {
    let world = &World::new().await;
    for replayed in [false, true] {
        let work = |tx| phase(world, tx, "");
        let slot = world.slot("k1");
        let answer = world
            .keys
            .run(&world.pool, &slot, payload(1), work)
            .await
            .unwrap();
        assert_eq!(answer.outcome.body().unwrap(), "shipped");
        assert_eq!(answer.replayed, replayed);
    }
    assert_eq!((world.charges().await, world.records().await), (3, 1));
}

#[tokio::test]
async fn the_next_caller_goes_on_after_the_last_point() {
    let world = &World::new().await;
    // With a point behind it, a failure speaks for its own transaction alone.
    for (fails, charges, is_whole) in [
        ("reserve", 0, true),
        ("charge", 1, false),
        ("ship", 2, false),
        ("ship", 2, false),
    ] {
        let work = |tx| phase(world, tx, fails);
        let slot = world.slot("k1");
        let error = world
            .keys
            .run(&world.pool, &slot, payload(1), work)
            .await
            .unwrap_err();
        match is_whole {
            true => assert!(matches!(error, RunError::NotExecuted(_)), "{error}"),
            false => assert!(matches!(error, RunError::Unknown(_)), "{error}"),
        }
        assert_eq!(world.charges().await, charges);
    }
    let work = |tx: InTx| async move {
        assert_eq!(tx.point().unwrap().data, "c1");
        assert!(tx.attempt() > 1);
        phase(world, tx, "").await
    };
    let slot = world.slot("k1");
    let answer = world
        .keys
        .run(&world.pool, &slot, payload(1), work)
        .await
        .unwrap();
    assert_eq!(answer.outcome.body().unwrap(), "shipped");
    assert_eq!((world.charges().await, world.records().await), (3, 1));
}

#[tokio::test]
async fn a_holder_that_vanished_between_two_phases_is_taken_over_once_its_lease_has_lapsed() {
    let world = &World::new().await;
    let keys = world
        .keys
        .with_policy(Policy::default().lease(Duration::from_millis(300)));
    let (slot, payload) = (world.slot("k1"), payload(1));
    let mut connection = world.pool.get().await.unwrap();
    let tx = connection.transaction().await.unwrap();
    let Begun::Execute(work) = keys.begin(&tx, &slot, &payload).await.unwrap() else {
        panic!("the slot is free");
    };
    let mut vanished = work.reached(&tx, "reserved", "r1").await.unwrap();
    tx.commit().await.unwrap();
    vanished.renew().await.unwrap();

    // While the lease lives, others wait for it.
    let tx = connection.transaction().await.unwrap();
    let Begun::Busy(waiter) = keys.begin(&tx, &slot, &payload).await.unwrap() else {
        panic!("its lease lives");
    };
    assert!(waiter.retry_after().unwrap() <= Duration::from_millis(300));
    tx.rollback().await.unwrap();
    let other = |tx: InTx| async move {
        assert_eq!((tx.attempt(), tx.point_name()), (2, Some("reserved")));
        world.insert(&*tx, "k1", 1).await?;
        Ok::<_, BoxError>(Outcome::success("second"))
    };
    let answer = keys.run(&world.pool, &slot, payload, other).await.unwrap();
    assert_eq!(answer.outcome.body().unwrap(), "second");

    // Whoever comes back finds that it is lost.
    let tx = connection.transaction().await.unwrap();
    let lost = vanished.resume(&tx).await.unwrap_err();
    assert!(matches!(lost, TransactionError::Lost));
    assert_eq!(world.charges().await, 1);
}

#[tokio::test]
async fn a_late_holder_goes_on_with_what_was_marked_unknown() {
    let world = &World::new().await;
    let (slot, payload) = (world.slot("k1"), payload(1));
    let keys = world
        .keys
        .with_policy(Policy::default().lease(Policy::LEASE_MIN));
    let mut connection = world.pool.get().await.unwrap();
    let tx = connection.transaction().await.unwrap();
    let Begun::Execute(work) = keys.begin(&tx, &slot, &payload).await.unwrap() else {
        panic!("the slot is free");
    };
    let late = work.reached(&tx, "reserved", "r1").await.unwrap();
    tx.commit().await.unwrap();
    // The sweeper marks lapsed claims unknown; the mark of their holder stays.
    let engine = onceward::Engine::new(world.store.clone(), Policy::default());
    while engine.sweep(100).await.unwrap().lapsed.is_empty() {
        tokio::time::sleep(Policy::LEASE_MIN).await;
    }
    let tx = connection.transaction().await.unwrap();
    let work = late.resume(&tx).await.unwrap();
    let completed = work.complete(&tx, Outcome::success("late")).await.unwrap();
    tx.commit().await.unwrap();
    completed.announce();
    assert_eq!(world.records().await, 1);
}

#[tokio::test]
async fn work_that_is_abandoned_at_a_point_goes_on_at_once() {
    let world = &World::new().await;
    let (slot, payload) = (world.slot("k1"), payload(1));
    let mut connection = world.pool.get().await.unwrap();
    let tx = connection.transaction().await.unwrap();
    let Begun::Execute(work) = world.keys.begin(&tx, &slot, &payload).await.unwrap() else {
        panic!("the slot is free");
    };
    let paused = work.reached(&tx, "reserved", "r1").await.unwrap();
    tx.commit().await.unwrap();
    paused
        .abandon(Reason::new("another service is away"))
        .await
        .unwrap();

    let tx = connection.transaction().await.unwrap();
    let Begun::Execute(work) = world.keys.begin(&tx, &slot, &payload).await.unwrap() else {
        panic!("nobody is at it");
    };
    assert_eq!(work.point_name(), Some("reserved"));
}
