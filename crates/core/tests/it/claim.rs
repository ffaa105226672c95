//! Claims: how they are kept alive and lost.

use std::time::Duration;

use onceward::testing::{Call, ExpectLost, ExpectVerdict, Fault, World};
use onceward::{Duty, Effect, OnBusy, Reason};

const SECOND: Duration = Duration::from_secs(1);

fn refusing() -> World {
    World::new().policy(|policy| policy.on_busy(OnBusy::Refuse))
}

// --- keeping alive --------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn work_of_many_leases_stays_claimed() {
    let world = refusing();
    let claim = world.begin("k1").await.expect_claim();
    for _ in 0..10 {
        world.pass(world.policy.lease / 2).await;
        assert!(claim.is_held());
        world.node().begin("k1").await.expect_busy();
    }
    claim.complete("paid").await.unwrap();
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_renewed_every_third_of_its_lease() {
    for lease in [Duration::from_millis(300), 3 * SECOND, 30 * SECOND] {
        let world = refusing().policy(|policy| policy.lease(lease));
        let _claim = world.begin("k1").await.expect_claim();
        world.pass(10 * lease).await;
        let renewals = world.store.count_of(Call::Replace);
        assert!((24..=30).contains(&renewals), "{lease:?}: {renewals}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_lease_beside_a_long_one_is_renewed_in_time() {
    let world = refusing();
    let _long = world.begin("long").await.expect_claim();
    world.pass(SECOND).await;
    let hasty = world
        .clone()
        .policy(|policy| policy.lease(Duration::from_millis(100)));
    let short = hasty.begin("short").await.expect_claim();
    for _ in 0..50 {
        world.pass(Duration::from_millis(50)).await;
        assert!(short.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn the_keeper_follows_the_lease_again_after_it_was_idle() {
    let world = refusing().policy(|policy| policy.lease(Duration::from_millis(100)));
    for key in ["k1", "k2", "k3"] {
        let claim = world.begin(key).await.expect_claim();
        world.pass(SECOND).await;
        assert!(claim.is_held(), "{key}");
        claim.complete("paid").await.unwrap();
        world.pass(3 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn failed_renewals_are_made_up_for_within_the_lease() {
    let world = refusing();
    let claim = world.begin("k1").await.expect_claim();
    world.pass(world.policy.lease / 4).await;
    world.store.set_down(true);
    world.pass(world.policy.lease / 2).await;
    world.store.set_down(false);
    world.pass(2 * SECOND).await;
    world.pass(world.policy.lease / 2).await;
    assert!(claim.is_held());
    world.node().begin("k1").await.expect_busy();
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_never_answered_does_not_use_up_a_short_lease() {
    for fault in [Fault::NeverApplied, Fault::NeverAnswered] {
        let world = refusing().policy(|policy| policy.lease(3 * SECOND));
        let claim = world.begin("k1").await.expect_claim();
        world.store.fail_next(fault);
        for _ in 0..8 {
            world.pass(SECOND).await;
            assert!(claim.is_held(), "{fault:?}");
        }
        claim.complete("paid").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn renewal_stops_once_the_claim_is_lost() {
    let world = refusing().effect(Effect::Keyed);
    let late = world.begin("k1").await.expect_claim();
    world.clock.advance(world.policy.lease);
    let node = world.node();
    node.complete("k1", "second").await;
    let record = world.record("k1").await;

    world.pass(world.policy.lease).await;
    assert!(!late.is_held());
    let calls = world.store.count();
    world.pass(3 * world.policy.lease).await;
    assert_eq!(world.store.count(), calls);
    assert_eq!(world.record("k1").await, record);
}

#[tokio::test(start_paused = true)]
async fn a_claim_told_unknown_is_not_turned_back_into_a_running_one() {
    let world = refusing();
    let late = world.begin("k1").await.expect_claim();
    world.clock.advance(world.policy.lease);
    world.node().begin("k1").await.expect_unknown();
    world.pass(world.policy.lease).await;
    assert!(!late.is_held());
    world.node().begin("k1").await.expect_unknown();
}

#[tokio::test(start_paused = true)]
async fn a_dropped_claim_lapses() {
    let world = refusing();
    drop(world.begin("k1").await.expect_claim());
    world.pass(world.policy.lease - SECOND).await;
    world.begin("k1").await.expect_busy();
    world.pass(SECOND).await;
    assert_eq!(
        world.begin("k1").await.expect_unknown().reason,
        Reason::LAPSED
    );
}

#[tokio::test(start_paused = true)]
async fn a_claim_outlives_the_engine_it_came_from() {
    let world = refusing();
    let node = world.node();
    let claim = node.begin("k1").await.expect_claim();
    drop(node);
    world.pass(3 * world.policy.lease).await;
    assert!(claim.is_held());
    claim.complete("paid").await.unwrap();
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_dropped_leaves_nothing_behind() {
    let world = World::new();
    let holders = std::sync::Arc::strong_count(&world.store);
    let node = world.node();
    let claim = node.begin("k1").await.expect_claim();
    let waiter = node.arrive("k1");
    world.settle().await;
    drop(node);
    claim.complete("paid").await.unwrap();
    waiter.await.unwrap().expect_replay();
    drop(world.node().begin("k2").await.expect_claim());
    world.pass(SECOND).await;
    assert_eq!(std::sync::Arc::strong_count(&world.store), holders);
}

// --- lengths at their ends ------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn an_endless_lease_and_retention_are_no_overflow() {
    let world = refusing().policy(|policy| {
        let endless = policy.lease(Duration::MAX).retention(Duration::MAX);
        endless.unknown_retention(Duration::MAX)
    });
    let claim = world.begin("k1").await.expect_claim();
    world.pass(10 * SECOND).await;
    assert!(claim.is_held());
    assert_eq!(world.store.count_of(Call::Replace), 0, "nothing to renew");
    world.begin("k1").await.expect_busy();
    claim.reached("half", "").await.unwrap();
    claim.complete("paid").await.unwrap();
    world.clock.advance(Duration::from_secs(1 << 40));
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_nothing_is_never_held() {
    let world = refusing().policy(|mut policy| {
        policy.lease = Duration::ZERO;
        policy
    });
    let claim = world.begin("k1").await.expect_claim();
    assert!(!claim.is_held());
    world.begin("k1").await.expect_unknown();
    // Its holder may still say how it ended.
    claim.complete("paid").await.unwrap();
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
}

#[tokio::test]
async fn an_outcome_kept_for_no_time_is_forgotten_at_once() {
    let world = World::new().policy(|policy| policy.retention(Duration::ZERO));
    world.complete("k1", "paid").await;
    let again = world.begin("k1").await.expect_claim();
    assert_eq!(again.duty(), Duty::Execute);
}

// --- losing ---------------------------------------------------------------------------------

#[tokio::test]
async fn late_holder_cannot_overwrite_the_takeover() {
    let world = World::new().effect(Effect::Keyed);
    let late = world.begin("k1").await.expect_claim();
    world.clock.advance(world.policy.lease);
    world.complete("k1", "second").await;

    let lost = late.complete("first").await.unwrap_err();
    assert_eq!(lost.expect_lost().expect_replay(), "second");
}

#[tokio::test]
async fn a_late_holder_learns_that_its_successor_is_at_work() {
    let world = refusing().effect(Effect::Keyed);
    let late = world.begin("k1").await.expect_claim();
    world.clock.advance(world.policy.lease);
    let second = world.begin("k1").await.expect_claim();
    assert!(second.fence() > late.fence());
    assert_eq!(second.attempt(), 2);

    late.complete("first")
        .await
        .unwrap_err()
        .expect_lost()
        .expect_busy();
    second.complete("second").await.unwrap();
}

#[tokio::test]
async fn a_late_holder_cannot_release_or_abandon_its_successors_claim() {
    let world = refusing().effect(Effect::Keyed);
    for key in ["release", "abandon"] {
        let late = world.begin(key).await.expect_claim();
        world.clock.advance(world.policy.lease);
        let second = world.begin(key).await.expect_claim();
        let ended = match key {
            "release" => late.release().await,
            _ => late.abandon(Reason::new("timeout")).await,
        };
        ended.unwrap_err().expect_lost().expect_busy();
        second.complete("second").await.unwrap();
        assert_eq!(world.begin(key).await.expect_replay(), "second");
    }
}

#[tokio::test]
async fn a_late_completion_heals_its_own_unknown_record() {
    let world = World::new();
    let late = world.begin("k1").await.expect_claim();
    world.clock.advance(world.policy.lease);
    world.begin("k1").await.expect_unknown();
    late.complete("paid").await.unwrap();
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
}

#[tokio::test]
async fn a_late_release_frees_its_own_unknown_record() {
    let world = World::new();
    let late = world.begin("k1").await.expect_claim();
    world.clock.advance(world.policy.lease);
    world.begin("k1").await.expect_unknown();
    late.release().await.unwrap();
    assert_eq!(world.begin("k1").await.expect_claim().attempt(), 1);
}
