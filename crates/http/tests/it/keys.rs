//! Keys: which are taken, which are refused, and who may use one.

use std::time::{Duration, UNIX_EPOCH};

use http::Method;
use onceward::clock::{Clock as _, SystemClock};
use onceward_http::{KeyNeed, KeySource, Pointer, Profile};

use crate::world::{Change, Shop, pay};

const DAY: Duration = Duration::from_secs(86_400);

fn profile(profile: Profile) -> Shop {
    Shop::open().terms(|terms| terms.profile(profile))
}

/// An HTTP date this long ago.
fn date(ago: Duration) -> String {
    let now = Duration::from_micros(SystemClock.wall().as_micros());
    httpdate::fmt_http_date(UNIX_EPOCH + now - ago)
}

/// A UUIDv7 made this long ago.
fn uuid_v7(ago: Duration) -> String {
    let now = Duration::from_micros(SystemClock.wall().as_micros());
    let millis = u64::try_from((now - ago).as_millis()).unwrap();
    let uuid = uuid::Builder::from_unix_timestamp_millis(millis, &[7; 10]);
    uuid.into_uuid().to_string()
}

#[tokio::test(start_paused = true)]
async fn a_required_key_that_is_missing_is_refused() {
    let shop = Shop::open().terms(|terms| terms.key(KeyNeed::Required));
    let seen = shop.send(pay("k").without("idempotency-key")).await;
    seen.expect_problem("missing-key");
    assert_eq!(seen.status, 400);
    assert_eq!(seen.headers["x-should-retry"], "false");
    assert!(!seen.headers.contains_key("retry-after"));
    assert_eq!(shop.runs(), 0);

    shop.send(pay("k")).await.expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_key_is_refused_and_executes_nothing() {
    let shop = Shop::open();
    let long = "k".repeat(256);
    let bad = [
        "", " ", "a b", "a,b", "a\"b", "\"a", "\"a\"b", "\"\"", &long,
    ];
    for key in bad {
        let seen = shop.send(pay(key)).await;
        seen.expect_problem("invalid-key");
        assert_eq!(seen.status, 400, "{key:?}");
    }
    assert_eq!(shop.runs(), 0);
    assert_eq!(shop.world.store.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn keys_that_real_clients_send_are_taken() {
    let shop = Shop::open();
    let long = "k".repeat(255);
    let good = [
        "8e03978e-40d5-43e8-bc93-6894a57f9324",
        "stainless-node-retry-8e03978e-40d5-43e8-bc93-6894a57f9324",
        "dGhl/eQ+=",
        "340282366920938463463374607431768211455",
        "a/b",
        &long,
    ];
    for (done, key) in good.into_iter().enumerate() {
        shop.send(pay(key)).await.expect_first(201, "paid");
        shop.send(pay(key)).await.expect_replay(201, "paid");
        assert_eq!(shop.runs(), done + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn two_keys_are_refused_even_if_they_agree() {
    let shop = Shop::open();
    let twice = pay("k").with("idempotency-key", "k");
    shop.send(twice).await.expect_problem("invalid-key");
    let differing = pay("k").with("x-idempotency-key", "j");
    shop.send(differing).await.expect_problem("invalid-key");
    assert_eq!(shop.runs(), 0);

    let agreeing = pay("k").with("x-idempotency-key", "\"k\"");
    shop.send(agreeing).await.expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn quoted_and_bare_are_one_key_under_either_name() {
    let shop = Shop::open();
    shop.send(pay("abc")).await.expect_first(201, "paid");
    shop.send(pay("\"abc\"")).await.expect_replay(201, "paid");
    let other = pay("abc").without("idempotency-key");
    let other = other.with("x-idempotency-key", "\"abc\"");
    shop.send(other).await.expect_replay(201, "paid");
    shop.send(pay("ABC")).await.expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn the_strict_profile_wants_quotes() {
    let shop = profile(Profile::IetfStrict);
    shop.send(pay("abc")).await.expect_problem("invalid-key");
    shop.send(pay("\"abc\"")).await.expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn a_key_may_stand_in_the_body() {
    let pointer = Pointer::parse("/key").unwrap();
    let shop = Shop::open().terms(|terms| terms.key_from(KeySource::Json(pointer)));
    let request = |body| pay("ignored").saying(body);
    for _ in 0..2 {
        let seen = shop.send(request("{}")).await;
        assert_eq!(seen.handled.outcome, "passed");
    }
    let keyed = r#"{"key":"k1"}"#;
    shop.send(request(keyed)).await.expect_first(201, "paid");
    shop.send(request(keyed)).await.expect_replay(201, "paid");
    let other = r#"{"key":"k1","amount":2}"#;
    shop.send(request(other)).await.expect_problem("key-reused");
    let unidentified = request(keyed).without("x-caller");
    let seen = shop.send(unidentified).await;
    seen.expect_problem("unidentified-caller");
    assert_eq!(shop.runs(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_required_key_that_is_not_in_the_body_is_missing() {
    let pointer = Pointer::parse("/key").unwrap();
    let source = KeySource::Json(pointer);
    let shop = Shop::open().terms(|terms| terms.key_from(source).key(KeyNeed::Required));
    let seen = shop.send(pay("ignored").saying("{}")).await;
    seen.expect_problem("missing-key");
    assert_eq!(shop.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_may_stand_in_the_query() {
    let shop = Shop::open().terms(|terms| terms.key_from(KeySource::Query("key".into())));
    let request = |target| pay("ignored").to(Method::POST, target);
    let keyed = "/payments?key=k1";
    shop.send(request(keyed)).await.expect_first(201, "paid");
    shop.send(request(keyed)).await.expect_replay(201, "paid");
    let seen = shop.send(request("/payments?a=b")).await;
    assert_eq!(seen.handled.outcome, "passed");
    let seen = shop.send(request("/payments?key=a&key=b")).await;
    seen.expect_problem("invalid-key");
}

#[tokio::test(start_paused = true)]
async fn nobody_in_particular_may_not_use_a_key() {
    let shop = Shop::open();
    let seen = shop.send(pay("k").without("x-caller")).await;
    seen.expect_problem("unidentified-caller");
    assert_eq!(seen.status, 401);
    // Not even to learn that there is an answer.
    shop.send(pay("k")).await.expect_first(201, "paid");
    let seen = shop.send(pay("k").without("x-caller")).await;
    seen.expect_problem("unidentified-caller");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_or_a_tunnel_with_a_key_is_refused() {
    let shop = Shop::open();
    let seen = shop.send(pay("k").with("upgrade", "websocket")).await;
    seen.expect_problem("upgrade-refused");
    assert_eq!(seen.status, 400);
    let tunnel = pay("k").to(Method::CONNECT, "example.com:443");
    shop.send(tunnel).await.expect_problem("method-refused");
    assert_eq!(shop.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_tells_its_age_may_be_too_old() {
    let shop = Shop::open().terms(|mut terms| {
        terms.key_age_max = Some(DAY);
        terms
    });
    let seen = shop.send(pay(&uuid_v7(DAY * 2))).await;
    seen.expect_problem("expired");
    assert_eq!(seen.status, 410);
    assert_eq!(shop.runs(), 0);

    shop.send(pay(&uuid_v7(DAY / 2)))
        .await
        .expect_first(201, "paid");
    let ageless = "8e03978e-40d5-43e8-bc93-6894a57f9324";
    shop.send(pay(ageless)).await.expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn repeatable_requests_say_when_they_were_first_sent() {
    let shop = profile(Profile::Oasis);
    let request = |sent: &str| {
        let request = pay("k").without("idempotency-key");
        let request = request.with("repeatability-request-id", "k");
        request.with("repeatability-first-sent", sent)
    };
    let bare = request("").without("repeatability-first-sent");
    for undated in [bare, request("yesterday")] {
        let seen = shop.send(undated).await;
        seen.expect_problem("invalid-key");
        assert_eq!(seen.headers["repeatability-result"], "rejected");
    }
    let seen = shop.send(request(&date(DAY * 2))).await;
    seen.expect_problem("expired");
    assert_eq!(seen.status, 412);
    assert_eq!(shop.runs(), 0);

    let sent = date(DAY / 2);
    let first = shop.send(request(&sent)).await.expect_first(201, "paid");
    assert_eq!(first.headers["repeatability-result"], "accepted");
    let again = shop.send(request(&sent)).await.expect_replay(201, "paid");
    assert_eq!(again.headers["repeatability-result"], "accepted");
    let reused = shop.send(request(&sent).saying("200")).await;
    reused.expect_problem("key-reused");
    assert_eq!(reused.status, 400);

    let streaming = shop.terms(|terms| terms.stream(true));
    let other = || request(&sent).to(Method::PUT, "/payments");
    let first = streaming.send(other()).await.expect_first(201, "paid");
    assert_eq!(first.headers["repeatability-result"], "accepted");
    let again = streaming.send(other()).await.expect_replay(201, "paid");
    assert_eq!(again.headers["repeatability-result"], "accepted");
}

#[tokio::test]
async fn an_upgrade_with_a_key_in_its_body_is_refused_as_well() {
    let pointer = Pointer::parse("/id").unwrap();
    let shop = Shop::open().terms(|terms| terms.key_from(KeySource::Json(pointer)));
    let asked = pay("unused")
        .without("idempotency-key")
        .with("upgrade", "websocket")
        .saying(r#"{"id":"k"}"#);
    shop.send(asked).await.expect_problem("upgrade-refused");
    assert_eq!(shop.runs(), 0);
}
