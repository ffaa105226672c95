//! P2, P11, P12: a replay is the first answer again.

use onceward_rig::gateway::{Act, Answer, Ask, Origin, Payload, Seen};

use crate::{ask, expect_problem, expect_replay, launch, pay};

#[tokio::test]
async fn every_kind_of_body_is_repeated() {
    let origin = Origin::scripted(|seen: &Seen| {
        let binary: Vec<u8> = (0..=255).collect();
        Act::Answer(match &*seen.target {
            "/204" => Answer::with(204, Payload::None),
            "/empty" => Answer::new(200, ""),
            "/304" => Answer::with(304, Payload::None),
            "/binary" => Answer::new(200, binary),
            "/chunked" => {
                let pieces = vec![b"one ".to_vec(), b"two".to_vec()];
                Answer::with(200, Payload::Chunked(pieces, String::new()))
            }
            "/nothing" => Answer::with(200, Payload::Chunked(vec![], String::new())),
            "/close" => Answer::with(200, Payload::UntilClose(b"to the end".to_vec())),
            _ => Answer::new(200, "large ".repeat(50_000)).closing(),
        })
    })
    .await;
    let gateway = launch(&origin).start().await;
    let paths = [
        "/204", "/empty", "/304", "/binary", "/chunked", "/nothing", "/close", "/large",
    ];
    for path in paths {
        let first = ask(&gateway, &Ask::post(path).key("k")).await;
        assert!(first.complete && !first.is_replay(), "{path}");
        let retry = ask(&gateway, &Ask::post(path).key("k")).await;
        expect_replay(&retry, &first);
        if path == "/204" {
            assert!(!retry.fields.has("content-length"), "a 204 has no length");
        }
    }
    assert_eq!(origin.count(), paths.len());
}

#[tokio::test]
async fn headers_are_repeated_in_their_order_and_those_of_a_connection_are_not() {
    let origin = Origin::scripted(|_| {
        let answer = Answer::new(201, "made")
            .field("Content-Type", "application/json; charset=utf-8")
            .field("Location", "/payments/1")
            .field("ETag", "\"abc\"")
            .field("X-Many", "one")
            .field("X-Many", "two, three")
            .field("Link", "</a>; rel=next")
            .field("X-Many", "")
            .field("Date", "Tue, 15 Nov 1994 08:12:31 GMT")
            .field("Set-Cookie", "session=secret")
            .field("Connection", "keep-alive, X-Hop")
            .field("X-Hop", "1")
            .field("Keep-Alive", "timeout=5")
            .field("Proxy-Authenticate", "Basic")
            .field("Upgrade", "h2c")
            .field("Idempotent-Replayed", "true")
            .field("Age", "7");
        answer.into()
    })
    .await;
    let gateway = launch(&origin).start().await;
    let first = ask(&gateway, &pay("k")).await;
    let retry = ask(&gateway, &pay("k")).await;
    assert!(
        !first.is_replay(),
        "nobody else says that an answer is a replay"
    );
    for answer in [&first, &retry] {
        let many: Vec<_> = answer.fields.all("x-many").collect();
        assert_eq!(many, ["one", "two, three", ""]);
        assert_eq!(answer.fields.get("location"), Some("/payments/1"));
        assert_eq!(answer.fields.get("etag"), Some("\"abc\""));
        assert!(
            answer.fields.has("idempotency-expires"),
            "{:?}",
            answer.fields
        );
        for hop in ["x-hop", "keep-alive", "proxy-authenticate", "upgrade"] {
            assert!(!answer.fields.has(hop), "{hop}");
        }
    }
    assert_eq!(first.fields.get("set-cookie"), Some("session=secret"));
    assert!(!retry.fields.has("set-cookie"), "a cookie may be a session");
    assert!(!retry.fields.has("age"));
    let dates: Vec<_> = retry.fields.all("date").collect();
    assert!(dates.len() == 1 && !dates[0].contains("1994"), "{dates:?}");
}

#[tokio::test]
async fn trailers_are_repeated() {
    let origin = Origin::scripted(|_| {
        let payload = Payload::Chunked(vec![b"body".to_vec()], "X-Sum: 42\r\n".into());
        Answer::with(200, payload).field("Trailer", "X-Sum").into()
    })
    .await;
    let gateway = launch(&origin).start().await;
    let asked = pay("k").field("TE", "trailers");
    let first = ask(&gateway, &asked).await;
    let retry = ask(&gateway, &asked).await;
    assert_eq!(first.trailers.get("x-sum"), Some("42"), "{first:?}");
    expect_replay(&retry, &first);
}

#[tokio::test]
async fn the_service_is_asked_for_identity_so_that_every_retry_can_read_the_answer() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let first = ask(&gateway, &pay("k").field("Accept-Encoding", "gzip, br")).await;
    assert_eq!(
        origin.seen()[0].fields.get("accept-encoding"),
        Some("identity")
    );
    for coding in ["identity", "zstd", "br;q=1.0, *;q=0"] {
        let retry = ask(&gateway, &pay("k").field("Accept-Encoding", coding)).await;
        expect_replay(&retry, &first);
        assert!(!retry.fields.has("content-encoding"));
    }
    let unkeyed = Ask::post("/payments").field("Accept-Encoding", "gzip, br");
    ask(&gateway, &unkeyed).await;
    assert_eq!(
        origin.seen()[1].fields.get("accept-encoding"),
        Some("gzip, br")
    );
}

#[tokio::test]
async fn an_answer_that_is_coded_all_the_same_is_repeated_byte_for_byte() {
    let origin = Origin::scripted(|_| {
        let answer = Answer::new(200, b"\x1f\x8b\x08\x00 not really".to_vec());
        answer.field("Content-Encoding", "gzip").into()
    })
    .await;
    let gateway = launch(&origin).start().await;
    let first = ask(&gateway, &pay("k")).await;
    let retry = ask(&gateway, &pay("k")).await;
    expect_replay(&retry, &first);
    assert_eq!(retry.body, b"\x1f\x8b\x08\x00 not really");
    assert_eq!(retry.fields.get("content-encoding"), Some("gzip"));
}

#[tokio::test]
async fn an_answer_too_large_to_keep_is_delivered_once_and_never_executed_again() {
    let large = "x".repeat(5000);
    let answer = large.clone();
    let origin = Origin::scripted(move |_| {
        Answer::new(201, answer.clone())
            .field("Location", "/payments/1")
            .into()
    })
    .await;
    let config = "[defaults]\nmax_answer = \"4KiB\"\n";
    let gateway = launch(&origin).config(config).start().await;
    let first = ask(&gateway, &pay("k")).await;
    assert_eq!(
        (first.status, first.text(), first.complete),
        (201, large, true)
    );
    for _ in 0..2 {
        let retry = ask(&gateway, &pay("k")).await;
        expect_problem(&retry, 409, "answer-not-kept");
        let body: serde_json::Value = serde_json::from_slice(&retry.body).unwrap();
        assert_eq!(body["original_status"], 201);
    }
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn the_service_sees_the_key_the_attempt_and_a_fence_and_no_copies_from_outside() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let asked = pay("k")
        .field("Idempotency-Attempt", "99")
        .field("Idempotency-Fence", "forged")
        .field("Connection", "X-Hop")
        .field("X-Hop", "1");
    ask(&gateway, &asked).await;
    ask(&gateway, &pay("k2")).await;
    let seen = origin.seen();
    assert_eq!(seen[0].key().as_deref(), Some("k"));
    assert_eq!(seen[0].attempt(), Some(1));
    let fence = seen[0].fence().unwrap();
    assert!(
        fence.len() == 32 && fence.bytes().all(|it| it.is_ascii_hexdigit()),
        "{fence}"
    );
    assert_ne!(seen[1].fence(), Some(fence));
    assert_eq!(seen[0].fields.all("idempotency-attempt").count(), 1);
    assert_eq!(seen[0].fields.all("idempotency-fence").count(), 1);
    assert!(!seen[0].fields.has("x-hop"));
    assert_eq!(seen[0].body, b"pay 100");
}

#[tokio::test]
async fn what_comes_before_the_answer_is_not_the_answer() {
    let origin = Origin::scripted(|_| Answer::receipt(0).with_interim().into()).await;
    let gateway = launch(&origin).start().await;
    let first = ask(&gateway, &pay("k")).await;
    assert_eq!((first.status, first.text()), (201, "receipt 0".into()));
    expect_replay(&ask(&gateway, &pay("k")).await, &first);
    assert_eq!(ask(&gateway, &Ask::get("/")).await.status, 201);
}

#[tokio::test]
async fn cookies_are_repeated_where_a_route_says_so() {
    let origin = Origin::scripted(|_| {
        let answer = Answer::receipt(0).field("Set-Cookie", "a=b");
        answer
            .field("Set-Cookie", "c=d")
            .field("X-Kept", "1")
            .into()
    })
    .await;
    let config = "[[route]]\nmatch = \"POST /payments\"\nreplay_cookies = true\n\
                  [[route]]\nmatch = \"POST /narrow\"\nstore_headers = [\"X-Kept\"]\n";
    let gateway = launch(&origin).config(config).start().await;
    ask(&gateway, &pay("k")).await;
    let retry = ask(&gateway, &pay("k")).await;
    let cookies: Vec<_> = retry.fields.all("set-cookie").collect();
    assert_eq!(cookies, ["a=b", "c=d"]);

    let narrow = Ask::post("/narrow").key("k");
    ask(&gateway, &narrow).await;
    let retry = ask(&gateway, &narrow).await;
    assert!(retry.is_replay() && retry.text() == "receipt 0");
    assert!(retry.fields.has("x-kept") && !retry.fields.has("set-cookie"));
}
