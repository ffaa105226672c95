//! The same work under another key: what is written down for it is paid for, and what was done is
//! told to everybody.

use http::Request;
use onceward::Then;
use onceward_http::{Fields, Terms, UniqueRule};

use super::{expect_over, per_second, records};
use crate::world::{Change as _, Sent, Shop, pay};

/// Terms under which an order is paid for once.
pub(super) fn one_per_order(then: Then) -> impl FnOnce(Terms) -> Terms {
    let rule = UniqueRule::new("paid-order", Fields::parse(["/order"]).unwrap());
    move |terms| terms.unique(rule.then(then))
}

/// A payment of the one order.
fn order(key: &str) -> Request<Sent> {
    pay(key).saying(r#"{"order":1001}"#)
}

/// Sees that the caller has used up its claims.
async fn expect_used_up(shop: &Shop) {
    let other = pay("other").saying(r#"{"order":1002}"#);
    expect_over(&shop.send(other).await, "claims_per_second");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_written_down_under_another_key_is_paid_for() {
    let shop = per_second(2).terms(one_per_order(Then::Return));
    shop.send(order("k1")).await.expect_first(201, "paid");
    shop.send(order("k2")).await.expect_replay(201, "paid");
    expect_used_up(&shop).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_waited_for_under_another_key_is_paid_for() {
    let (shop, gate) = Shop::gated();
    let shop = shop.quotas(|limits| limits.claims_per_second = Some(2), |quotas| quotas);
    let shop = shop.terms(one_per_order(Then::Return));
    let first = shop.start(order("k1"));
    shop.world.settle().await;
    let waiting = shop.start(order("k2"));
    shop.world.settle().await;
    gate.add_permits(2);
    first.await.unwrap().expect_first(201, "paid");
    waiting.await.unwrap().expect_replay(201, "paid");
    expect_used_up(&shop).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_has_nothing_left_is_told_what_was_done_under_another_key() {
    let shop = per_second(1).terms(one_per_order(Then::Return));
    shop.send(order("k1")).await.expect_first(201, "paid");
    let before = records(&shop).await;
    for key in ["k2", "k3", "k2"] {
        shop.send(order(key)).await.expect_replay(201, "paid");
    }
    let refusing = shop.terms(|mut terms| {
        terms.unique.clear();
        one_per_order(Then::Refuse)(terms)
    });
    let seen = refusing.send(order("k4")).await;
    seen.expect_problem("already-done");
    // Nothing was written for them.
    assert_eq!((refusing.runs(), records(&refusing).await), (1, before));
    expect_used_up(&refusing).await;
}
