//! Recovery points: stages of the work that need not be repeated.

use onceward::record::Point;
use onceward::testing::{ExpectRun, ExpectVerdict, World};
use onceward::{Done, Duty, PointError, Reason, State};

#[tokio::test]
async fn a_take_over_goes_on_after_the_point_even_of_opaque_work() {
    let world = World::new();
    let first = world.begin("k1").await.expect_claim();
    assert!(first.resumed().is_none());
    first.reached("reserved", "seat 12").await.unwrap();
    drop(first);
    world.clock.advance(world.policy.lease);

    let second = world.begin("k1").await.expect_claim();
    assert_eq!((second.attempt(), second.duty()), (2, Duty::Repeat));
    let resumed = second.resumed().unwrap();
    assert_eq!(
        (&*resumed.name, &resumed.data[..]),
        ("reserved", &b"seat 12"[..])
    );
    second.complete("booked").await.unwrap();
    assert_eq!(world.begin("k1").await.expect_replay(), "booked");
    assert!(world.record("k1").await.unwrap().point.is_none());
}

#[tokio::test]
async fn the_last_point_counts() {
    let world = World::new();
    let first = world.begin("k1").await.expect_claim();
    for stage in ["one", "two", "three"] {
        first.reached(stage, stage).await.unwrap();
    }
    first.abandon(Reason::new("timeout")).await.unwrap();
    let second = world.begin("k1").await.expect_claim();
    assert_eq!(&*second.resumed().unwrap().name, "three");
}

#[tokio::test]
async fn a_point_starts_the_lease_anew() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    world.clock.advance(world.policy.lease * 2 / 3);
    claim.reached("half", "").await.unwrap();
    world.clock.advance(world.policy.lease * 2 / 3);
    assert!(claim.is_held());
}

#[tokio::test]
async fn points_are_limited_in_size() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    let largest = vec![7; Point::DATA_MAX];
    claim
        .reached(&"n".repeat(Point::NAME_MAX), largest.clone())
        .await
        .unwrap();
    for (name, data) in [
        ("n".to_owned(), [&largest[..], b"!"].concat()),
        ("n".repeat(Point::NAME_MAX + 1), Vec::new()),
        (String::new(), Vec::new()),
    ] {
        let refused = claim.reached(&name, data).await;
        assert!(matches!(refused, Err(PointError::TooLarge)));
    }
}

#[tokio::test]
async fn a_lost_claim_records_no_point() {
    let world = World::new();
    let late = world.begin("k1").await.expect_claim();
    world.clock.advance(world.policy.lease);
    world.begin("k1").await.expect_unknown();

    let lost = late.reached("half", "").await;
    assert!(matches!(lost, Err(PointError::Lost)), "{lost:?}");
    // Callers were told that nobody knows, and that stays so.
    world.begin("k1").await.expect_unknown();
    assert!(!late.is_held());
}

#[tokio::test(start_paused = true)]
async fn no_point_is_recorded_after_the_end() {
    let world = World::new();
    let (attempts, mut kept) = tokio::sync::mpsc::unbounded_channel();
    let work = |attempt| async move {
        attempts.send(attempt).unwrap();
        Done::outcome("paid")
    };
    world.run("k1", work).await.expect_first();
    let before = world.record("k1").await;
    let attempt = kept.recv().await.unwrap();
    let late = attempt.reached("half", "").await;
    assert!(matches!(late, Err(PointError::Lost)), "{late:?}");
    assert_eq!(world.record("k1").await, before);
}

#[tokio::test]
async fn work_that_did_not_happen_past_a_point_is_not_called_free() {
    let world = World::new();
    let run = world.run("k1", |attempt| async move {
        attempt.reached("reserved", "").await.unwrap();
        Done::not_executed("connection refused")
    });
    let unsettled = run.await.expect_unknown();
    assert_eq!(unsettled.reason, Reason::EARLIER_ATTEMPT);
    let record = world.record("k1").await.unwrap();
    assert_eq!(record.state, State::Unknown(Reason::EARLIER_ATTEMPT));
}
