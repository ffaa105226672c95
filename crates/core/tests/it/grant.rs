//! Granting: one claim per slot, whatever becomes of the call that asked for it.

use std::time::Duration;

use onceward::record::StateName;
use onceward::testing::{Call, ExpectVerdict, Fault, World};
use onceward::{Duty, Effect, OnBusy};

const SECOND: Duration = Duration::from_secs(1);

fn refusing() -> World {
    World::new().policy(|policy| policy.on_busy(OnBusy::Refuse))
}

#[tokio::test]
async fn a_new_key_costs_one_call_of_the_store() {
    let world = World::new();
    world.engine.secret().await.unwrap();
    let before = world.store.count();
    let claim = world.begin("k1").await.expect_claim();
    assert_eq!(world.store.count(), before + 1);
    assert_eq!((claim.attempt(), claim.duty()), (1, Duty::Execute));
    claim.complete("paid").await.unwrap();
    assert_eq!(world.store.count(), before + 2);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_reply_was_lost_recognises_itself() {
    for fault in [Fault::LostReply, Fault::NeverAnswered] {
        let world = refusing();
        world.engine.secret().await.unwrap();
        world.store.fail_next(fault);
        let claim = world.begin("k1").await.expect_claim();
        assert_eq!(world.record("k1").await.unwrap().mark, Some(claim.fence()));
        assert_eq!(claim.attempt(), 1);
        world.begin("k1").await.expect_busy();
        claim.complete("paid").await.unwrap();
        assert_eq!(world.begin("k1").await.expect_replay(), "paid");
    }
}

#[tokio::test(start_paused = true)]
async fn a_take_over_whose_reply_was_lost_recognises_itself() {
    let world = World::new().effect(Effect::Keyed);
    drop(world.begin("k1").await.expect_claim());
    world.clock.advance(world.policy.lease);
    // First the insert that finds the record, then the replacement.
    world
        .store
        .fail_at(world.store.count() + 2, Fault::LostReply);
    let claim = world.begin("k1").await.expect_claim();
    assert_eq!((claim.attempt(), claim.duty()), (2, Duty::Repeat));
    claim.complete("paid").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_claim_asked_for_by_a_caller_that_left_is_taken_back() {
    for fault in [Fault::Held, Fault::NeverAnswered] {
        let world = refusing();
        world.engine.secret().await.unwrap();
        world.store.fail_next(fault);
        let arrival = world.arrive("k1");
        world.settle().await;
        arrival.abort();
        world.settle().await;
        world.store.release();
        world.pass(SECOND).await;
        assert_eq!(world.record("k1").await, None, "{fault:?}");
        world.complete("k1", "paid").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_take_over_asked_for_by_a_caller_that_left_becomes_unknown_again() {
    let world = refusing().effect(Effect::Keyed);
    drop(world.begin("k1").await.expect_claim());
    world.clock.advance(world.policy.lease);
    world.store.fail_at(world.store.count() + 2, Fault::Held);
    let arrival = world.arrive("k1");
    world.store.until_held().await;
    arrival.abort();
    world.settle().await;
    world.store.release();
    world.pass(SECOND).await;

    let record = world.record("k1").await.unwrap();
    assert_eq!(record.state.name(), StateName::Unknown);
    assert_eq!(record.attempt, 2);
    assert_eq!(world.begin("k1").await.expect_claim().attempt(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_lands_twice_is_taken_back_twice() {
    let world = refusing();
    world.engine.secret().await.unwrap();
    // The first try is on its way for long; the second one lands, and its caller leaves.
    let next = world.store.count() + 1;
    world.store.fail_at(next, Fault::Held);
    let arrival = world.arrive("k1");
    world.store.until_held().await;
    let patience = Duration::from_secs(5);
    world.store.fail_at(next + 1, Fault::NeverAnswered);
    tokio::time::sleep(patience + Duration::from_millis(100)).await;
    assert_eq!(
        world.store.count_of(Call::Insert),
        3,
        "secret and two tries"
    );
    arrival.abort();
    world.settle().await;
    world.pass(SECOND).await;
    assert_eq!(world.record("k1").await, None);

    world.store.release();
    world.pass(2 * SECOND).await;
    assert_eq!(
        world.record("k1").await,
        None,
        "nobody took the first one back"
    );
}

#[tokio::test(start_paused = true)]
async fn an_earlier_try_that_lands_after_a_rivals_release_is_taken_back() {
    let world = refusing();
    let rival = world.node();
    world.engine.secret().await.unwrap();
    let rivals = rival.begin("k1").await.expect_claim();
    // The first try is on its way when the second finds the rival.
    world.store.fail_next(Fault::Held);
    let arrival = world.arrive("k1");
    world.store.until_held().await;
    tokio::time::sleep(Duration::from_millis(5_100)).await;
    arrival.await.unwrap().expect_busy();
    rivals.release().await.unwrap();
    world.store.release();
    world.pass(2 * SECOND).await;
    assert_eq!(world.record("k1").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_full_after_a_lost_reply_keeps_no_orphan() {
    let world = refusing();
    world.engine.secret().await.unwrap();
    let next = world.store.count() + 1;
    world.store.fail_at(next, Fault::LostReply);
    world.store.fail_at(next + 1, Fault::Full);
    // Its own claim is a rival's as long as nobody has taken it back.
    world.begin("k1").await.expect_busy();
    world.pass(SECOND).await;
    assert_eq!(world.record("k1").await, None);
}

#[tokio::test(start_paused = true)]
async fn taking_back_leaves_what_an_operator_settled() {
    let world = refusing();
    world.engine.secret().await.unwrap();
    world.store.fail_next(Fault::NeverAnswered);
    let arrival = world.arrive("k1");
    world.settle().await;
    // Long before the keeper comes, the claim lapses and is settled.
    world.clock.advance(world.policy.lease);
    let by = onceward::By {
        who: "op".into(),
        why: "saw the payment".into(),
    };
    let resolution = onceward::Resolution::Completed("settled".into());
    let id = world.id("k1").await;
    world.engine.resolve(id, resolution, &by).await.unwrap();
    arrival.abort();
    world.pass(SECOND).await;
    assert_eq!(world.begin("k1").await.expect_replay(), "settled");
}

#[tokio::test(start_paused = true)]
async fn an_outage_leaves_a_bounded_number_of_claims_to_look_after() {
    let world = refusing();
    world.engine.secret().await.unwrap();
    world.store.set_down(true);
    for number in 0..3_000 {
        let key = format!("k{number}");
        let arrival = world.arrive(&key);
        world.settle().await;
        arrival.abort();
    }
    world.pass(5 * SECOND).await;
    let before = world.store.calls().len();
    world.pass(SECOND).await;
    let asked = world.store.calls().len() - before;
    assert!(asked <= 1_500, "{asked} calls in a second of an outage");
    world.store.set_down(false);
}
