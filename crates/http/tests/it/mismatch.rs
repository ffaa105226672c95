//! Another request under a used key: refused in every state, and told nothing.

use http::Method;
use onceward_http::{BodyRule, FingerprintRules, Profile};

use crate::world::{Change, Seen, Shop, answer, pay};

fn json() -> FingerprintRules {
    FingerprintRules {
        body: BodyRule::Json {
            ignore: Vec::new(),
            only: Vec::new(),
        },
        headers: Vec::new(),
    }
}

fn expect_reused(seen: &Seen) {
    seen.expect_problem("key-reused");
    assert_eq!(seen.status, 422);
    assert_eq!(seen.headers["x-should-retry"], "false");
    assert!(!seen.headers.contains_key("retry-after"));
    assert!(!seen.headers.contains_key("idempotent-replayed"));
    assert!(!String::from_utf8_lossy(&seen.body).contains("secret"));
}

#[tokio::test(start_paused = true)]
async fn another_body_under_a_completed_key_is_refused() {
    let shop = Shop::answering(|| answer(201, "secret"));
    shop.send(pay("k")).await.expect_first(201, "secret");
    expect_reused(&shop.send(pay("k").saying("200")).await);
    shop.send(pay("k")).await.expect_replay(201, "secret");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_body_is_refused_at_once_while_the_first_runs() {
    let (shop, gate) = Shop::gated();
    let first = shop.start_running("k").await;
    // No time passes, so this did not wait for the first.
    let other = shop.start(pay("k").saying("200"));
    shop.world.settle().await;
    assert!(other.is_finished());
    expect_reused(&other.await.unwrap());
    gate.add_permits(1);
    first.await.unwrap().expect_first(201, "paid");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_body_under_an_unknown_key_is_refused() {
    let shop = Shop::answering(|| answer(502, "secret"));
    shop.send(pay("k")).await.expect_not_stored(502, "secret");
    expect_reused(&shop.send(pay("k").saying("200")).await);
    shop.expect_unknown("k").await;
}

#[tokio::test(start_paused = true)]
async fn another_body_is_refused_while_a_lapsed_claim_is_there() {
    let (shop, _gate) = Shop::gated();
    let _first = shop.start_running("k").await;
    shop.world.clock.advance(shop.world.policy.lease * 2);
    expect_reused(&shop.send(pay("k").saying("200")).await);
}

#[tokio::test(start_paused = true)]
async fn what_a_request_means_is_compared_and_what_a_retry_changes_is_not() {
    let shop = Shop::open();
    let first = || pay("k").with("content-type", "application/json; charset=utf-8");
    shop.send(first()).await.expect_first(201, "paid");

    let query = first().to(Method::POST, "/payments?a=1");
    expect_reused(&shop.send(query).await);
    let media = first()
        .without("content-type")
        .with("content-type", "text/plain");
    expect_reused(&shop.send(media).await);
    let coded = first().with("content-encoding", "gzip");
    expect_reused(&shop.send(coded).await);

    let retried = first()
        .with("x-stainless-retry-count", "1")
        .with("date", "Thu, 01 Jan 1970 00:00:00 GMT")
        .with("range", "bytes=0-1")
        .with("authorization", "Bearer refreshed")
        .with("traceparent", "00-1-2-01");
    shop.send(retried).await.expect_replay(201, "paid");
    let parameters = first()
        .without("content-type")
        .with("content-type", "application/json");
    shop.send(parameters).await.expect_replay(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn headers_that_carry_meaning_are_compared() {
    let shop = Shop::open().terms(|terms| {
        terms.fingerprint(FingerprintRules {
            headers: vec![http::header::IF_MATCH],
            ..FingerprintRules::default()
        })
    });
    let request = |etag: &str| pay("k").with("if-match", etag);
    shop.send(request("\"1\"")).await.expect_first(201, "paid");
    shop.send(request("\"1\"")).await.expect_replay(201, "paid");
    expect_reused(&shop.send(request("\"2\"")).await);
    expect_reused(&shop.send(pay("k")).await);
}

#[tokio::test(start_paused = true)]
async fn json_is_compared_by_what_it_says() {
    let shop = Shop::open().terms(|terms| terms.fingerprint(json()));
    let request = |body| {
        pay("k")
            .with("content-type", "application/json")
            .saying(body)
    };
    let first = r#"{"a":1,"b":[2]}"#;
    shop.send(request(first)).await.expect_first(201, "paid");
    let same = r#"{ "b": [2.0], "a": 1e0 }"#;
    shop.send(request(same)).await.expect_replay(201, "paid");
    expect_reused(&shop.send(request(r#"{"a":1,"b":[3]}"#)).await);
}

#[tokio::test(start_paused = true)]
async fn each_profile_has_its_own_status_for_it() {
    for (profile, status) in [
        (Profile::Ietf, 422),
        (Profile::IetfStrict, 422),
        (Profile::Stripe, 400),
        (Profile::SuccessOnly, 422),
    ] {
        let shop = Shop::open().terms(|terms| terms.profile(profile));
        shop.send(pay("\"k\"")).await.expect_first(201, "paid");
        let seen = shop.send(pay("\"k\"").saying("200")).await;
        let body = seen.expect_problem("key-reused");
        assert_eq!(seen.status, status, "{profile:?}");
        assert_eq!(body["error"]["type"], "idempotency_error");
    }
}

#[tokio::test(start_paused = true)]
async fn records_made_under_the_previous_rules_are_still_recognised() {
    let old = Shop::open();
    let mut new = Shop::open().terms(|mut terms| {
        terms.previous_fingerprint = Some(FingerprintRules::default());
        terms.fingerprint(json())
    });
    new.world = old.world.clone();
    let request = |body| {
        pay("k")
            .with("content-type", "application/json")
            .saying(body)
    };
    let spaced = r#"{"a": 1}"#;
    old.send(request(spaced)).await.expect_first(201, "paid");
    new.send(request(spaced)).await.expect_replay(201, "paid");
    // The record knows the bytes alone, so that other bytes are another request to it.
    expect_reused(&new.send(request(r#"{"a":1}"#)).await);
    assert_eq!((old.runs(), new.runs()), (1, 0));

    let mut forgetful = Shop::open().terms(|terms| terms.fingerprint(json()));
    forgetful.world = old.world.clone();
    expect_reused(&forgetful.send(request(spaced)).await);
}
