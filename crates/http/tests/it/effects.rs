//! Holders that fell silent: what the class of the effect allows about them.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{self, BoxFuture, FutureExt as _};
use http::Response;
use http::request::Parts;
use onceward::{Attempt, Effect, State};
use onceward_http::{NotExecuted, Probe, Probed};

use crate::world::{Run, Shop, answer, pay};

/// Somebody to ask, who gives the answers it was told to.
#[derive(Debug)]
struct Script(Mutex<VecDeque<Probed>>);

impl Script {
    fn new(answers: impl IntoIterator<Item = Probed>) -> Self {
        Self(Mutex::new(answers.into_iter().collect()))
    }
}

impl Probe for Script {
    fn probe<'a>(&'a self, attempt: &'a Attempt, request: &'a Parts) -> BoxFuture<'a, Probed> {
        assert!(attempt.number() > 1, "only later attempts are asked about");
        assert_eq!(request.uri.path(), "/payments");
        let probed = self.0.lock().unwrap().pop_front();
        let probed = probed.expect("somebody asks more often than the script has answers");
        future::ready(probed).boxed()
    }
}

/// A shop whose first run is never heard of again, and whose later ones do `later`.
fn silent(effect: Effect, later: fn(&Run) -> crate::world::Answered) -> Shop {
    Shop::new(move |run: Run| async move {
        match run.number {
            1 => future::pending().await,
            _ => later(&run),
        }
    })
    .effect(effect)
    .terms(|terms| terms.within(Duration::from_secs(1)))
}

fn second(run: &Run) -> crate::world::Answered {
    assert_eq!(run.attempt().number(), 2);
    Ok(answer(201, "second"))
}

/// Has the first attempt fall silent.
async fn fall_silent(shop: &Shop) {
    let first = shop.start_running("k").await;
    tokio::time::advance(Duration::from_secs(1)).await;
    shop.ended(first).await.expect_problem("outcome-unknown");
}

#[tokio::test(start_paused = true)]
async fn opaque_work_is_not_tried_again() {
    let shop = silent(Effect::Opaque, second);
    fall_silent(&shop).await;
    shop.expect_unknown("k").await;
}

#[tokio::test(start_paused = true)]
async fn keyed_work_is_sent_again_under_the_same_key_as_the_next_attempt() {
    let shop = silent(Effect::Keyed, |run| {
        assert_eq!(run.attempt().key().as_str(), "k");
        second(run)
    });
    fall_silent(&shop).await;
    let seen = shop.send(pay("k")).await.expect_first(201, "second");
    assert_eq!(seen.handled.attempt, 2);
    shop.send(pay("k")).await.expect_replay(201, "second");
    assert_eq!(shop.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_fences_of_later_attempts_are_greater() {
    let fences = std::sync::Arc::new(Mutex::new(Vec::new()));
    let seen = fences.clone();
    let shop = Shop::new(move |run: Run| {
        seen.lock().unwrap().push(run.attempt().fence());
        future::ready(Err("connection reset".into()))
    });
    let shop = shop.effect(Effect::Keyed);
    for _ in 0..3 {
        shop.send(pay("k")).await.expect_problem("outcome-unknown");
    }
    let fences = fences.lock().unwrap();
    assert!(fences.is_sorted() && fences[0] < fences[1] && fences[1] < fences[2]);
}

#[tokio::test(start_paused = true)]
async fn a_later_attempt_that_did_nothing_leaves_the_first_unknown() {
    let shop = silent(Effect::Keyed, |_| {
        Err(NotExecuted("nobody home".into()).into())
    });
    fall_silent(&shop).await;
    shop.send(pay("k")).await.expect_problem("outcome-unknown");
    let record = shop.record("k").await.unwrap();
    assert!(matches!(record.state, State::Unknown(_)));
    assert_eq!(shop.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_later_attempt_that_was_turned_away_leaves_the_first_unknown() {
    let shop = silent(Effect::Keyed, |_| Ok(answer(503, "closed")));
    fall_silent(&shop).await;
    let seen = shop.send(pay("k")).await;
    seen.expect_not_stored(503, "closed");
    let record = shop.record("k").await.unwrap();
    assert!(matches!(record.state, State::Unknown(_)));
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_lost_its_claim_answers_with_what_won() {
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let inner = gate.clone();
    let shop = Shop::new(move |run: Run| {
        let gate = inner.clone();
        async move {
            if run.number == 1 {
                gate.acquire().await.unwrap().forget();
                return Ok(answer(201, "first"));
            }
            Ok(answer(201, "second"))
        }
    });
    let shop = shop.effect(Effect::Keyed);
    let first = shop.start_running("k").await;
    // Paused for longer than its lease, it finds another process at its work.
    shop.world.clock.advance(shop.world.policy.lease * 2);
    let mut other = shop.clone();
    other.world = shop.world.node();
    other.send(pay("k")).await.expect_first(201, "second");
    gate.add_permits(1);
    first.await.unwrap().expect_replay(201, "second");
}

// --- probed ---------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn probed_work_that_was_done_is_replayed_and_not_executed() {
    let done = Response::builder()
        .status(201)
        .header("location", "/payments/1");
    let done = done.body(Bytes::from("found")).unwrap();
    let shop = silent(Effect::Probed, second).probe(Script::new([Probed::Done(done)]));
    fall_silent(&shop).await;
    let seen = shop.send(pay("k")).await;
    seen.expect(201, "found");
    assert_eq!(seen.headers["idempotent-replayed"], "true");
    assert_eq!(seen.headers["location"], "/payments/1");
    let again = shop.send(pay("k")).await.expect_replay(201, "found");
    assert_eq!(again.headers["location"], "/payments/1");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn probed_work_that_was_not_done_is_executed() {
    let shop = silent(Effect::Probed, second).probe(Script::new([Probed::NotDone]));
    fall_silent(&shop).await;
    shop.send(pay("k")).await.expect_first(201, "second");
    shop.send(pay("k")).await.expect_replay(201, "second");
    assert_eq!(shop.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn probed_work_that_nobody_can_tell_about_stays_unknown_until_somebody_can() {
    let cannot = || Probed::CannotSay("away".into());
    let script = Script::new([cannot(), cannot(), Probed::NotDone]);
    let shop = silent(Effect::Probed, |run| {
        assert_eq!(run.attempt().number(), 4);
        Ok(answer(201, "fourth"))
    });
    let shop = shop.probe(script);
    fall_silent(&shop).await;
    for _ in 0..2 {
        shop.send(pay("k")).await.expect_problem("outcome-unknown");
        assert_eq!(shop.runs(), 1);
    }
    shop.send(pay("k")).await.expect_first(201, "fourth");
}

#[tokio::test(start_paused = true)]
async fn without_anybody_to_ask_probed_work_stays_unknown() {
    let shop = silent(Effect::Probed, second);
    fall_silent(&shop).await;
    shop.send(pay("k")).await.expect_problem("outcome-unknown");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_panics_cannot_say() {
    let shop = silent(Effect::Probed, second).probe(Script::new([]));
    fall_silent(&shop).await;
    shop.send(pay("k")).await.expect_problem("outcome-unknown");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_with_the_earlier_attempt_is_no_outcome() {
    let shop = silent(Effect::Keyed, |run| match run.number {
        2 => Ok(answer(409, "still running")),
        _ => Ok(answer(201, "done")),
    });
    fall_silent(&shop).await;
    let told = shop.send(pay("k")).await;
    told.expect_not_stored(409, "still running");
    shop.send(pay("k")).await.expect_first(201, "done");
    shop.send(pay("k")).await.expect_replay(201, "done");
}

#[tokio::test(start_paused = true)]
async fn callers_are_told_to_retry_where_a_retry_finds_out() {
    for (effect, settles) in [(Effect::Opaque, false), (Effect::Keyed, true)] {
        let shop = silent(effect, second);
        let first = shop.start_running("k").await;
        tokio::time::advance(Duration::from_secs(1)).await;
        let told = shop.ended(first).await;
        let problem = told.expect_problem("outcome-unknown");
        assert_eq!(problem["retryable"], settles, "{effect:?}");
        assert_eq!(told.headers["x-should-retry"], settles.to_string());
    }
}
