//! Quotas: what one caller may take, and what is never limited.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use http::request::Parts;
use onceward::Then;
use onceward::store::Filter;
use onceward::testing::{Call, Fault};
use onceward_http::quota::{Limits, Quotas};

use self::orders::one_per_order;
use crate::world::{Change, Seen, Shop, answer, pay};

mod holdings;
mod orders;

const SECOND: Duration = Duration::from_secs(1);

impl Shop {
    /// The same shop with limits to what a caller may take, by the clock of the world.
    fn quotas(
        mut self,
        limits: impl FnOnce(&mut Limits),
        change: impl FnOnce(Quotas) -> Quotas,
    ) -> Self {
        let mut all = Limits::default();
        limits(&mut all);
        let quotas = Quotas::new(all).clock(self.world.clock.clone());
        self.quotas = Some(Arc::new(change(quotas)));
        self
    }

    /// What callers may take, and have taken.
    fn taken(&self) -> &Quotas {
        self.quotas.as_ref().expect("the shop has quotas")
    }
}

/// A shop whose callers may take so much.
fn limited(limits: impl FnOnce(&mut Limits)) -> Shop {
    Shop::open().quotas(limits, |quotas| quotas)
}

fn per_second(number: u32) -> Shop {
    limited(|limits| limits.claims_per_second = Some(number))
}

/// Sees a refusal that names this limit, in every place.
#[track_caller]
fn expect_over(seen: &Seen, limit: &str) {
    let body = seen.expect_problem("too-many-claims");
    assert_eq!(seen.status, 429);
    assert_eq!(body["limit"], limit);
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains(limit), "{message}");
    let left = seen.headers["ratelimit"].to_str().unwrap();
    assert!(left.starts_with(&format!("\"{limit}\";r=0;t=")), "{left}");
    let policy = seen.headers["ratelimit-policy"].to_str().unwrap();
    assert!(policy.contains(&format!("\"{limit}\";q=")), "{policy}");
    let after: u64 = seen.headers["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(after >= 1);
}

async fn records(shop: &Shop) -> usize {
    let page = shop
        .world
        .engine
        .list(&Filter::default(), None, 1_000)
        .await;
    page.unwrap().value.records.len()
}

// --- rates ----------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_new_claim_over_the_rate_is_refused_and_nothing_is_written() {
    let shop = per_second(2);
    shop.send(pay("k1")).await.expect_first(201, "paid");
    shop.send(pay("k2")).await.expect_first(201, "paid");
    expect_over(&shop.send(pay("k3")).await, "claims_per_second");
    assert_eq!((shop.runs(), records(&shop).await), (2, 2));
    shop.world.pass(SECOND + SECOND / 20).await;
    shop.send(pay("k3")).await.expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn replays_are_never_limited() {
    let shop = per_second(1);
    shop.send(pay("k")).await.expect_first(201, "paid");
    for _ in 0..50 {
        let again = shop.send(pay("k")).await.expect_replay(201, "paid");
        assert!(!again.headers.contains_key("ratelimit"));
    }
    expect_over(&shop.send(pay("new")).await, "claims_per_second");
    shop.send(pay("k")).await.expect_replay(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn a_day_has_its_own_limit() {
    let shop = limited(|limits| limits.claims_per_day = Some(3));
    for key in ["k1", "k2", "k3"] {
        shop.send(pay(key)).await.expect_first(201, "paid");
        shop.world.clock.advance(SECOND * 3_600);
    }
    let refused = shop.send(pay("k4")).await;
    expect_over(&refused, "claims_per_day");
    let after: u64 = refused.headers["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((20 * 3_600..22 * 3_600).contains(&after), "{after}");
    shop.world.clock.advance(Duration::from_secs(after));
    shop.send(pay("k4")).await.expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn a_new_claim_is_told_what_is_left() {
    let shop = limited(|limits| {
        limits.claims_per_second = Some(5);
        limits.claims_per_day = Some(100);
    });
    let first = shop.send(pay("k")).await.expect_first(201, "paid");
    let left = first.headers["ratelimit"].to_str().unwrap();
    assert!(left.starts_with("\"claims_per_second\";r=4;t="), "{left}");
    assert!(left.contains(", \"claims_per_day\";r=99;t="), "{left}");
    let policy = "\"claims_per_second\";q=5;w=1, \"claims_per_day\";q=100;w=86400";
    assert_eq!(first.headers["ratelimit-policy"], policy);
}

#[tokio::test(start_paused = true)]
async fn limits_of_the_service_itself_are_passed_on() {
    let shop = Shop::answering(|| {
        let mut answer = answer(201, "paid");
        let own = http::HeaderValue::from_static("\"own\";r=7");
        answer.headers_mut().insert("ratelimit", own);
        answer
    });
    let shop = shop.quotas(|limits| limits.claims_per_second = Some(5), |quotas| quotas);
    let first = shop.send(pay("k")).await.expect_first(201, "paid");
    assert_eq!(first.headers["ratelimit"], "\"own\";r=7");
}

#[tokio::test(start_paused = true)]
async fn another_caller_is_not_affected() {
    let shop = per_second(1);
    shop.send(pay("k")).await.expect_first(201, "paid");
    expect_over(&shop.send(pay("k2")).await, "claims_per_second");
    let bob = pay("k2").without("x-caller").with("x-caller", "bob");
    shop.send(bob).await.expect_first(201, "paid");
}

// --- duplicates -----------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn duplicates_that_wait_take_nothing() {
    let (shop, gate) = Shop::gated();
    let shop = shop.quotas(
        |limits| {
            limits.claims_per_second = Some(2);
            limits.running = Some(2);
        },
        |quotas| quotas,
    );
    let first = shop.start_running("k").await;
    let waiting: Vec<_> = (0..10).map(|_| shop.start(pay("k"))).collect();
    shop.world.settle().await;
    // One place is left, whoever waits.
    let second = shop.start_running("k2").await;
    expect_over(&shop.send(pay("k3")).await, "claims_per_second");
    // Nothing is left, and duplicates still wait.
    let late = shop.start(pay("k"));
    shop.world.settle().await;
    assert!(!late.is_finished());
    gate.add_permits(2);
    first.await.unwrap().expect_first(201, "paid");
    second.await.unwrap().expect_first(201, "paid");
    for duplicate in waiting.into_iter().chain([late]) {
        duplicate.await.unwrap().expect_replay(201, "paid");
    }
    assert_eq!(shop.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_becomes_free_while_one_waits_is_paid_for() {
    let status = Arc::new(AtomicU16::new(503));
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let (now, held) = (status.clone(), gate.clone());
    let shop = Shop::new(move |_| {
        let (now, held) = (now.clone(), held.clone());
        async move {
            held.acquire().await.unwrap().forget();
            Ok(answer(now.load(Ordering::SeqCst), "said"))
        }
    });
    let shop = shop.quotas(|limits| limits.claims_per_second = Some(1), |quotas| quotas);
    let first = shop.start_running("k").await;
    let waiting = shop.start(pay("k"));
    shop.world.settle().await;
    gate.add_permits(2);
    first.await.unwrap().expect_not_stored(503, "said");
    // It got the slot, and had nothing left to pay with.
    expect_over(&shop.ended(waiting).await, "claims_per_second");
    assert_eq!((shop.runs(), records(&shop).await), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn duplicates_on_their_way_to_the_store_refuse_nobody() {
    let shop = limited(|limits| limits.running = Some(2));
    shop.send(pay("k")).await.expect_first(201, "paid");
    shop.world.store.set_far(true);
    shop.world.store.fail_next_of(Call::Insert, 2, Fault::Held);
    let replays: Vec<_> = (0..2).map(|_| shop.start(pay("k"))).collect();
    shop.world.store.until_held().await;
    shop.world.settle().await;
    shop.send(pay("new")).await.expect_first(201, "paid");
    shop.world.store.release();
    for replay in replays {
        replay.await.unwrap().expect_replay(201, "paid");
    }
}

#[tokio::test(start_paused = true)]
async fn of_those_who_ask_at_once_no_more_begin_than_may() {
    let (shop, gate) = Shop::gated();
    let shop = shop.quotas(|limits| limits.running = Some(2), |quotas| quotas);
    gate.add_permits(1);
    shop.send(pay("k0")).await.expect_first(201, "paid");
    shop.world.store.fail_next_of(Call::Insert, 2, Fault::Held);
    let early: Vec<_> = ["k1", "k2"].map(|key| shop.start(pay(key))).into();
    shop.world.store.until_held().await;
    shop.world.settle().await;
    // It is known to be new before they are.
    let late = shop.start_running("k3").await;
    shop.world.store.release();
    shop.world.settle().await;
    assert_eq!(shop.runs(), 3);
    gate.add_permits(9);
    late.await.unwrap().expect_first(201, "paid");
    let mut over = 0;
    for early in early {
        let seen = early.await.unwrap();
        match seen.status.as_u16() {
            201 => {}
            _ => {
                expect_over(&seen, "running");
                over += 1;
            }
        }
    }
    assert_eq!((over, shop.runs(), records(&shop).await), (1, 3, 3));
}

// --- running --------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn so_many_may_run_and_a_place_is_free_again_when_one_ends() {
    let (shop, gate) = Shop::gated();
    let shop = shop.quotas(|limits| limits.running = Some(2), |quotas| quotas);
    let first = shop.start_running("k1").await;
    let second = shop.start_running("k2").await;
    expect_over(&shop.send(pay("k3")).await, "running");
    gate.add_permits(1);
    shop.world.settle().await;
    let third = shop.start_running("k3").await;
    gate.add_permits(2);
    for running in [first, second, third] {
        running.await.unwrap().expect_first(201, "paid");
    }
    assert_eq!(shop.runs(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_hangs_up_keeps_its_place_until_the_work_ends() {
    let (shop, gate) = Shop::gated();
    let shop = shop.quotas(|limits| limits.running = Some(1), |quotas| quotas);
    shop.start_running("k1").await.abort();
    shop.world.settle().await;
    expect_over(&shop.send(pay("k2")).await, "running");
    gate.add_permits(2);
    shop.world.settle().await;
    shop.send(pay("k2")).await.expect_first(201, "paid");
}

// --- mismatches -----------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn probing_for_mismatches_is_limited_and_then_tells_nothing() {
    let shop = limited(|limits| limits.mismatches_per_minute = Some(3));
    shop.send(pay("k")).await.expect_first(201, "paid");
    for guess in ["1", "2", "3"] {
        shop.send(pay("k").saying(guess))
            .await
            .expect_problem("key-reused");
    }
    let used = shop.send(pay("k").saying("4")).await;
    let fresh = shop.send(pay("never-used").saying("4")).await;
    expect_over(&used, "mismatches_per_minute");
    expect_over(&fresh, "mismatches_per_minute");
    let told = |seen: &Seen| {
        let mut body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        body["instance"] = "".into();
        (body, seen.headers["ratelimit"].clone())
    };
    assert_eq!(told(&used), told(&fresh), "the two look the same");
    // Replays go on, and so does everything after the minute.
    shop.send(pay("k")).await.expect_replay(201, "paid");
    shop.world.clock.advance(SECOND * 62);
    shop.send(pay("k").saying("4"))
        .await
        .expect_problem("key-reused");
    shop.send(pay("k2")).await.expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn probing_is_limited_whether_or_not_the_request_has_what_a_rule_needs() {
    let shop = limited(|limits| limits.mismatches_per_minute = Some(3));
    shop.send(pay("k")).await.expect_first(201, "paid");
    let shop = shop.terms(one_per_order(Then::Return));
    shop.world.store.set_far(true);
    for guess in ["1", "2", "3"] {
        shop.send(pay("k").saying(guess))
            .await
            .expect_problem("key-reused");
    }
    let seen = shop.send(pay("k").saying("4")).await;
    expect_over(&seen, "mismatches_per_minute");
}

// --- peers ----------------------------------------------------------------------------------

fn peer_of(parts: &Parts) -> Option<IpAddr> {
    parts.headers.get("x-peer")?.to_str().ok()?.parse().ok()
}

#[tokio::test(start_paused = true)]
async fn invented_callers_share_the_quota_of_their_address() {
    let by_peer = |quotas: Quotas| quotas.peers(peer_of);
    let shop = Shop::open().quotas(|limits| limits.claims_per_second = Some(2), by_peer);
    let from = |caller: &str, peer: &str| {
        let asked = pay("k").without("x-caller").with("x-caller", caller);
        shop.send(asked.with("x-peer", peer))
    };
    from("one", "10.0.0.1").await.expect_first(201, "paid");
    from("two", "10.0.0.1").await.expect_first(201, "paid");
    expect_over(&from("three", "10.0.0.1").await, "claims_per_second");
    from("three", "10.0.0.2").await.expect_first(201, "paid");
    // A peer has a whole network of IPv6 addresses.
    from("four", "2001:db8::1").await.expect_first(201, "paid");
    from("five", "2001:db8::2").await.expect_first(201, "paid");
    expect_over(&from("six", "2001:db8::3").await, "claims_per_second");
    from("six", "2001:db8:0:1::3")
        .await
        .expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn many_arrivals_at_once_get_no_more_than_the_quota() {
    let shop = per_second(10);
    let tasks: Vec<_> = (0..200)
        .map(|key| shop.start(pay(&format!("k{key}"))))
        .collect();
    let mut granted = 0;
    for task in tasks {
        granted += usize::from(task.await.unwrap().status == 201);
    }
    assert_eq!((granted, shop.runs(), records(&shop).await), (10, 10, 10));
}
