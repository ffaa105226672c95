//! Looking before asking: what an arrival would get, and nothing written for it.

use onceward::testing::{Call, ExpectVerdict, World};
use onceward::{Arrival, Effect, OnBusy, Reason, Sight, Verdict};

async fn arrival(world: &World, key: &str) -> Arrival {
    let (slot, fingerprint) = (world.slot(key), world.fingerprint());
    world
        .engine
        .prepare(&slot, &fingerprint)
        .await
        .expect("the store answers")
}

/// What a look at `key` shows, which must not write.
async fn look(world: &World, key: &str) -> Sight {
    let arrival = arrival(world, key).await;
    let writes = || {
        let calls = [Call::Insert, Call::Replace, Call::Remove];
        calls.map(|call| world.store.count_of(call))
    };
    let before = writes();
    let sight = world
        .engine
        .look(&arrival)
        .await
        .expect("the store answers");
    assert_eq!(writes(), before);
    sight
}

#[tokio::test(start_paused = true)]
async fn a_look_shows_what_an_arrival_would_get() {
    let world = World::new();
    assert!(matches!(look(&world, "k").await, Sight::New));
    let claim = world.begin("k").await.expect_claim();
    assert!(matches!(look(&world, "k").await, Sight::Held));
    let other = world.payload("pay 200");
    let seen = look(&other, "k").await;
    assert!(matches!(seen, Sight::Verdict(Verdict::Mismatch)));
    claim.complete("paid").await.unwrap();
    let seen = look(&world, "k").await;
    assert!(matches!(seen, Sight::Verdict(Verdict::Replay(_))));
    let claim = world.begin("lost").await.expect_claim();
    claim.abandon(Reason::new("cut off")).await.unwrap();
    let seen = look(&world, "lost").await;
    assert!(matches!(seen, Sight::Verdict(Verdict::Unknown(_))));
}

#[tokio::test(start_paused = true)]
async fn work_that_would_be_gone_on_with_is_not_new() {
    let world = World::new().effect(Effect::Keyed);
    let claim = world.begin("k").await.expect_claim();
    claim.abandon(Reason::new("cut off")).await.unwrap();
    assert!(matches!(look(&world, "k").await, Sight::Resumed));
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_claim_is_left_to_whoever_is_admitted() {
    let world = World::new();
    drop(world.node().begin("k").await.expect_claim());
    world.pass(world.policy.lease * 2).await;
    assert!(matches!(look(&world, "k").await, Sight::Held));
    world.begin("k").await.expect_unknown();
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_at_once_does_not_wait() {
    let world = World::new();
    let arrival = arrival(&world, "k").await;
    let first = world.engine.admit_at_once(&arrival).await.unwrap();
    let claim = first.unwrap().expect_claim();
    assert!(
        world
            .engine
            .admit_at_once(&arrival)
            .await
            .unwrap()
            .is_none()
    );
    claim.complete("paid").await.unwrap();
    let replay = world.engine.admit_at_once(&arrival).await.unwrap();
    assert_eq!(replay.unwrap().expect_replay(), "paid");
}

#[tokio::test(start_paused = true)]
async fn nobody_who_asks_at_once_is_counted_as_refused() {
    let world = World::new().policy(|policy| policy.on_busy(OnBusy::Refuse));
    let arrival = arrival(&world, "k").await;
    let _claim = world.begin("k").await.expect_claim();
    assert!(
        world
            .engine
            .admit_at_once(&arrival)
            .await
            .unwrap()
            .is_none()
    );
    world.engine.admit(&arrival).await.unwrap().expect_busy();
}
