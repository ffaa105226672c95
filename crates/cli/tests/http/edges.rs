//! Unusual requests that are right, and what the service can be told not to see.

use onceward_rig::gateway::{Answer, Ask, Origin, Payload, Received, Wire};

use crate::{ask, expect_problem, expect_replay, launch, pay};

async fn raw(addr: std::net::SocketAddr, bytes: &str) -> Received {
    let mut wire = Wire::connect(addr).await.unwrap();
    wire.send(bytes.as_bytes()).await.unwrap();
    wire.read().await.unwrap()
}

#[tokio::test]
async fn a_target_with_its_host_is_the_same_operation() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let first = ask(&gateway, &pay("k")).await;
    let absolute = Ask::post("http://shop.example/payments").key("k");
    expect_replay(&ask(&gateway, &absolute).await, &first);
    ask(&gateway, &Ask::get("http://shop.example/a?b")).await;
    assert_eq!(origin.seen()[1].target, "/a?b");
    assert_eq!(origin.count(), 2);
}

#[tokio::test]
async fn callers_with_http_1_0_are_served() {
    let origin = Origin::scripted(|_| {
        let pieces = vec![b"one".to_vec(), b"two".to_vec()];
        Answer::with(200, Payload::Chunked(pieces, String::new())).into()
    })
    .await;
    let gateway = launch(&origin).start().await;
    for key in ["", "Idempotency-Key: k\r\n", "Idempotency-Key: k\r\n"] {
        let request = format!("POST / HTTP/1.0\r\nHost: a\r\n{key}Content-Length: 1\r\n\r\nx");
        let answer = raw(gateway.addr(), &request).await;
        assert_eq!((answer.status, answer.text()), (200, "onetwo".into()));
        assert!(
            !answer.fields.has("transfer-encoding"),
            "it does not know chunks"
        );
    }
    assert_eq!(origin.count(), 2);
}

#[tokio::test]
async fn requests_sent_ahead_are_answered_in_their_order() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    let keys = ["a", "b", "a", "c", "b"];
    let bytes: Vec<u8> = keys.iter().flat_map(|key| pay(key).bytes()).collect();
    wire.send(&bytes).await.unwrap();
    let mut texts = Vec::new();
    for _ in keys {
        texts.push(wire.read().await.unwrap().text());
    }
    assert_eq!(
        texts,
        [
            "receipt 0",
            "receipt 1",
            "receipt 0",
            "receipt 2",
            "receipt 1"
        ]
    );
}

#[tokio::test]
async fn a_body_that_is_announced_as_too_large_is_refused_before_it_is_sent() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nExpect: 100-continue\r\n\
                Content-Length: 100000000\r\n\r\n";
    let refused = raw(gateway.addr(), head).await;
    expect_problem(&refused, 413, "body-too-large");
    assert!(refused.closes, "what would follow is not a request");
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let mut many = pay("k");
    for number in 0..120 {
        many = many.field(&format!("X-{number}"), "1");
    }
    let long = pay("k").field("X-Long", &"x".repeat(40_000));
    for asked in [many, long] {
        let refused = ask(&gateway, &asked).await;
        assert_eq!(refused.status, 431);
        assert!(refused.closes && refused.complete);
    }
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn the_key_can_be_renamed_or_dropped_on_its_way() {
    let origin = Origin::start().await;
    for (name, seen) in [("Request-Id", Some("k")), ("drop", None)] {
        let config = format!(
            "upstream = {{ url = \"http://{}\", key_header = \"{name}\" }}\n",
            origin.addr()
        );
        let gateway = launch(&origin)
            .without("--upstream")
            .config(&config)
            .start()
            .await;
        let first = ask(&gateway, &pay("k")).await;
        expect_replay(&ask(&gateway, &pay("k")).await, &first);
        let request = origin.seen().pop().unwrap();
        assert!(request.key().is_none());
        assert_eq!(request.fields.get("request-id"), seen);
    }
    assert_eq!(origin.count(), 2);
}

#[tokio::test]
async fn routes_with_one_operation_share_their_keys() {
    let origin = Origin::start().await;
    let config = "[[route]]\nmatch = \"POST /v1/pay\"\noperation = \"pay\"\n\
                  fingerprint = { body = \"none\" }\n\
                  [[route]]\nmatch = \"POST /v2/{kind}/pay\"\noperation = \"pay\"\n\
                  fingerprint = { body = \"none\" }\n";
    let gateway = launch(&origin).config(config).start().await;
    let first = ask(&gateway, &Ask::post("/v1/pay").key("k")).await;
    assert_eq!(first.status, 201);
    let other = ask(&gateway, &Ask::post("/v2/card/pay").key("k")).await;
    // The path is part of what is compared, so a key of one is not a key of the other.
    expect_problem(&other, 422, "key-reused");
    expect_replay(
        &ask(&gateway, &Ask::post("/v1/pay").key("k").body("x")).await,
        &first,
    );
    assert_eq!(origin.count(), 1);
}
