//! Keys that the server infers, and keys that have to fit their request.

use http::{HeaderName, Method, Request};
use onceward_http::{
    BodyRule, Field, Fields, FingerprintRules, KeyNeed, KeySource, PathFields, Profile, Terms,
};

use crate::world::{Change, Run, Sent, Shop, answer, checksum, pay, pipe};

const SETTLED: &str = r#"{"payment_id":7,"status":"settled"}"#;

fn derived(source: KeySource) -> impl FnOnce(Terms) -> Terms {
    |terms| terms.key(KeyNeed::Derived).key_from(source)
}

fn by_fields(names: &[&str]) -> KeySource {
    KeySource::Fields(Fields::parse(names).unwrap())
}

/// A shop whose payments are named by their id and status.
fn settling() -> Shop {
    Shop::open().terms(derived(by_fields(&["/payment_id", "/status"])))
}

fn message(problem: &serde_json::Value) -> &str {
    problem["error"]["message"].as_str().unwrap()
}

fn with_account(mut request: Request<Sent>, account: &str) -> Request<Sent> {
    let path = PathFields::from_iter([("account", account)]);
    request.extensions_mut().insert(path);
    request
}

#[tokio::test(start_paused = true)]
async fn the_fields_name_the_operation_whatever_key_is_sent() {
    let shop = settling();
    shop.send(pay("k1").saying(SETTLED))
        .await
        .expect_first(201, "paid");
    shop.send(pay("k2").saying(SETTLED))
        .await
        .expect_replay(201, "paid");
    let respelled = r#"{ "note":"again", "status":"settled", "payment_id":7.0 }"#;
    let keyless = pay("k").without("idempotency-key").saying(respelled);
    shop.send(keyless).await.expect_replay(201, "paid");
    // What would be refused where keys count.
    let odd = pay("a,b")
        .with("idempotency-key", "c")
        .with("x-idempotency-key", "d");
    shop.send(odd.saying(SETTLED))
        .await
        .expect_replay(201, "paid");
    assert_eq!(shop.runs(), 1);

    let other = r#"{"payment_id":7,"status":"void"}"#;
    shop.send(pay("k1").saying(other))
        .await
        .expect_first(201, "paid");
    let text = r#"{"payment_id":"7","status":"settled"}"#;
    shop.send(pay("k1").saying(text))
        .await
        .expect_replay(201, "paid");
    let another = r#"{"payment_id":"07","status":"settled"}"#;
    shop.send(pay("k1").saying(another))
        .await
        .expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn callers_are_still_told_apart() {
    let shop = settling();
    shop.send(pay("k").saying(SETTLED))
        .await
        .expect_first(201, "paid");
    let bob = || pay("k").without("x-caller").saying(SETTLED);
    shop.send(bob().with("x-caller", "bob"))
        .await
        .expect_first(201, "paid");
    let nobody = shop.send(bob()).await;
    nobody.expect_problem("unidentified-caller");
}

#[tokio::test(start_paused = true)]
async fn under_one_operation_messages_on_two_paths_meet() {
    let shop = settling().terms(|terms| {
        let mut terms = terms.operation("settle-payment");
        terms.fingerprint = FingerprintRules::default();
        terms.previous_fingerprint = Some(FingerprintRules {
            body: BodyRule::None,
            ..FingerprintRules::default()
        });
        terms
    });
    let settled = pay("k")
        .to(Method::POST, "/payment-settled")
        .saying(SETTLED);
    shop.send(settled).await.expect_first(201, "paid");
    let corrected = r#"{"reason":"audit","payment_id":7,"status":"settled"}"#;
    let corrected = pay("k")
        .to(Method::PUT, "/correct-status?by=x")
        .saying(corrected);
    shop.send(corrected).await.expect_replay(201, "paid");
    assert_eq!(shop.runs(), 1);

    let apart = settling();
    for path in ["/payment-settled", "/correct-status"] {
        let sent = pay("k").to(Method::POST, path).saying(SETTLED);
        apart.send(sent).await.expect_first(201, "paid");
    }
}

#[tokio::test(start_paused = true)]
async fn the_service_sees_the_derived_key_and_not_the_sent_one() {
    let shop = Shop::new(|run| {
        let key = run.attempt().key().as_str().to_owned();
        assert!(key.len() == 66 && key.starts_with("d-"), "{key}");
        let headers = run.request.headers();
        let sent = ["idempotency-key", "x-idempotency-key"];
        assert!(sent.iter().all(|name| !headers.contains_key(*name)));
        std::future::ready(Ok(answer(201, "paid")))
    });
    let shop = shop.terms(derived(by_fields(&["/payment_id"])));
    let sent = pay("k").with("x-idempotency-key", "k").saying(SETTLED);
    shop.send(sent).await.expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn a_key_in_the_trailers_goes_no_further() {
    let shop = Shop::new(async |run: Run| {
        let Ok(whole) = run.request.into_body().into_whole() else {
            panic!("a body with a key is read in full");
        };
        let trailers = whole.into_parts().1.expect("the checksum is left");
        assert!(trailers.contains_key("x-checksum"), "{trailers:?}");
        assert!(!trailers.contains_key("idempotency-key"), "{trailers:?}");
        Ok(answer(201, "paid"))
    });
    let shop = shop.terms(derived(KeySource::BodyHash));
    let (up, body) = pipe();
    up.data("abc");
    let mut trailers = checksum();
    trailers.insert("idempotency-key", "mine".parse().unwrap());
    up.trailers(trailers);
    drop(up);
    let sent = pay("k").map(|_| body);
    shop.send(sent).await.expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn the_key_of_a_body_is_what_b3sum_prints() {
    let shop = Shop::new(|run| {
        let key = run.attempt().key().as_str();
        let sum = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
        assert_eq!(key.strip_prefix("d-"), Some(sum));
        std::future::ready(Ok(answer(201, "paid")))
    });
    let shop = shop.terms(derived(KeySource::BodyHash));
    let sent = pay("k").saying("abc");
    shop.send(sent).await.expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn fields_that_are_missing_are_named_and_nothing_is_executed() {
    let shop = settling();
    let seen = shop
        .send(pay("k").saying(r#"{"status":null,"iban":"secret"}"#))
        .await;
    assert_eq!(seen.status, 400);
    let told = seen.expect_problem("missing-key");
    assert_eq!(
        message(&told),
        "This operation is named by /payment_id and /status, but the request has no /payment_id \
         and no /status. Nothing was executed."
    );
    let twice = r#"{"payment_id":7,"payment_id":8,"status":"settled"}"#;
    let told = shop
        .send(pay("k").saying(twice))
        .await
        .expect_problem("invalid-key");
    assert!(
        message(&told).contains("JSON that has one meaning"),
        "{told}"
    );
    assert_eq!((shop.runs(), shop.world.store.count()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn methods_that_change_nothing_pass_with_their_headers() {
    let shop = settling();
    let seen = shop.send(pay("k").to(Method::GET, "/payments")).await;
    assert_eq!(seen.handled.outcome, "passed");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_is_named_by_the_bytes_of_its_body() {
    let shop = Shop::open().terms(derived(KeySource::BodyHash));
    shop.send(pay("k1").saying(SETTLED))
        .await
        .expect_first(201, "paid");
    let again = pay("k2")
        .to(Method::POST, "/payments?attempt=2")
        .saying(SETTLED);
    shop.send(again).await.expect_replay(201, "paid");
    let wider = r#"{"payment_id":7, "status":"settled"}"#;
    shop.send(pay("k1").saying(wider))
        .await
        .expect_first(201, "paid");
    let told = shop
        .send(pay("k1").saying(""))
        .await
        .expect_problem("missing-key");
    assert!(message(&told).contains("the request has none"), "{told}");
    assert_eq!(shop.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_is_named_by_the_header_of_its_delivery() {
    let header = HeaderName::from_static("x-delivery-id");
    let source = KeySource::Headers(vec![header]);
    let shop = Shop::open().terms(|terms| {
        // Neither quotes nor dates are asked of who names deliveries.
        derived(source)(terms.profile(Profile::IetfStrict))
    });
    let delivery = |id: &str, body| pay("k,").with("x-delivery-id", id).saying(body);
    shop.send(delivery("d1", SETTLED))
        .await
        .expect_first(201, "paid");
    shop.send(delivery("d1", SETTLED))
        .await
        .expect_replay(201, "paid");
    shop.send(delivery("d1", "{}"))
        .await
        .expect_problem("key-reused");
    shop.send(delivery("d2", SETTLED))
        .await
        .expect_first(201, "paid");
    let nameless = shop.send(pay("k").saying(SETTLED)).await;
    let told = nameless.expect_problem("missing-key");
    assert!(
        message(&told).contains("The header x-delivery-id"),
        "{told}"
    );
    let nobody = shop.send(pay("k").without("x-caller")).await;
    nobody.expect_problem("unidentified-caller");
    assert_eq!(shop.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_part_of_the_path_may_name_the_operation() {
    let shop = Shop::open().terms(derived(by_fields(&["{account}", "/status"])));
    let close = |account| with_account(pay("k").saying(r#"{"status":"closed"}"#), account);
    shop.send(close("7")).await.expect_first(201, "paid");
    shop.send(close("7")).await.expect_replay(201, "paid");
    shop.send(close("8")).await.expect_first(201, "paid");
    let told = shop.send(pay("k").saying(r#"{"status":"closed"}"#)).await;
    assert!(message(&told.expect_problem("missing-key")).contains("no {account}"));
}

#[tokio::test(start_paused = true)]
async fn where_the_key_is_optional_a_request_without_fields_passes() {
    let source = by_fields(&["/payment_id"]);
    let shop = Shop::open().terms(|terms| terms.key_from(source));
    let seen = shop.send(pay("k").saying("{}")).await;
    assert_eq!(seen.handled.outcome, "passed");
    shop.send(pay("k").saying(SETTLED))
        .await
        .expect_first(201, "paid");
    shop.send(pay("j").saying(SETTLED))
        .await
        .expect_replay(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn a_key_has_to_be_equal_to_the_field_that_is_named() {
    let field = Field::parse("/order_id").unwrap();
    let shop = Shop::open().terms(|terms| terms.key_equals(field));
    let text = r#"{"order_id":"o-1"}"#;
    shop.send(pay("o-1").saying(text))
        .await
        .expect_first(201, "paid");
    shop.send(pay("\"o-1\"").saying(text))
        .await
        .expect_replay(201, "paid");
    let digits = r#"{"order_id":42}"#;
    shop.send(pay("42").saying(digits))
        .await
        .expect_first(201, "paid");
    assert_eq!(shop.runs(), 2);

    for (body, told) in [
        (text, "equal to /order_id, and is not"),
        (r#"{"order_id":4.2}"#, "neither a text nor an integer"),
        (r#"{"order_id":null}"#, "but the request has no /order_id"),
        (
            r#"{"order_id":"k","order_id":"k"}"#,
            "JSON that has one meaning",
        ),
    ] {
        let seen = shop.send(pay("k").saying(body)).await;
        assert_eq!(seen.status, 400);
        let problem = seen.expect_problem("invalid-key");
        assert!(message(&problem).contains(told), "{problem}");
        assert!(!message(&problem).contains("o-1"), "{problem}");
    }
    assert_eq!(shop.runs(), 2);
    let keyless = shop
        .send(pay("k").without("idempotency-key").saying(text))
        .await;
    assert_eq!(keyless.handled.outcome, "passed");
}

#[tokio::test(start_paused = true)]
async fn a_key_may_have_to_be_equal_to_a_part_of_the_path() {
    let field = Field::parse("{account}").unwrap();
    let shop = Shop::open().terms(|terms| terms.key_equals(field));
    shop.send(with_account(pay("7"), "7"))
        .await
        .expect_first(201, "paid");
    let seen = shop.send(with_account(pay("7"), "8")).await;
    seen.expect_problem("invalid-key");
    assert_eq!(shop.runs(), 1);
}
