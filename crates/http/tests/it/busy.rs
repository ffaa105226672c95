//! Duplicates of running work: they wait, are refused, or are told where to look.

use std::time::Duration;

use http::{Method, Request};
use onceward_http::{OPERATIONS, OnBusy, Terms};

use crate::world::{Change, Seen, Sent, Shop, answer, empty, pay};

const SECOND: Duration = Duration::from_secs(1);

fn offering(terms: Terms) -> Terms {
    terms.status_resource(true)
}

/// A request for the status of an operation, by `caller`.
fn status_of(accepted: &Seen, caller: &str) -> Request<Sent> {
    let location = accepted.headers["location"].to_str().unwrap();
    assert!(location.starts_with(OPERATIONS), "{location}");
    let request = Request::get(location).header("x-caller", caller);
    request.body(empty()).unwrap()
}

fn expect_accepted(seen: &Seen) {
    assert_eq!(seen.status, 202);
    assert_eq!(seen.handled.outcome, "accepted");
    assert_eq!(seen.headers["cache-control"], "no-store");
    assert_eq!(seen.headers["retry-after"], "1");
    let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
    assert_eq!(body["status"], "running");
    assert_eq!(
        body["operation"],
        seen.headers["location"].to_str().unwrap()
    );
}

fn expect_in_progress(seen: &Seen) {
    seen.expect_problem("in-progress");
    assert_eq!(seen.status, 409);
    assert!(seen.headers.contains_key("retry-after"));
    assert_eq!(seen.headers["x-should-retry"], "true");
}

// --- waiting --------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_duplicate_waits_and_gets_the_first_answer() {
    let (shop, gate) = Shop::gated();
    let first = shop.start_running("k").await;
    let second = shop.start(pay("k"));
    shop.world.pass(SECOND * 9).await;
    assert!(!second.is_finished());
    gate.add_permits(1);
    let first = first.await.unwrap().expect_first(201, "paid");
    let second = second.await.unwrap().expect_replay(201, "paid");
    assert_eq!(first.body, second.body);
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_that_waited_long_enough_is_told_to_come_back() {
    let (shop, gate) = Shop::gated();
    let first = shop.start_running("k").await;
    let second = shop.send_within(SECOND * 11, pay("k")).await;
    expect_in_progress(&second);
    gate.add_permits(1);
    first.await.unwrap().expect_first(201, "paid");
    shop.send(pay("k")).await.expect_replay(201, "paid");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_may_prefer_to_wait_less_and_not_more() {
    let (shop, _gate) = Shop::gated();
    let _first = shop.start_running("k").await;
    for (prefer, waits) in [("wait=0", 0), ("wait=3", 3), ("wait=100", 10)] {
        let second = shop.start(pay("k").with("prefer", prefer));
        shop.world.settle().await;
        if waits > 0 {
            shop.world.pass(SECOND * waits - SECOND / 2).await;
            assert!(!second.is_finished(), "{prefer}");
            shop.world.pass(SECOND).await;
        }
        assert!(second.is_finished(), "{prefer}");
        expect_in_progress(&second.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn where_nobody_waits_a_duplicate_is_refused_at_once() {
    let (shop, _gate) = Shop::gated();
    let shop = shop.terms(|terms| terms.on_busy(OnBusy::Refuse));
    let _first = shop.start_running("k").await;
    for request in [pay("k"), pay("k").with("prefer", "wait=5")] {
        let second = shop.start(request);
        shop.world.settle().await;
        assert!(second.is_finished());
        expect_in_progress(&second.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_executes_what_the_first_released() {
    let shop = Shop::new(async |run: crate::world::Run| {
        tokio::time::sleep(SECOND).await;
        Ok(match run.number {
            1 => answer(503, "closed"),
            _ => answer(201, "paid"),
        })
    });
    let first = shop.start_running("k").await;
    let second = shop.start(pay("k"));
    shop.world.pass(SECOND * 3).await;
    first.await.unwrap().expect_not_stored(503, "closed");
    second.await.unwrap().expect_first(201, "paid");
    assert_eq!(shop.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_told_when_the_first_ends_unknown() {
    let (shop, gate) = Shop::gated();
    let shop = shop.terms(|terms| terms.within(SECOND));
    let first = shop.start_running("k").await;
    let second = shop.start(pay("k"));
    shop.world.pass(SECOND * 2).await;
    shop.ended(first).await.expect_problem("outcome-unknown");
    shop.ended(second).await.expect_problem("outcome-unknown");
    gate.add_permits(1);
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_freed_when_the_holder_falls_silent() {
    let (shop, _gate) = Shop::gated();
    let mut first = shop.clone();
    first.world = shop.world.node();
    let holder = first.start_running("k").await;
    // The holder's process stops: nothing renews its claim.
    holder.abort();
    shop.world.store.set_down(true);
    shop.world.clock.advance(shop.world.policy.lease * 2);
    shop.world.store.mend();
    let second = shop.send_within(SECOND * 11, pay("k")).await;
    second.expect_problem("outcome-unknown");
    assert_eq!(shop.runs(), 1);
}

// --- told where to look ---------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_caller_that_prefers_not_to_wait_finds_the_answer_at_its_operation() {
    let (shop, gate) = Shop::gated();
    let shop = shop.terms(offering);
    let accepted = shop.send(pay("k").with("prefer", "respond-async")).await;
    expect_accepted(&accepted);
    assert_eq!(accepted.headers["preference-applied"], "respond-async");
    shop.world.settle().await;
    assert_eq!(shop.runs(), 1);

    expect_accepted(&shop.send(status_of(&accepted, "alice")).await);
    gate.add_permits(1);
    shop.world.settle().await;
    let found = shop.send(status_of(&accepted, "alice")).await;
    found.expect_replay(201, "paid");
    shop.send(pay("k")).await.expect_replay(201, "paid");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_prefers_not_to_wait_long_gets_an_answer_that_is_quick() {
    let shop = Shop::new(async |_| {
        tokio::time::sleep(SECOND).await;
        Ok(answer(201, "paid"))
    });
    let shop = shop.terms(offering);
    let request = |key| pay(key).with("prefer", "respond-async, wait=2");
    shop.send(request("k")).await.expect_first(201, "paid");

    let slow = Shop::gated().0.terms(offering);
    let seen = slow.send_within(SECOND * 3, request("k")).await;
    expect_accepted(&seen);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_may_prefer_to_be_told_where_to_look() {
    let (shop, _gate) = Shop::gated();
    let shop = shop.terms(offering);
    let _first = shop.start_running("k").await;
    let second = shop.start(pay("k").with("prefer", "respond-async"));
    shop.world.settle().await;
    assert!(second.is_finished());
    expect_accepted(&second.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_operation_shows_itself_to_its_caller_alone() {
    let (shop, gate) = Shop::gated();
    let shop = shop.terms(offering);
    let accepted = shop.send(pay("k").with("prefer", "respond-async")).await;
    for finished in [false, true] {
        if finished {
            gate.add_permits(1);
            shop.world.settle().await;
        }
        let foreign = shop.send(status_of(&accepted, "bob")).await;
        foreign.expect_problem("no-such-operation");
        assert_eq!(foreign.status, 404);
        let nobody = status_of(&accepted, "bob").without("x-caller");
        let nobody = shop.send(nobody).await;
        nobody.expect_problem("unidentified-caller");
    }
    let nonsense = pay("k").to(Method::GET, "/.well-known/onceward/operations/17");
    let nonsense = shop.send(nonsense).await;
    nonsense.expect_problem("no-such-operation");
    // They run: what is not asked for under that path is the service's.
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_operation_whose_outcome_is_unknown_says_so() {
    let (shop, _gate) = Shop::gated();
    let shop = shop.terms(|terms| offering(terms).within(SECOND));
    let accepted = shop.send(pay("k").with("prefer", "respond-async")).await;
    shop.world.pass(SECOND * 2).await;
    let seen = shop.send(status_of(&accepted, "alice")).await;
    seen.expect_problem("outcome-unknown");
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_expired_is_gone() {
    let (shop, gate) = Shop::gated();
    let shop = shop.terms(offering);
    let accepted = shop.send(pay("k").with("prefer", "respond-async")).await;
    gate.add_permits(1);
    shop.world.settle().await;
    shop.world.clock.advance(shop.world.policy.retention);
    let seen = shop.send(status_of(&accepted, "alice")).await;
    seen.expect_problem("no-such-operation");
}

#[tokio::test(start_paused = true)]
async fn without_a_status_resource_nobody_is_sent_there() {
    let (shop, gate) = Shop::gated();
    let first = shop.start(pay("k").with("prefer", "respond-async"));
    shop.world.settle().await;
    let second = shop.start(pay("k").with("prefer", "respond-async"));
    shop.world.settle().await;
    assert!(!first.is_finished() && !second.is_finished());
    gate.add_permits(1);
    first.await.unwrap().expect_first(201, "paid");
    second.await.unwrap().expect_replay(201, "paid");
    // The path is the service's own.
    gate.add_permits(1);
    let path = pay("k").to(Method::GET, "/.well-known/onceward/operations/17");
    assert_eq!(shop.send(path).await.handled.outcome, "passed");
}

#[tokio::test(start_paused = true)]
async fn where_duplicates_are_accepted_they_are_sent_to_the_operation() {
    let (shop, gate) = Shop::gated();
    let shop = shop.terms(|terms| offering(terms).on_busy(OnBusy::Accept));
    let first = shop.start_running("k").await;
    let second = shop.send(pay("k")).await;
    expect_accepted(&second);
    assert!(!second.headers.contains_key("preference-applied"));

    // Or wait before they are.
    let third = shop.start(pay("k").with("prefer", "wait=3"));
    shop.world.pass(SECOND * 2).await;
    assert!(!third.is_finished());
    shop.world.pass(SECOND * 2).await;
    expect_accepted(&third.await.unwrap());

    gate.add_permits(1);
    first.await.unwrap().expect_first(201, "paid");
    let found = shop.send(status_of(&second, "alice")).await;
    found.expect_replay(201, "paid");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test]
async fn nothing_new_is_begun_while_too_much_is_under_way() {
    let (mut shop, gate) = Shop::gated();
    shop.executions = Some(std::sync::Arc::new(tokio::sync::Semaphore::new(1)));
    let first = shop.start_running("k1").await;
    let second = shop.send(pay("k2")).await;
    second.expect_problem("too-many-claims");
    assert_eq!(second.status, 429);
    assert!(shop.record("k2").await.is_none(), "its key is free");
    let duplicate = shop.start(pay("k1"));
    gate.add_permits(2);
    let first = shop.ended(first).await;
    let duplicate = shop.ended(duplicate).await;
    assert_eq!(first.body, duplicate.body);
    assert_eq!(shop.send(pay("k2")).await.status, first.status);
    assert_eq!(shop.runs(), 2);
}
