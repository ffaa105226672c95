//! Looking before asking: what an arrival would get, and nothing written for it.

use onceward::testing::{Call, ExpectVerdict, World};
use onceward::{Arrival, Effect, Identity, OnBusy, Reason, Sight, Then, Verdict};

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
    look_at(world, &arrival(world, key).await).await
}

async fn look_at(world: &World, arrival: &Arrival) -> Sight {
    let writes = || {
        let calls = [Call::Insert, Call::Replace, Call::Remove];
        calls.map(|call| world.store.count_of(call))
    };
    let before = writes();
    let sight = world.engine.look(arrival).await.expect("the store answers");
    assert_eq!(writes(), before);
    sight
}

/// What whoever does not wait gets, if anything.
async fn at_once(world: &World, arrival: &Arrival) -> Option<Verdict> {
    let asked = world.engine.admit_at_once(arrival).await;
    asked.expect("the store answers")
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
    let claim = at_once(&world, &arrival).await.unwrap().expect_claim();
    assert!(at_once(&world, &arrival).await.is_none());
    claim.complete("paid").await.unwrap();
    let replay = at_once(&world, &arrival).await.unwrap();
    assert_eq!(replay.expect_replay(), "paid");
}

#[tokio::test(start_paused = true)]
async fn nobody_who_asks_at_once_is_counted_as_refused() {
    let world = World::new().policy(|policy| policy.on_busy(OnBusy::Refuse));
    let arrival = arrival(&world, "k").await;
    let _claim = world.begin("k").await.expect_claim();
    assert!(at_once(&world, &arrival).await.is_none());
    world.engine.admit(&arrival).await.unwrap().expect_busy();
}

#[tokio::test(start_paused = true)]
async fn a_look_shows_what_has_become_of_the_same_work_under_another_key() {
    let world = World::new();
    let order = |then| [Identity::unique("paid-order", "1001", then)];
    let see = async |then| {
        let secret = world.engine.secret().await.unwrap();
        let [order] = order(then);
        let arrival = arrival(&world, "new").await.under(order, secret);
        look_at(&world, &arrival).await
    };
    assert!(matches!(see(Then::Return).await, Sight::New));
    let claim = world.begin_as("k", &order(Then::Return)).await;
    let claim = claim.expect_claim();
    assert!(matches!(see(Then::Return).await, Sight::Held));
    claim.complete("paid").await.unwrap();
    let Sight::Verdict(verdict) = see(Then::Return).await else {
        panic!("the order is paid");
    };
    assert_eq!(verdict.expect_replay(), "paid");
    let Sight::Verdict(verdict) = see(Then::Refuse).await else {
        panic!("the order is paid");
    };
    verdict.expect_elsewhere();
    assert_eq!(world.record("new").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_look_at_the_same_work_leaves_a_lapsed_claim_and_tells_of_an_unknown_outcome() {
    let world = World::new();
    let order = || Identity::unique("paid-order", "1001", Then::Return);
    let see = async || {
        let secret = world.engine.secret().await.unwrap();
        let arrival = arrival(&world, "new").await.under(order(), secret);
        look_at(&world, &arrival).await
    };
    let node = world.node();
    drop(node.begin_as("k", &[order()]).await.expect_claim());
    world.pass(world.policy.lease * 2).await;
    assert!(matches!(see().await, Sight::Held));
    world.begin("k").await.expect_unknown();
    let seen = see().await;
    assert!(matches!(seen, Sight::Verdict(Verdict::Unknown(_))));
}
