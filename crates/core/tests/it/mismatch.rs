//! One key, one payload: in every state, before anything else is said.

use onceward::testing::{ExpectVerdict, World};
use onceward::{By, Fingerprint, OnBusy, Reason, Resolution, Verdict};

fn refusing() -> World {
    World::new().policy(|policy| policy.on_busy(OnBusy::Refuse))
}

#[tokio::test]
async fn another_payload_mismatches_while_the_first_is_running() {
    let world = refusing();
    let _claim = world.begin("k1").await.expect_claim();
    world.payload("pay 900").begin("k1").await.expect_mismatch();
    world.begin("k1").await.expect_busy();
}

#[tokio::test(start_paused = true)]
async fn another_payload_does_not_wait_to_be_told() {
    let world = World::new();
    let _claim = world.begin("k1").await.expect_claim();
    let before = world.store.count();
    world.payload("pay 900").begin("k1").await.expect_mismatch();
    assert_eq!(world.store.count(), before + 1);
}

#[tokio::test]
async fn another_payload_mismatches_after_the_lease_lapsed() {
    let world = refusing();
    drop(world.begin("k1").await.expect_claim());
    world.clock.advance(world.policy.lease);
    let before = world.record("k1").await;
    world.payload("pay 900").begin("k1").await.expect_mismatch();
    assert_eq!(world.record("k1").await, before, "a mismatch marks nothing");
}

#[tokio::test]
async fn another_payload_mismatches_when_the_work_is_done() {
    let world = refusing();
    world.complete("k1", "paid").await;
    for far in [false, true] {
        world.store.set_far(far);
        world.payload("pay 900").begin("k1").await.expect_mismatch();
    }
}

#[tokio::test]
async fn another_payload_mismatches_when_nobody_knows_and_when_it_is_open() {
    let world = refusing();
    let claim = world.begin("k1").await.expect_claim();
    let id = claim.id();
    claim.abandon(Reason::new("timeout")).await.unwrap();
    world.payload("pay 900").begin("k1").await.expect_mismatch();

    let by = By {
        who: "op".into(),
        why: "not in the ledger".into(),
    };
    let resolved = world.engine.resolve(id, Resolution::NotExecuted, &by);
    resolved.await.unwrap();
    world.payload("pay 900").begin("k1").await.expect_mismatch();
    world
        .begin("k1")
        .await
        .expect_claim()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn an_expired_record_binds_nobody() {
    let world = refusing();
    world.complete("k1", "paid").await;
    world.clock.advance(world.policy.retention);
    let other = world.payload("pay 900");
    other.complete("k1", "paid 900").await;
    world.begin("k1").await.expect_mismatch();
}

#[tokio::test]
async fn a_fingerprint_under_the_rules_before_is_accepted_where_it_is_given() {
    let world = refusing();
    world.complete("k1", "paid").await;

    let (slot, secret) = (world.slot("k1"), world.engine.secret().await.unwrap());
    let new = Fingerprint::builder(1).part(b"pay 100").finish();
    let arrival = world.engine.prepare(&slot, &new).await.unwrap();
    world
        .engine
        .admit(&arrival)
        .await
        .unwrap()
        .expect_mismatch();
    let both = arrival.clone().or(&world.fingerprint(), secret);
    let replayed = world.engine.admit(&both).await.unwrap();
    assert_eq!(replayed.expect_replay(), "paid");
    let neither = arrival.or(&Fingerprint::of(b"pay 900"), secret);
    world
        .engine
        .admit(&neither)
        .await
        .unwrap()
        .expect_mismatch();
}

#[tokio::test]
async fn a_take_over_under_new_rules_keeps_the_fingerprint_of_the_first() {
    let world = refusing().effect(onceward::Effect::Keyed);
    drop(world.begin("k1").await.expect_claim());
    world.clock.advance(world.policy.lease);

    let (slot, secret) = (world.slot("k1"), world.engine.secret().await.unwrap());
    let new = Fingerprint::builder(1).part(b"pay 100").finish();
    let arrival = world.engine.prepare(&slot, &new).await.unwrap();
    let both = arrival.or(&world.fingerprint(), secret);
    let Verdict::Execute(claim) = world.engine.admit(&both).await.unwrap() else {
        panic!("keyed work is taken over");
    };
    claim.complete("paid").await.unwrap();
    // A retry that knows only the old rules still finds it.
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
}
