//! Running work once: what its callers get, however it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use onceward::testing::{ExpectRun, ExpectVerdict, Fault, World};
use onceward::{Done, Duty, Effect, Outcome, Reason, RunError};
use tokio::sync::Notify;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn work_is_done_once_and_answered_alike_ever_after() {
    let world = World::new();
    let executions = Arc::new(AtomicUsize::new(0));
    for nth in 0..3 {
        let executions = executions.clone();
        let answer = world.run("k1", move |attempt| async move {
            executions.fetch_add(1, Ordering::Relaxed);
            Done::outcome(format!("paid under {}", attempt.key().as_str()))
        });
        let answer = answer.await.unwrap();
        assert_eq!(answer.outcome, Outcome::success("paid under k1"));
        assert_eq!(answer.replayed, nth > 0);
        assert_eq!(answer.expires, world.record("k1").await.unwrap().due());
    }
    assert_eq!(executions.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_concurrent_callers_execute_once() {
    let world = World::new();
    let executions = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..1_000)
        .map(|_| {
            let (world, executions) = (world.clone(), executions.clone());
            tokio::spawn(async move {
                let work = move |_| async move {
                    executions.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(SECOND).await;
                    Done::outcome("paid")
                };
                world.run("k1", work).await
            })
        })
        .collect();
    let mut first = 0;
    for caller in callers {
        let answer = caller.await.unwrap().unwrap();
        assert_eq!(answer.outcome, Outcome::success("paid"));
        first += usize::from(!answer.replayed);
    }
    assert_eq!((first, executions.load(Ordering::Relaxed)), (1, 1));
}

#[tokio::test]
async fn a_panic_of_the_work_leaves_the_outcome_unknown() {
    let world = World::new();
    let run = world.run("k1", |_| async { panic!("out of cheese") });
    assert_eq!(run.await.expect_unknown().reason, Reason::PANICKED);
    let again = world.run("k1", |_| async { Done::outcome("paid") });
    assert_eq!(again.await.expect_unknown().reason, Reason::PANICKED);
}

#[tokio::test]
async fn a_panic_before_the_work_is_a_future_counts_as_well() {
    let world = World::new();
    let run = world.run("k1", |attempt| {
        assert_eq!(attempt.number(), 2, "the first attempt panics");
        async { Done::outcome("paid") }
    });
    assert_eq!(run.await.expect_unknown().reason, Reason::PANICKED);
}

#[tokio::test]
async fn work_that_did_not_happen_frees_the_key() {
    let world = World::new();
    let run = world.run("k1", |_| async { Done::not_executed("connection refused") });
    assert_eq!(run.await.expect_not_executed(), "connection refused");
    assert_eq!(world.record("k1").await, None);
    let again = world.run("k1", |attempt| async move {
        assert_eq!(attempt.number(), 1);
        Done::outcome("paid")
    });
    assert_eq!(again.await.expect_first(), "paid");
}

#[tokio::test(start_paused = true)]
async fn one_of_those_who_wait_claims_what_was_not_executed() {
    let world = World::new();
    let executions = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..50)
        .map(|_| {
            let (world, executions) = (world.clone(), executions.clone());
            tokio::spawn(async move {
                let work = move |_| async move {
                    tokio::time::sleep(SECOND).await;
                    match executions.fetch_add(1, Ordering::Relaxed) {
                        0 => Done::not_executed("connection refused"),
                        _ => Done::outcome("paid"),
                    }
                };
                world.run("k1", work).await
            })
        })
        .collect();
    let mut answers = Vec::new();
    for caller in callers {
        answers.push(caller.await.unwrap());
    }
    assert_eq!(executions.load(Ordering::Relaxed), 2);
    let refused = answers.extract_if(.., |it| it.is_err()).collect::<Vec<_>>();
    assert!(matches!(refused[..], [Err(RunError::NotExecuted(_))]));
    assert_eq!(
        answers.iter().flatten().filter(|it| !it.replayed).count(),
        1
    );
}

#[tokio::test]
async fn work_of_unknown_end_holds_takes_over_or_probes_by_its_class() {
    for (effect, duty) in [
        (Effect::Opaque, None),
        (Effect::Probed, Some(Duty::Probe)),
        (Effect::Keyed, Some(Duty::Repeat)),
        (Effect::Transactional, Some(Duty::Repeat)),
        (Effect::Repeatable, Some(Duty::Repeat)),
    ] {
        let world = World::new().effect(effect);
        let run = world.run("k1", |_| async { Done::unknown("timeout") });
        assert_eq!(run.await.expect_unknown().reason.as_str(), "timeout");
        let again = world.run("k1", move |attempt| async move {
            assert_eq!((attempt.number(), Some(attempt.duty())), (2, duty));
            Done::outcome("paid")
        });
        match duty {
            Some(_) => assert_eq!(again.await.expect_first(), "paid"),
            None => assert_eq!(again.await.expect_unknown().reason.as_str(), "timeout"),
        }
    }
}

#[tokio::test]
async fn a_later_attempt_that_did_not_happen_does_not_speak_for_the_first() {
    let world = World::new().effect(Effect::Keyed);
    let run = world.run("k1", |_| async { Done::unknown("timeout") });
    run.await.expect_unknown();
    let again = world.run("k1", |_| async { Done::not_executed("connection refused") });
    assert_eq!(again.await.expect_unknown().reason, Reason::EARLIER_ATTEMPT);
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_lease_lapsed_before_the_work_does_not_start_it() {
    let world = World::new().policy(|policy| policy.lease(2 * SECOND));
    world.engine.secret().await.unwrap();
    // The claim is granted in time, and its holder is paused until it has lapsed.
    world.store.fail_next(Fault::Held);
    let paused = tokio::spawn({
        let world = world.clone();
        async move {
            let work = |_| async { panic!("started after its lease") };
            world.run("k1", work).await
        }
    });
    world.store.until_held().await;
    world.clock.advance(2 * SECOND);
    world.store.release();
    let late = paused.await.unwrap().expect_not_executed();
    assert!(late.contains("lapsed"), "{late}");
    assert_eq!(world.record("k1").await, None, "the key is free");
}

#[tokio::test(start_paused = true)]
async fn a_paused_holder_answers_from_the_record_that_won() {
    let world = World::new().effect(Effect::Keyed);
    let begun = Arc::new(Notify::new());
    let paused = tokio::spawn({
        let (world, begun) = (world.clone(), begun.clone());
        async move {
            let work = |_| async move {
                begun.notified().await;
                Done::outcome("first")
            };
            world.run("k1", work).await
        }
    });
    tokio::task::yield_now().await;
    world.clock.advance(world.policy.lease);
    let node = world.node();
    let second = node.run("k1", |_| async { Done::outcome("second") });
    assert_eq!(second.await.expect_first(), "second");
    begun.notify_one();
    assert_eq!(paused.await.unwrap().expect_replay(), "second");
}

#[tokio::test]
async fn an_answer_too_large_to_keep_reaches_its_first_caller_whole() {
    let world = World::new().policy(|policy| policy.body_max(3));
    let run = world.run("k1", |_| async { Done::outcome("paid") });
    assert_eq!(run.await.expect_first(), "paid");
    let again = world.run("k1", |_| async { panic!("executed again") });
    let answer = again.await.unwrap();
    assert_eq!((answer.outcome.body(), answer.replayed), (None, true));
}

#[tokio::test]
async fn an_attempt_knows_its_key_its_number_and_its_fence() {
    let world = World::new();
    let store = world.clone();
    let run = world.run("k1", |attempt| async move {
        let record = store.record("k1").await.expect("there is a claim");
        assert_eq!(record.mark, Some(attempt.fence()));
        assert_eq!((attempt.key().as_str(), attempt.number()), ("k1", 1));
        assert!(attempt.is_held() && attempt.resumed().is_none());
        Done::outcome("paid")
    });
    run.await.expect_first();
}

#[tokio::test(start_paused = true)]
async fn the_same_key_of_another_tenant_is_other_work() {
    let world = World::new();
    let run = world.run("k1", |_| async { Done::outcome("alice paid") });
    assert_eq!(run.await.expect_first(), "alice paid");
    let bob = world.tenant("bob");
    let run = bob.run("k1", |_| async { Done::outcome("bob paid") });
    assert_eq!(run.await.expect_first(), "bob paid");
    assert_eq!(world.begin("k1").await.expect_replay(), "alice paid");
}
