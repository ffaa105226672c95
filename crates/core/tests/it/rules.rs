//! The eleven rules that hold everywhere, each with a test that fails when it is broken.
//!
//! The other files look closer at the same things.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use onceward::record::StateName;
use onceward::testing::{Call, ExpectLost, ExpectRun, ExpectVerdict, Fault, ManualClock, World};
use onceward::{Done, Engine, Error, OnBusy, Outcome, RunError, Secret, Verdict};
use tokio::sync::oneshot;

const HOUR: Duration = Duration::from_secs(3600);

// --- 1. No execution without a durable claim ------------------------------------------------

#[tokio::test(start_paused = true)]
async fn rule_1_nothing_is_executed_when_the_store_is_away_slow_or_unreadable() {
    for fault in [Fault::Error, Fault::NeverApplied, Fault::Unreadable] {
        let world = World::new();
        world.engine.secret().await.unwrap();
        for call in 1..1_000 {
            world.store.fail_at(world.store.count() + call, fault);
        }
        let run = world.run("k1", |_| async { panic!("executed without a claim") });
        let (answer, ()) = tokio::join!(run, world.pass(Duration::from_secs(15)));
        assert!(
            matches!(answer, Err(RunError::Engine(Error::Store(_)))),
            "{fault:?}: {answer:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn rule_1_a_claim_whose_reply_never_comes_is_not_executed() {
    let world = World::new();
    world.engine.secret().await.unwrap();
    for call in 1..1_000 {
        world
            .store
            .fail_at(world.store.count() + call, Fault::LostReply);
    }
    let (verdict, ()) = tokio::join!(world.try_begin("k1"), world.pass(Duration::from_secs(6)));
    assert!(matches!(verdict, Err(Error::Store(_))), "{verdict:?}");
}

// --- 2. Execution runs in a task of its own -------------------------------------------------

#[tokio::test(start_paused = true)]
async fn rule_2_a_caller_that_hangs_up_changes_nothing() {
    let world = World::new();
    let (finish, finished) = oneshot::channel::<()>();
    let (begun, has_begun) = oneshot::channel();
    let caller = tokio::spawn({
        let world = world.clone();
        async move {
            let work = |_| async {
                begun.send(()).unwrap();
                finished.await.unwrap();
                Done::outcome("paid")
            };
            world.run("k1", work).await
        }
    });
    has_begun.await.unwrap();
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());

    finish.send(()).unwrap();
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
}

// --- 3. No caller holds an answer that is not stored ----------------------------------------

#[tokio::test(start_paused = true)]
async fn rule_3_an_answer_that_is_not_stored_is_not_given() {
    let world = World::new();
    let store = world.store.clone();
    let run = world.run("k1", move |_| async move {
        store.set_down(true);
        Done::outcome("paid")
    });
    let (answer, ()) = tokio::join!(run, world.pass(Duration::from_secs(6)));
    answer.expect_pending();
}

// --- 4. The store tells the time ------------------------------------------------------------

#[tokio::test]
async fn rule_4_an_engine_whose_clock_is_wrong_judges_by_the_stores_clock() {
    let world = World::new().policy(|policy| policy.on_busy(OnBusy::Refuse));
    let wrong = Arc::new(ManualClock::new());
    wrong.advance(1_000 * HOUR);
    let engine = Engine::builder(world.store.clone())
        .policy(world.policy.clone())
        .clock(wrong)
        .build();
    let _claim = world.begin("k1").await.expect_claim();

    let verdict = engine.begin(&world.slot("k1"), world.fingerprint()).await;
    let busy = verdict.unwrap().expect_busy();
    assert_eq!(busy.retry_after, world.policy.lease);
}

#[tokio::test(start_paused = true)]
async fn rule_4_a_claim_that_arrives_too_late_changes_nothing() {
    let world = World::new();
    world.engine.secret().await.unwrap();
    world.store.fail_next(Fault::Held);
    let arrival = world.arrive("k1");
    world.store.until_held().await;
    arrival.abort();

    // The keeper has long stopped looking for it when it lands.
    world.pass(Duration::from_secs(10)).await;
    world.store.release();
    world.settle().await;
    assert_eq!(world.record("k1").await, None);
}

#[tokio::test(start_paused = true)]
async fn rule_4_a_holder_counts_its_lease_from_before_the_claim_was_sent() {
    let world = World::new();
    world.engine.secret().await.unwrap();
    world.store.fail_next(Fault::Held);
    let arrival = world.arrive("k1");
    world.store.until_held().await;
    world.clock.advance(Duration::from_secs(4));
    world.store.release();
    let claim = arrival.await.unwrap().expect_claim();

    // A tenth is left out, because the store's clock may run that much faster for a while.
    let left = world.policy.lease * 9 / 10 - Duration::from_secs(4);
    world.clock.advance(left - Duration::from_millis(1));
    assert!(claim.is_held());
    world.clock.advance(Duration::from_millis(1));
    assert!(!claim.is_held(), "counted from when the reply came");
}

// --- 5. Retention starts when the work ends -------------------------------------------------

#[tokio::test]
async fn rule_5_an_outcome_is_kept_from_the_end_of_the_work() {
    let world = World::new().policy(|policy| policy.lease(48 * HOUR));
    let claim = world.begin("k1").await.expect_claim();
    world.clock.advance(25 * HOUR);
    claim.complete("paid").await.unwrap();

    world
        .clock
        .advance(world.policy.retention - Duration::from_micros(1));
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
    world.clock.advance(Duration::from_micros(1));
    world
        .begin("k1")
        .await
        .expect_claim()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn rule_5_an_answer_too_large_to_keep_is_never_executed_again() {
    let world = World::new().policy(|policy| policy.body_max(4));
    let claim = world.begin("k1").await.expect_claim();
    let kept = claim.complete("paid 100").await.unwrap();
    assert!(!kept.body);

    let Verdict::Replay(replay) = world.begin("k1").await else {
        panic!("the work is done");
    };
    assert_eq!(replay.outcome, Outcome::success("paid 100").keeping(4));
}

// --- 6. Refusals write no outcome -----------------------------------------------------------

#[tokio::test]
async fn rule_6_a_refusal_leaves_the_record_as_it_is() {
    let world = World::new().policy(|policy| policy.on_busy(OnBusy::Refuse));
    let claim = world.begin("k1").await.expect_claim();
    let before = world.record("k1").await;
    world.begin("k1").await.expect_busy();
    world.payload("pay 900").begin("k1").await.expect_mismatch();
    assert_eq!(world.record("k1").await, before);

    claim
        .abandon(onceward::Reason::new("timeout"))
        .await
        .unwrap();
    let before = world.record("k1").await;
    world.begin("k1").await.expect_unknown();
    world.payload("pay 900").begin("k1").await.expect_mismatch();
    assert_eq!(world.record("k1").await, before);
}

#[tokio::test]
async fn rule_6_a_lapsed_claim_is_marked_unknown_once_and_keeps_its_mark() {
    let world = World::new();
    drop(world.begin("k1").await.expect_claim());
    let claimed = world.record("k1").await.unwrap();
    world.clock.advance(world.policy.lease);
    world.begin("k1").await.expect_unknown();

    let marked = world.record("k1").await.unwrap();
    assert_eq!(marked.state.name(), StateName::Unknown);
    assert_eq!(marked.mark, claimed.mark);
    world.begin("k1").await.expect_unknown();
    assert_eq!(world.record("k1").await.unwrap(), marked);
}

// --- 7. Waiting asks the store once for all -------------------------------------------------

#[tokio::test(start_paused = true)]
async fn rule_7_a_hundred_waiters_ask_the_store_as_often_as_one() {
    let mut counts = Vec::new();
    for waiters in [1, 100] {
        let world = World::new();
        let claim = world.begin("k1").await.expect_claim();
        let waiting: Vec<_> = (0..waiters).map(|_| world.arrive("k1")).collect();
        world.settle().await;
        claim.complete("paid").await.unwrap();
        for waiter in waiting {
            assert_eq!(waiter.await.unwrap().expect_replay(), "paid");
        }
        counts.push(world.store.count_of(Call::Get));
    }
    assert!(counts[1] <= counts[0] + 2, "{counts:?}");
}

// --- 8. Only new claims are limited ---------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn rule_8_a_full_store_still_replays_and_lets_duplicates_wait() {
    let world = World::new();
    world.store.set_far(true);
    world.complete("done", "paid").await;
    let running = world.begin("running").await.expect_claim();

    let full = || world.store.fail_next(Fault::Full);
    full();
    assert_eq!(world.begin("done").await.expect_replay(), "paid");
    full();
    world
        .payload("pay 900")
        .begin("done")
        .await
        .expect_mismatch();
    full();
    let waiter = world.arrive("running");
    world.settle().await;
    running.complete("paid too").await.unwrap();
    assert_eq!(waiter.await.unwrap().expect_replay(), "paid too");

    full();
    let refused = world.try_begin("new").await.unwrap_err();
    assert!(matches!(
        refused,
        Error::Store(onceward::store::Error::Full { .. })
    ));
}

// --- 9. Moved alone never means lost --------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn rule_9_a_holder_recognises_its_own_writes() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    // The renewal is applied, so the fence that the holder knows is no longer there.
    world.store.fail_next(Fault::LostReply);
    world.pass(world.policy.lease / 2).await;
    claim.complete("paid").await.unwrap();
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
}

#[tokio::test]
async fn rule_9_a_lost_claim_answers_from_the_record_that_won() {
    let world = World::new().effect(onceward::Effect::Keyed);
    let late = world.begin("k1").await.expect_claim();
    world.clock.advance(world.policy.lease);
    let second = world.begin("k1").await.expect_claim();
    second.complete("second").await.unwrap();

    let lost = late.complete("first").await.unwrap_err();
    assert_eq!(lost.expect_lost().expect_replay(), "second");
    assert_eq!(world.begin("k1").await.expect_replay(), "second");
}

// --- 10. A store that fails after execution -------------------------------------------------

#[tokio::test(start_paused = true)]
async fn rule_10_an_outcome_that_could_not_be_stored_is_found_on_retry() {
    let world = World::new();
    let executions = Arc::new(AtomicUsize::new(0));
    let work = || {
        let (store, executions) = (world.store.clone(), executions.clone());
        move |_| async move {
            executions.fetch_add(1, Ordering::Relaxed);
            store.set_down(true);
            Done::outcome("paid")
        }
    };
    let (answer, ()) = tokio::join!(
        world.run("k1", work()),
        world.pass(Duration::from_millis(5_100))
    );
    answer.expect_pending();

    world.store.set_down(false);
    world.pass(Duration::from_secs(2)).await;
    assert_eq!(world.run("k1", work()).await.expect_replay(), "paid");
    assert_eq!(executions.load(Ordering::Relaxed), 1);
}

// --- 11. One secret for all nodes -----------------------------------------------------------

#[tokio::test]
async fn rule_11_nodes_share_one_secret_and_a_wrong_one_is_refused() {
    let world = World::new();
    world.complete("k1", "paid").await;
    assert_eq!(world.node().begin("k1").await.expect_replay(), "paid");

    let wrong = Engine::builder(world.store.clone())
        .secret(Secret::from_bytes([1; 32]))
        .build();
    let refused = wrong.begin(&world.slot("k2"), world.fingerprint()).await;
    assert!(matches!(refused, Err(Error::WrongSecret)));
}

#[tokio::test]
async fn rule_11_a_dump_of_another_store_names_the_slot_differently() {
    let (one, two) = (World::new(), World::new());
    assert_ne!(one.id("k1").await, two.id("k1").await);
    drop(one.begin("k1").await.expect_claim());
    drop(two.begin("k1").await.expect_claim());
    let seals = [one.record("k1").await, two.record("k1").await].map(|it| it.unwrap().seal);
    assert_ne!(seals[0], seals[1]);
}
