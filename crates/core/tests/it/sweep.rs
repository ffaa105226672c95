//! Sweeping: what is due goes, what nobody knows stays.

use std::time::Duration;

use onceward::record::StateName;
use onceward::testing::{Call, ExpectVerdict, Fault, World};
use onceward::{By, Effect, OnBusy, Pace, Reason, State, Verdict};

const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

fn refusing() -> World {
    World::new().policy(|policy| policy.on_busy(OnBusy::Refuse))
}

#[tokio::test]
async fn expired_outcomes_are_removed_and_younger_ones_stay() {
    let world = World::new();
    world.complete("old", "paid").await;
    world.clock.advance(world.policy.retention / 2);
    world.complete("young", "paid").await;
    assert_eq!(world.engine.sweep(100).await.unwrap().removed, 0);
    world.clock.advance(world.policy.retention / 2 + SECOND);
    assert_eq!(world.engine.sweep(100).await.unwrap().removed, 1);
    assert_eq!(world.record("old").await, None);
    assert_eq!(world.begin("young").await.expect_replay(), "paid");
}

#[tokio::test]
async fn claims_and_unknown_records_are_never_removed() {
    let world = refusing();
    let late = world.begin("claimed").await.expect_claim();
    let claim = world.begin("unknown").await.expect_claim();
    claim.abandon(Reason::new("timeout")).await.unwrap();
    for _ in 0..3 {
        world.clock.advance(YEAR);
        assert_eq!(world.engine.sweep(100).await.unwrap().removed, 0);
    }
    world.begin("unknown").await.expect_unknown();
    world.begin("claimed").await.expect_unknown();
    late.complete("paid").await.unwrap();
    assert_eq!(world.begin("claimed").await.expect_replay(), "paid");
}

#[tokio::test]
async fn unknown_records_go_where_the_rules_say_so() {
    let world = World::new().policy(|policy| policy.unknown_retention(SECOND));
    let claim = world.begin("k1").await.expect_claim();
    claim.abandon(Reason::new("timeout")).await.unwrap();
    world.clock.advance(2 * SECOND);
    assert_eq!(world.engine.sweep(100).await.unwrap().removed, 1);
}

#[tokio::test]
async fn lapsed_claims_are_marked_unknown_whatever_their_class() {
    for effect in [Effect::Opaque, Effect::Keyed, Effect::Probed] {
        let world = refusing().effect(effect);
        drop(world.begin("k1").await.expect_claim());
        let claimed = world.record("k1").await.unwrap();
        world.clock.advance(world.policy.lease + SECOND);
        let swept = world.engine.sweep(100).await.unwrap();
        assert_eq!(swept.lapsed.len(), 1);
        let marked = world.record("k1").await.unwrap();
        assert_eq!(marked.state, State::Unknown(Reason::LAPSED));
        assert_eq!(marked.mark, claimed.mark);
        assert!(world.engine.sweep(100).await.unwrap().lapsed.is_empty());
    }
}

#[tokio::test]
async fn a_live_claim_is_not_marked() {
    let world = refusing();
    let _claim = world.begin("k1").await.expect_claim();
    world
        .clock
        .advance(world.policy.lease - Duration::from_micros(1));
    assert!(world.engine.sweep(100).await.unwrap().lapsed.is_empty());
    world.begin("k1").await.expect_busy();
}

#[tokio::test(start_paused = true)]
async fn a_claim_renewed_or_completed_as_it_is_swept_is_left_alone() {
    for way in ["renewed", "completed"] {
        let world = refusing();
        let claim = world.begin("k1").await.expect_claim();
        world.clock.advance(world.policy.lease + SECOND);
        // The sweeper has seen that it lapsed, and is about to mark it.
        world.store.fail_at(world.store.count() + 2, Fault::Held);
        let sweeping = tokio::spawn({
            let engine = world.engine.clone();
            async move { engine.sweep(100).await }
        });
        // The keeper renews on its own as soon as it looks.
        world.store.until_held().await;
        if way == "completed" {
            claim.complete("paid").await.unwrap();
            world.store.release();
            assert_eq!(sweeping.await.unwrap().unwrap().lapsed.len(), 1);
            assert_eq!(world.begin("k1").await.expect_replay(), "paid");
            continue;
        }
        world.settle().await;
        world.store.release();
        sweeping.await.unwrap().unwrap();
        let record = world.record("k1").await.unwrap();
        assert_eq!(record.state.name(), StateName::Claimed);
        assert!(claim.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_record_claimed_as_it_is_swept_is_left_alone() {
    let world = refusing();
    world.complete("k1", "paid").await;
    world.clock.advance(world.policy.retention + SECOND);
    world.store.fail_next(Fault::Held);
    let sweeping = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.sweep(100).await }
    });
    world.store.until_held().await;
    let claim = world.begin("k1").await.expect_claim();
    world.store.release();
    assert_eq!(sweeping.await.unwrap().unwrap().removed, 0);
    claim.complete("paid again").await.unwrap();
    assert_eq!(world.begin("k1").await.expect_replay(), "paid again");
}

#[tokio::test]
async fn a_step_looks_at_no_more_than_it_may_and_says_that_there_is_more() {
    let world = World::new().policy(|policy| policy.retention(SECOND));
    for key in ["k1", "k2", "k3", "k4", "k5"] {
        world.complete(key, "paid").await;
    }
    world.clock.advance(2 * SECOND);
    let mut steps = Vec::new();
    loop {
        let swept = world.engine.sweep(2).await.unwrap();
        steps.push(swept.removed);
        if !swept.more {
            break;
        }
    }
    assert!(steps.iter().all(|removed| *removed <= 2), "{steps:?}");
    assert_eq!(steps.iter().sum::<usize>(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_sweeper_sweeps_until_it_is_dropped() {
    let world = refusing();
    world.complete("old", "paid").await;
    drop(world.begin("silent").await.expect_claim());
    let sweeper = world.engine.sweeper(Pace::default());
    world.clock.advance(world.policy.retention + SECOND);
    world.pass(2 * SECOND).await;
    assert_eq!(world.record("old").await, None);
    let silent = world.record("silent").await.unwrap();
    assert_eq!(silent.state.name(), StateName::Unknown);

    drop(sweeper);
    world.settle().await;
    let sweeps = world.store.count_of(Call::Sweep);
    world.pass(10 * SECOND).await;
    assert_eq!(world.store.count_of(Call::Sweep), sweeps);
}

#[tokio::test(start_paused = true)]
async fn a_sweeper_goes_on_after_the_store_was_away_and_ends_with_its_engine() {
    let world = refusing();
    let node = world.node();
    world.complete("old", "paid").await;
    world.clock.advance(world.policy.retention + SECOND);
    world.store.set_down(true);
    let _sweeper = node.engine.sweeper(Pace::default());
    world.pass(3 * SECOND).await;
    world.store.set_down(false);
    world.pass(3 * SECOND).await;
    assert_eq!(world.record("old").await, None);

    drop(node);
    world.pass(2 * SECOND).await;
    let sweeps = world.store.count_of(Call::Sweep);
    world.pass(10 * SECOND).await;
    assert_eq!(world.store.count_of(Call::Sweep), sweeps);
}

#[tokio::test(start_paused = true)]
async fn waiters_are_woken_when_the_sweeper_marks_their_slot() {
    let world = World::new().policy(|policy| policy.on_busy(OnBusy::Wait(60 * SECOND)));
    drop(world.begin("k1").await.expect_claim());
    let waiter = world.arrive("k1");
    world.settle().await;
    world.clock.advance(world.policy.lease + SECOND);
    world.node().engine.sweep(100).await.unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(waiter.is_finished());
    waiter.await.unwrap().expect_unknown();
}

// --- bodies that go before their records ----------------------------------------------------

fn shedding() -> World {
    let hour = Duration::from_secs(3600);
    World::new().policy(|policy| policy.retention(24 * hour).keep_body(hour))
}

#[tokio::test]
async fn a_body_goes_when_its_time_is_over_and_nothing_is_executed_again() {
    let world = shedding();
    let hour = Duration::from_secs(3600);
    world.complete("k1", "paid").await;
    let expires = world.record("k1").await.unwrap().expires();
    world.clock.advance(hour - SECOND);
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
    // Whether or not anybody has swept: what is over is over.
    world.clock.advance(2 * SECOND);
    for swept in [false, true] {
        let Verdict::Replay(replay) = world.begin("k1").await else {
            panic!("the record is kept for a day");
        };
        assert_eq!(replay.outcome.body(), None);
        assert_eq!(replay.expires, expires);
        if !swept {
            assert_eq!(world.engine.sweep(100).await.unwrap().lapsed.len(), 1);
            assert_eq!(world.engine.sweep(100).await.unwrap().lapsed.len(), 0);
            let record = world.record("k1").await.unwrap();
            assert_eq!(record.outcome().unwrap().kept_len(), 0);
            assert_eq!(record.state.name(), StateName::Completed);
        }
    }
    world.clock.advance(23 * hour);
    assert_eq!(world.engine.sweep(100).await.unwrap().removed, 1);
    drop(world.begin("k1").await.expect_claim());
}

#[tokio::test]
async fn an_extended_record_does_not_keep_its_body_for_longer() {
    let world = shedding();
    let (hour, by) = (
        Duration::from_secs(3600),
        By {
            who: "ops".into(),
            why: "under dispute".into(),
        },
    );
    for (key, age) in [("in time", hour / 2), ("late", hour + SECOND)] {
        world.complete(key, "paid").await;
        let body_until = world.record(key).await.unwrap().due();
        world.clock.advance(age);
        let slot = world.id(key).await;
        world.engine.extend(slot, 48 * hour, &by).await.unwrap();
        let record = world.record(key).await.unwrap();
        let kept = record.outcome_at(body_until).unwrap().body().is_some();
        assert!(!kept, "{key}");
        let before = body_until.before(Duration::from_micros(1));
        let kept = record.outcome_at(before).unwrap().body().is_some();
        assert_eq!(kept, key == "in time", "{key}");
    }
}

#[tokio::test]
async fn a_record_that_nobody_swept_in_time_goes_with_its_body() {
    let world = shedding();
    world.complete("k1", "paid").await;
    world.clock.advance(Duration::from_secs(25 * 3600));
    world.engine.sweep(100).await.unwrap();
    assert_eq!(world.record("k1").await, None);
}

#[tokio::test]
async fn a_body_that_is_kept_as_long_as_its_record_goes_with_it() {
    let day = Duration::from_secs(86_400);
    let world = World::new().policy(|policy| policy.retention(day).keep_body(day));
    world.complete("k1", "paid").await;
    let record = world.record("k1").await.unwrap();
    assert_eq!(record.state.name(), StateName::Completed);
    assert_eq!(record.due(), record.expires());
}
