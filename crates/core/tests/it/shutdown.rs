//! Shutting down: nothing new, what runs may end, and the rest is said to be unknown.

use std::time::Duration;

use onceward::testing::{Call, ExpectLost, ExpectRun, ExpectVerdict, Fault, World};
use onceward::{Done, Error, OnBusy, Reason, State, Verdict};
use tokio::sync::oneshot;

const SECOND: Duration = Duration::from_secs(1);

fn refusing() -> World {
    World::new().policy(|policy| policy.on_busy(OnBusy::Refuse))
}

#[tokio::test(start_paused = true)]
async fn an_idle_engine_shuts_down_at_once() {
    let world = World::new();
    world.complete("k1", "paid").await;
    assert_eq!(world.engine.shutdown(Duration::ZERO).await, []);
}

#[tokio::test(start_paused = true)]
async fn work_under_way_is_waited_for() {
    let world = World::new();
    let (finish, finished) = oneshot::channel::<()>();
    let caller = tokio::spawn({
        let world = world.clone();
        async move {
            let work = |_| async {
                finished.await.unwrap();
                Done::outcome("paid")
            };
            world.run("k1", work).await
        }
    });
    world.settle().await;
    let closing = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.shutdown(60 * SECOND).await }
    });
    world.pass(2 * SECOND).await;
    assert!(!closing.is_finished());
    finish.send(()).unwrap();
    assert_eq!(closing.await.unwrap(), []);
    assert_eq!(caller.await.unwrap().expect_first(), "paid");
}

#[tokio::test(start_paused = true)]
async fn a_claim_in_a_callers_hands_is_waited_for() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    let closing = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.shutdown(60 * SECOND).await }
    });
    world.pass(SECOND).await;
    assert!(!closing.is_finished());
    claim.complete("paid").await.unwrap();
    assert_eq!(closing.await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_others_may_find_unknown_is_not_held_any_more() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    assert!(claim.is_held());
    // The store marks it unknown, and its reply is still on the way.
    world.store.fail_next(Fault::NeverAnswered);
    let closing = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.shutdown(Duration::ZERO).await }
    });
    world.pass(SECOND).await;
    assert!(!closing.is_finished());
    assert!(!claim.is_held());
    assert_eq!(closing.await.unwrap(), [claim.id()]);
}

#[tokio::test(start_paused = true)]
async fn an_arrival_under_way_is_waited_for() {
    let world = World::new();
    world.engine.secret().await.unwrap();
    world.store.fail_next(Fault::Held);
    let arrival = world.arrive("k1");
    world.store.until_held().await;
    let closing = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.shutdown(60 * SECOND).await }
    });
    world.settle().await;
    world.store.release();
    let claim = arrival.await.unwrap().expect_claim();
    world.settle().await;
    assert!(!closing.is_finished());
    claim.complete("paid").await.unwrap();
    assert_eq!(closing.await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_claim_to_be_taken_back_is_waited_for() {
    let world = World::new();
    world.engine.secret().await.unwrap();
    world.store.fail_next(Fault::NeverAnswered);
    let arrival = world.arrive("k1");
    world.settle().await;
    let passing = tokio::spawn({
        let world = world.clone();
        async move { world.pass(30 * SECOND).await }
    });
    arrival.abort();
    assert_eq!(world.engine.shutdown(60 * SECOND).await, []);
    assert!(!passing.is_finished());
    assert_eq!(world.record("k1").await, None);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_marked_unknown_and_stays_so() {
    let world = refusing();
    let claim = world.begin("k1").await.expect_claim();
    let left = world.engine.shutdown(SECOND).await;
    assert_eq!(left, [claim.id()]);
    let marked = world.record("k1").await.unwrap();
    assert_eq!(marked.state, State::Unknown(Reason::SHUT_DOWN));
    assert_eq!(marked.mark, Some(claim.fence()));
    assert!(!claim.is_held());

    // The keeper does not write over what callers are told by now.
    world.pass(3 * world.policy.lease).await;
    assert_eq!(world.record("k1").await.unwrap(), marked);
    world.node().begin("k1").await.expect_unknown();
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_completes_after_the_shutdown_heals_its_record() {
    let world = refusing();
    let claim = world.begin("k1").await.expect_claim();
    world.engine.shutdown(SECOND).await;
    claim.complete("paid").await.unwrap();
    assert_eq!(world.node().begin("k1").await.expect_replay(), "paid");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_somebody_took_over_is_not_marked() {
    let world = refusing().effect(onceward::Effect::Keyed);
    let _late = world.begin("k1").await.expect_claim();
    world.clock.advance(world.policy.lease);
    let node = world.node();
    let second = node.begin("k1").await.expect_claim();
    world.engine.shutdown(SECOND).await;
    assert!(second.is_held());
    second.complete("second").await.unwrap();
    assert_eq!(node.begin("k1").await.expect_replay(), "second");
}

#[tokio::test(start_paused = true)]
async fn a_closed_engine_takes_no_arrivals_and_still_replays() {
    let world = World::new();
    world.complete("done", "paid").await;
    world.engine.shutdown(SECOND).await;
    let refused = world.try_begin("new").await;
    assert!(matches!(refused, Err(Error::Closing)), "{refused:?}");
    assert_eq!(world.record("new").await, None);
    assert_eq!(world.begin("done").await.expect_replay(), "paid");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_does_not_hold_the_shutdown_up() {
    let world = refusing();
    let mut claims = Vec::new();
    for key in ["k1", "k2", "k3"] {
        claims.push(world.begin(key).await.expect_claim());
    }
    world.store.set_down(true);
    let done = claims.remove(0);
    let pending = done.id();
    done.complete("paid").await.unwrap_err().expect_pending();

    // A store that does not even refuse: each call takes all the patience there is.
    world.store.set_down(false);
    world
        .store
        .fail_next_of(Call::Replace, 1_000, Fault::NeverApplied);
    let closing = world.engine.shutdown(SECOND);
    let left = tokio::time::timeout(10 * SECOND, closing).await.unwrap();
    assert_eq!(left.len(), 3);
    assert!(left.contains(&pending));

    // Its completion is not given up, nor marked as unknown.
    world.store.mend();
    world.pass(10 * SECOND).await;
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
}

#[tokio::test(start_paused = true)]
async fn waiters_get_their_answer_while_the_engine_drains() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    let waiter = world.arrive("k1");
    world.settle().await;
    let closing = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.shutdown(60 * SECOND).await }
    });
    world.settle().await;
    claim.complete("paid").await.unwrap();
    let Verdict::Replay(_) = waiter.await.unwrap() else {
        panic!("the outcome is there");
    };
    assert_eq!(closing.await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_takes_over_nothing_once_the_engine_ends() {
    let world = World::new().effect(onceward::Effect::Keyed);
    let _holder = world.begin("k1").await.expect_claim();
    let waiter = world.arrive("k1");
    world.settle().await;
    let left = world.engine.shutdown(SECOND).await;
    assert_eq!(left.len(), 1);
    world.pass(SECOND).await;
    assert!(waiter.is_finished(), "the waiter is told");
    let record = world.record("k1").await.unwrap();
    assert_eq!(record.attempt, 1, "nobody took over in a process that ends");
}
