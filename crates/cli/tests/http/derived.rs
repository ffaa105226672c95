//! Keys that the server infers from the request, and keys that have to fit it.

use futures_util::future::join_all;
use onceward_rig::gateway::{Ask, Origin, Received};

use crate::{ask, expect_one_original, expect_problem, expect_replay, launch};

const ROUTES: &str = r#"
[[route]]
match = "POST /payments"
key = "derived"
key_from = { fields = ["/payment_id", "/status"] }

[[route]]
match = "POST /payment-settled"
operation = "settle-payment"
key = "derived"
key_from = { fields = ["/payment_id", "/status"] }

[[route]]
match = "PUT /correct-status"
operation = "settle-payment"
key = "derived"
key_from = { fields = ["/id", "/new_status"] }

[[route]]
match = "POST /accounts/{account}/close"
key = "derived"
key_from = { fields = ["{account}"] }

[[route]]
match = "POST /hooks/by-body"
key = "derived"
key_from = { body = "hash" }

[[route]]
match = "POST /hooks/by-delivery"
key = "derived"
key_from = { header = "X-Delivery-Id" }

[[route]]
match = "POST /orders"
key_equals = "/order_id"

[[route]]
match = "POST /orders/{order}/pay"
key = "required"
key_equals = "{order}"
"#;

/// A JSON document, sent to `target`.
fn json(method: &str, target: &str, body: &str) -> Ask {
    let asked = Ask::new(method, target).field("Content-Type", "application/json");
    asked.body(body)
}

fn message(answer: &Received) -> String {
    let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    body["error"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_payments_at_once_under_sixteen_keys_are_executed_once() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).config(ROUTES).start().await;
    for round in 0..10 {
        let asks: Vec<_> = (0..16)
            .map(|caller| {
                // Each builds the same payment in its own way.
                let body = format!(
                    "{{\"sent_at\": {caller}, \"status\": \"settled\", \"payment_id\": {round}}}"
                );
                json("POST", "/payments", &body).key(&format!("{round}-{caller}"))
            })
            .collect();
        let answers = join_all(asks.iter().map(|one| ask(&gateway, one))).await;
        expect_one_original(&answers);
        assert_eq!(origin.count(), round + 1);
    }
    let others = [
        r#"{"payment_id":0,"status":"void"}"#,
        r#"{"payment_id":"00","status":"settled"}"#,
    ];
    for other in others {
        let answer = ask(&gateway, &json("POST", "/payments", other).key("0-0")).await;
        assert_eq!((answer.status, answer.is_replay()), (201, false), "{other}");
    }
    assert_eq!(origin.count(), 12);
}

#[tokio::test]
async fn the_service_sees_the_derived_key_alone() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).config(ROUTES).start().await;
    let sent = json(
        "POST",
        "/payments",
        r#"{"payment_id":7,"status":"settled"}"#,
    )
    .key("mine")
    .field("X-Idempotency-Key", "another, and not even a key");
    assert_eq!(ask(&gateway, &sent).await.status, 201);
    let seen = origin.seen();
    let keys: Vec<_> = seen[0].fields.all("idempotency-key").collect();
    assert_eq!(keys.len(), 1, "{keys:?}");
    assert!(keys[0].starts_with("d-") && keys[0].len() == 66, "{keys:?}");
    assert!(!seen[0].fields.has("x-idempotency-key"));
    assert_eq!(seen[0].attempt(), Some(1));
}

#[tokio::test]
async fn two_messages_for_one_operation_meet() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).config(ROUTES).start().await;
    let settled = json(
        "POST",
        "/payment-settled",
        r#"{"payment_id":7,"status":"settled"}"#,
    );
    let first = ask(&gateway, &settled.key("a")).await;
    let corrected = r#"{"reason":"audit","new_status":"settled","id":"7"}"#;
    let corrected = json("PUT", "/correct-status?by=clerk", corrected).key("b");
    expect_replay(&ask(&gateway, &corrected).await, &first);
    let form = Ask::post("/payment-settled")
        .field("Content-Type", "application/x-www-form-urlencoded")
        .body("status=settled&payment_id=x7");
    let first = ask(&gateway, &form).await;
    let same = json(
        "PUT",
        "/correct-status",
        r#"{"id":"x7","new_status":"settled"}"#,
    );
    expect_replay(&ask(&gateway, &same).await, &first);
    assert_eq!(origin.count(), 2);
}

#[tokio::test]
async fn a_part_of_the_path_names_the_operation() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).config(ROUTES).start().await;
    let close = |account: &str| Ask::post(&format!("/accounts/{account}/close"));
    let first = ask(&gateway, &close("7").key("a")).await;
    expect_replay(
        &ask(&gateway, &close("7").key("b").body("else")).await,
        &first,
    );
    assert!(!ask(&gateway, &close("8").key("a")).await.is_replay());
    let unreadable = ask(&gateway, &close("%FF")).await;
    expect_problem(&unreadable, 400, "missing-key");
    assert!(message(&unreadable).contains("{account}"));
    assert_eq!(origin.count(), 2);
}

#[tokio::test]
async fn a_webhook_is_named_by_its_body() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).config(ROUTES).start().await;
    let event = json("POST", "/hooks/by-body", r#"{"event":1}"#);
    let first = ask(&gateway, &event).await;
    let again = event
        .clone()
        .key("any")
        .field("X-Signature", "t=2")
        .chunked();
    expect_replay(&ask(&gateway, &again).await, &first);
    let other = json("POST", "/hooks/by-body", r#"{"event":2}"#);
    assert!(!ask(&gateway, &other).await.is_replay());
    let empty = ask(&gateway, &Ask::post("/hooks/by-body").body("")).await;
    expect_problem(&empty, 400, "missing-key");
    assert_eq!(origin.count(), 2);
}

#[tokio::test]
async fn a_webhook_is_named_by_its_delivery() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).config(ROUTES).start().await;
    let event = |id: &str| {
        let event = json("POST", "/hooks/by-delivery", r#"{"event":1}"#).key("same");
        event.field("X-Delivery-Id", id)
    };
    let first = ask(&gateway, &event("d-1")).await;
    expect_replay(&ask(&gateway, &event("d-1")).await, &first);
    assert!(!ask(&gateway, &event("d-2")).await.is_replay());
    assert_eq!((origin.executions("d-1"), origin.executions("d-2")), (1, 1));
    let reused = event("d-1").body("{}");
    expect_problem(&ask(&gateway, &reused).await, 422, "key-reused");
    let nameless = json("POST", "/hooks/by-delivery", "{}").key("same");
    let refused = ask(&gateway, &nameless).await;
    expect_problem(&refused, 400, "missing-key");
    assert!(
        message(&refused).contains("x-delivery-id"),
        "{}",
        message(&refused)
    );
    assert_eq!(origin.count(), 2);
}

#[tokio::test]
async fn fields_that_are_missing_are_named_and_nothing_is_executed() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).config(ROUTES).start().await;
    let with = |body: &str| json("POST", "/payments", body).key("k");
    for (body, named) in [
        (r#"{"status":"settled","card":"4242"}"#, "no /payment_id."),
        (r#"{"payment_id":null}"#, "no /payment_id and no /status."),
        ("", "no /payment_id and no /status."),
    ] {
        let refused = ask(&gateway, &with(body)).await;
        expect_problem(&refused, 400, "missing-key");
        let told = message(&refused);
        assert!(told.contains(named) && !told.contains("4242"), "{told}");
    }
    for body in [r#"{"payment_id":1,"payment_id":2,"status":"x"}"#, "{"] {
        let refused = ask(&gateway, &with(body)).await;
        expect_problem(&refused, 400, "invalid-key");
        assert!(message(&refused).contains("JSON that has one meaning"));
    }
    assert_eq!(origin.count(), 0);
    assert_eq!(ask(&gateway, &Ask::get("/payments")).await.status, 201);
}

#[tokio::test]
async fn a_sent_key_has_to_fit_its_request() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).config(ROUTES).start().await;
    let order = |key: &str, body: &str| json("POST", "/orders", body).key(key);
    let first = ask(&gateway, &order("o-1", r#"{"order_id":"o-1"}"#)).await;
    expect_replay(
        &ask(&gateway, &order("\"o-1\"", r#"{"order_id":"o-1"}"#)).await,
        &first,
    );
    assert_eq!(
        ask(&gateway, &order("42", r#"{"order_id":42}"#))
            .await
            .status,
        201
    );
    let keyless = json("POST", "/orders", r#"{"order_id":"o-1"}"#);
    assert_eq!(ask(&gateway, &keyless).await.status, 201);
    assert_eq!(origin.count(), 3);
    for body in [
        r#"{"order_id":"o-2"}"#,
        "{}",
        r#"{"order_id":["o-1"]}"#,
        "no JSON",
    ] {
        let refused = ask(&gateway, &order("o-1", body)).await;
        expect_problem(&refused, 400, "invalid-key");
        assert!(
            message(&refused).contains("/order_id"),
            "{}",
            message(&refused)
        );
    }

    let paid = ask(&gateway, &Ask::post("/orders/o%2D3/pay").key("o-3")).await;
    assert_eq!(paid.status, 201);
    let refused = ask(&gateway, &Ask::post("/orders/o-4/pay").key("o-3")).await;
    expect_problem(&refused, 400, "invalid-key");
    assert!(
        message(&refused).contains("{order}"),
        "{}",
        message(&refused)
    );
    assert_eq!(origin.count(), 4);
}

#[tokio::test]
async fn the_start_says_what_keys_are_made_of() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).config(ROUTES).start().await;
    let log = gateway.log();
    for said in [
        "POST /payments: key derived from /payment_id and /status, opaque",
        "POST /hooks/by-body: key derived from the body, opaque",
        "POST /hooks/by-delivery: key derived from the header x-delivery-id, opaque",
        "POST /orders: key optional and equal to /order_id, opaque",
    ] {
        assert!(log.contains(said), "{said}\n{log}");
    }
}
