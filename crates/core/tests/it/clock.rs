//! Clocks that step: neither leases nor retentions follow them.

use std::time::Duration;

use onceward::record::StateName;
use onceward::testing::{ExpectVerdict, World};
use onceward::{OnBusy, Pace};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

fn refusing() -> World {
    World::new().policy(|policy| policy.on_busy(OnBusy::Refuse))
}

#[tokio::test]
async fn a_clock_set_forward_lapses_no_lease() {
    let world = refusing();
    let claim = world.begin("k1").await.expect_claim();
    world.clock.step_forward(30 * DAY);
    assert!(claim.is_held());
    world.begin("k1").await.expect_busy();
    assert!(world.engine.sweep(100).await.unwrap().lapsed.is_empty());
    claim.complete("paid").await.unwrap();
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
}

#[tokio::test]
async fn a_clock_set_back_prolongs_no_lease() {
    let world = refusing();
    drop(world.begin("k1").await.expect_claim());
    world.clock.step_back(30 * DAY);
    world.clock.advance(world.policy.lease - SECOND);
    world.begin("k1").await.expect_busy();
    world.clock.advance(SECOND);
    world.begin("k1").await.expect_unknown();
}

#[tokio::test]
async fn a_clock_set_forward_expires_nothing_before_nine_tenths_of_its_time() {
    let world = refusing();
    world.complete("k1", "paid").await;
    world.clock.step_forward(30 * DAY);
    assert_eq!(world.engine.sweep(100).await.unwrap().removed, 0);
    let hour = DAY / 24;
    for _ in 0..21 {
        assert_eq!(world.begin("k1").await.expect_replay(), "paid");
        world.clock.advance(hour);
        assert_eq!(world.engine.sweep(100).await.unwrap().removed, 0);
    }
    // It does expire, somewhat early.
    world.clock.advance(3 * hour);
    assert_eq!(world.engine.sweep(100).await.unwrap().removed, 1);
}

#[tokio::test]
async fn a_clock_set_back_keeps_nothing_longer() {
    let world = refusing();
    world.complete("k1", "paid").await;
    world.clock.step_back(30 * DAY);
    world.clock.advance(world.policy.retention - SECOND);
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
    world.clock.advance(SECOND);
    world
        .begin("k1")
        .await
        .expect_claim()
        .release()
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn work_goes_on_while_the_clock_steps_to_and_fro() {
    let world = refusing();
    let _sweeper = world.engine.sweeper(Pace::default());
    let claim = world.begin("k1").await.expect_claim();
    for step in 0..20 {
        match step % 2 {
            0 => world.clock.step_forward(DAY),
            _ => world.clock.step_back(2 * DAY),
        }
        world.pass(world.policy.lease / 4).await;
        assert!(claim.is_held());
        world.node().begin("k1").await.expect_busy();
    }
    claim.complete("paid").await.unwrap();
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
}

#[tokio::test]
async fn fences_increase_whatever_the_clock_does() {
    let world = refusing().effect(onceward::Effect::Keyed);
    drop(world.begin("k1").await.expect_claim());
    let mut last = world.record("k1").await.unwrap().fence;
    for step in 0..10 {
        match step % 2 {
            0 => world.clock.step_back(DAY),
            _ => world.clock.step_forward(3 * DAY),
        }
        world.clock.advance(world.policy.lease);
        let claim = world.begin("k1").await.expect_claim();
        let record = world.record("k1").await.unwrap();
        assert_eq!(record.state.name(), StateName::Claimed);
        assert!(record.fence > last && claim.fence() == record.fence);
        last = record.fence;
    }
}
