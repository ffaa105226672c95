//! Work that names itself: what succeeds once whatever the key, and what is suspected.

use std::time::Duration;

use http::{Method, Request};
use onceward::{Suspicion, Then};
use onceward_http::{Fields, KeyNeed, OnBusy, SuspectRule, Terms, UniqueRule};

use crate::world::{Change, Run, Sent, Shop, answer, empty, full, pay};

const SECOND: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(30);

fn once(then: Then) -> impl FnOnce(Terms) -> Terms {
    let rule = UniqueRule::new("paid-order", Fields::parse(["/order"]).unwrap());
    move |terms| terms.unique(rule.then(then))
}

fn suspecting(then: Suspicion) -> impl FnOnce(Terms) -> Terms {
    let facts = Fields::parse(["/user", "/amount"]).unwrap();
    let rule = SuspectRule::new("same-payment", facts, WINDOW);
    move |terms| terms.suspect(rule.then(then))
}

/// A payment of an order under `key`.
fn order(key: &str) -> Request<Sent> {
    pay(key).saying(r#"{"order":1001,"user":"u1","amount":5}"#)
}

/// A shop that numbers its receipts.
fn numbering() -> Shop {
    Shop::new(async |run: Run| {
        let mut receipt = answer(201, "");
        let location = format!("/payments/{}", run.number).parse().unwrap();
        receipt.headers_mut().insert("location", location);
        *receipt.body_mut() = full(format!("receipt {}", run.number));
        Ok(receipt)
    })
}

// --- one success ----------------------------------------------------------------------------

#[tokio::test]
async fn a_new_key_for_the_same_order_gets_the_first_answer() {
    let shop = numbering().terms(once(Then::Return));
    shop.send(order("k1")).await.expect_first(201, "receipt 1");
    for key in ["k2", "k3", "k2"] {
        let seen = shop.send(order(key)).await.expect_replay(201, "receipt 1");
        assert_eq!(seen.headers["location"], "/payments/1");
    }
    let other = pay("k4").saying(r#"{"order":1002}"#);
    shop.send(other).await.expect_first(201, "receipt 2");
    let bob = order("k5").without("x-caller").with("x-caller", "bob");
    shop.send(bob).await.expect_first(201, "receipt 3");
}

#[tokio::test]
async fn a_new_key_for_the_same_order_is_refused_where_that_is_wanted() {
    let shop = numbering().terms(once(Then::Refuse));
    shop.send(order("k1")).await.expect_first(201, "receipt 1");
    let seen = shop.send(order("k2")).await;
    let told = seen.expect_problem("already-done");
    assert_eq!(seen.status, 409);
    assert_eq!(seen.headers["location"], "/payments/1");
    assert_eq!(seen.headers["x-should-retry"], "false");
    assert_eq!(told["original_status"], 201);
    assert_eq!(told["location"], "/payments/1");
    assert_eq!(told["rule"], "paid-order");
    // The first key still gets its answer.
    shop.send(order("k1")).await.expect_replay(201, "receipt 1");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test]
async fn work_that_failed_may_be_done_under_another_key() {
    let shop = Shop::new(async |run: Run| {
        Ok(match run.number {
            1 => answer(422, "declined"),
            _ => answer(201, "paid"),
        })
    });
    let shop = shop.terms(once(Then::Return));
    shop.send(order("k1")).await.expect_first(422, "declined");
    shop.send(order("k2")).await.expect_first(201, "paid");
    shop.send(order("k3")).await.expect_replay(201, "paid");
    shop.send(order("k1")).await.expect_replay(422, "declined");
}

#[tokio::test]
async fn identical_orders_without_a_rule_are_both_executed() {
    let shop = numbering();
    shop.send(order("k1")).await.expect_first(201, "receipt 1");
    shop.send(order("k2")).await.expect_first(201, "receipt 2");
}

#[tokio::test]
async fn a_request_that_does_not_name_the_order_is_refused_with_the_names() {
    let shop = numbering().terms(once(Then::Return));
    for body in ["{}", r#"{"order":null}"#, "", "100", "{"] {
        let seen = shop.send(pay("k1").saying(body)).await;
        seen.expect_problem("invalid-request");
        assert_eq!(seen.status, 400);
    }
    let seen = shop.send(pay("k1").saying("{}")).await;
    let told = seen.expect_problem("invalid-request")["error"]["message"].to_string();
    assert!(told.contains("the request has no /order"), "{told}");
    assert_eq!((shop.runs(), shop.record("k1").await), (0, None));
}

#[tokio::test]
async fn what_was_answered_before_the_rule_came_is_answered_whether_or_not_it_is_at_hand() {
    let shop = numbering();
    shop.send(pay("k1").saying("{}"))
        .await
        .expect_first(201, "receipt 1");
    let shop = shop.terms(once(Then::Return));
    for far in [false, true] {
        shop.world.store.set_far(far);
        shop.send(pay("k1").saying("{}"))
            .await
            .expect_replay(201, "receipt 1");
        let seen = shop.send(pay("k2").saying("{}")).await;
        seen.expect_problem("invalid-request");
    }
}

#[tokio::test]
async fn a_request_without_a_key_is_refused_unless_keys_are_off() {
    let shop = numbering().terms(once(Then::Return));
    let unkeyed = || order("k").without("idempotency-key");
    let seen = shop.send(unkeyed()).await;
    seen.expect_problem("missing-key");
    assert_eq!((seen.status.as_u16(), shop.runs()), (400, 0));
    let off = shop.terms(|terms| terms.key(KeyNeed::Off));
    assert_eq!(off.send(unkeyed()).await.handled.outcome, "passed");
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_meanwhile_waits_for_the_answer_of_the_other_key() {
    let (shop, gate) = Shop::gated();
    let shop = shop.terms(once(Then::Return));
    let first = shop.start(order("k1"));
    shop.world.settle().await;
    let others: Vec<_> = (2..18)
        .map(|n| shop.start(order(&format!("k{n}"))))
        .collect();
    shop.world.pass(SECOND).await;
    gate.add_permits(1);
    first.await.unwrap().expect_first(201, "paid");
    for other in others {
        other.await.unwrap().expect_replay(201, "paid");
    }
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_too_long_is_told_to_come_back_or_where_to_look() {
    let (shop, gate) = Shop::gated();
    let shop = shop.terms(once(Then::Return));
    let first = shop.start(order("k1"));
    shop.world.settle().await;
    let seen = shop.send_within(SECOND * 11, order("k2")).await;
    seen.expect_problem("in-progress");
    assert!(seen.headers.contains_key("retry-after"));

    let accepting = shop.clone().terms(|terms| {
        let terms = terms.status_resource(true);
        terms.on_busy(OnBusy::Accept)
    });
    let seen = accepting.send(order("k3")).await;
    assert_eq!(seen.status, 202);
    gate.add_permits(1);
    first.await.unwrap().expect_first(201, "paid");
    // It is the same caller's, and leads to the answer.
    let location = seen.headers["location"].to_str().unwrap().to_owned();
    let look = |caller: &str| {
        let request = Request::get(&*location).header("x-caller", caller);
        accepting.send(request.body(empty()).unwrap())
    };
    look("alice").await.expect_replay(201, "paid");
    look("bob").await.expect_problem("no-such-operation");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test]
async fn what_nobody_knows_is_held_under_every_key() {
    let shop = Shop::new(async |_: Run| Err("cut".into()));
    let shop = shop.terms(once(Then::Return));
    for key in ["k1", "k2", "k1"] {
        let seen = shop.send(order(key)).await;
        seen.expect_problem("outcome-unknown");
    }
    assert_eq!(shop.runs(), 1);
}

#[tokio::test]
async fn a_replay_is_given_whatever_the_rules_have_become() {
    let shop = numbering();
    shop.send(pay("k1").saying("{}"))
        .await
        .expect_first(201, "receipt 1");
    let ruled = shop.terms(once(Then::Return));
    ruled
        .send(pay("k1").saying("{}"))
        .await
        .expect_replay(201, "receipt 1");
}

#[tokio::test]
async fn two_routes_meet_in_one_identity() {
    let shop = numbering().terms(once(Then::Return));
    shop.send(order("k1")).await.expect_first(201, "receipt 1");
    let other = order("k1").to(Method::POST, "/v2/payments");
    shop.send(other).await.expect_replay(201, "receipt 1");
}

// --- suspicion ------------------------------------------------------------------------------

fn confirmed(key: &str) -> Request<Sent> {
    order(key).with("idempotency-confirm", "intended")
}

#[tokio::test]
async fn a_suspected_duplicate_passes_is_refused_or_is_answered() {
    let flagged = numbering().terms(suspecting(Suspicion::Flag));
    flagged
        .send(order("k1"))
        .await
        .expect_first(201, "receipt 1");
    flagged
        .send(order("k2"))
        .await
        .expect_first(201, "receipt 2");
    let record = flagged.record("k2").await.unwrap();
    assert_eq!(record.audit.len(), 1);

    let refused = numbering().terms(suspecting(Suspicion::Refuse));
    refused
        .send(order("k1"))
        .await
        .expect_first(201, "receipt 1");
    let seen = refused.send(order("k2")).await;
    let told = seen.expect_problem("suspected-duplicate");
    assert_eq!(seen.status, 409);
    assert_eq!(told["rule"], "same-payment");
    refused.world.clock.advance(WINDOW + SECOND);
    refused
        .send(order("k2"))
        .await
        .expect_first(201, "receipt 2");

    let answered = numbering().terms(suspecting(Suspicion::Return));
    answered
        .send(order("k1"))
        .await
        .expect_first(201, "receipt 1");
    answered
        .send(order("k2"))
        .await
        .expect_replay(201, "receipt 1");
}

#[tokio::test]
async fn whoever_confirms_is_served_and_the_next_is_compared_with_that() {
    for then in [Suspicion::Refuse, Suspicion::Return] {
        let shop = numbering().terms(suspecting(then));
        shop.send(order("k1")).await.expect_first(201, "receipt 1");
        shop.send(confirmed("k2"))
            .await
            .expect_first(201, "receipt 2");
        shop.send(order("k2")).await.expect_replay(201, "receipt 2");
        let next = shop.send(order("k3")).await;
        match then {
            Suspicion::Return => drop(next.expect_replay(201, "receipt 2")),
            _ => drop(next.expect_problem("suspected-duplicate")),
        }
        let mumbled = order("k4").with("idempotency-confirm", "perhaps");
        let mumbled = shop.send(mumbled).await;
        assert_ne!(mumbled.handled.outcome, "original");
    }
}

#[tokio::test]
async fn the_word_that_confirms_goes_no_further() {
    let shop = Shop::new(async |run: Run| {
        assert!(!run.request.headers().contains_key("idempotency-confirm"));
        Ok(answer(201, "paid"))
    });
    shop.send(confirmed("k1")).await.expect_first(201, "paid");
    let unkeyed = confirmed("k").without("idempotency-key");
    assert_eq!(shop.send(unkeyed).await.handled.outcome, "passed");
}

#[tokio::test]
async fn whoever_says_too_little_is_not_suspected() {
    let shop = numbering().terms(suspecting(Suspicion::Refuse));
    let little = |key: &str| pay(key).saying(r#"{"user":"u1"}"#);
    shop.send(little("k1")).await.expect_first(201, "receipt 1");
    shop.send(little("k2")).await.expect_first(201, "receipt 2");
    let other = pay("k3").saying(r#"{"user":"u1","amount":6}"#);
    shop.send(other).await.expect_first(201, "receipt 3");
    shop.send(order("k4")).await.expect_first(201, "receipt 4");
    let bob = order("k5").without("x-caller").with("x-caller", "bob");
    shop.send(bob).await.expect_first(201, "receipt 5");
}

// --- bodies that go first -------------------------------------------------------------------

#[tokio::test]
async fn a_late_retry_is_told_what_the_status_was() {
    let shop = numbering().terms(|terms| {
        let terms = once(Then::Return)(terms);
        let policy = terms.policy.clone().keep_body(SECOND * 60);
        terms.policy(policy)
    });
    shop.send(order("k1")).await.expect_first(201, "receipt 1");
    shop.world.clock.advance(SECOND * 59);
    shop.send(order("k1")).await.expect_replay(201, "receipt 1");
    shop.world.clock.advance(SECOND * 2);
    // The order is still paid, whatever the key.
    for key in ["k1", "k2"] {
        let seen = shop.send(order(key)).await;
        let told = seen.expect_problem("answer-not-kept");
        assert_eq!(seen.status, 409);
        assert_eq!(seen.headers["location"], "/payments/1");
        assert_eq!(told["original_status"], 201);
    }
    assert_eq!(shop.runs(), 1);
}
