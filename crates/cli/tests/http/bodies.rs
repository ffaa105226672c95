//! Request bodies: large, slow, announced, in parts.

use onceward_rig::gateway::{Ask, Origin, Wire};

use crate::{ask, expect_problem, expect_replay, launch, pay};

#[tokio::test]
async fn a_caller_that_expects_to_be_asked_for_its_body_is() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let asked = pay("k").field("Expect", "100-continue").body("the body");
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    wire.send(&asked.head()).await.unwrap();
    assert_eq!(wire.head().await.unwrap().status, 100);
    wire.send(b"the body").await.unwrap();
    let first = wire.read().await.unwrap();
    assert_eq!(first.status, 201);
    let seen = &origin.seen()[0];
    assert_eq!(seen.body, b"the body");
    assert!(!seen.fields.has("expect"), "the whole body is here already");
    expect_replay(&ask(&gateway, &pay("k").body("the body")).await, &first);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_never_executed() {
    let origin = Origin::start().await;
    let config = "[defaults]\nmax_request = \"64KiB\"\n";
    let gateway = launch(&origin).config(config).start().await;
    let fits = pay("fits").body(vec![b'x'; 64 << 10]);
    assert_eq!(ask(&gateway, &fits).await.status, 201);
    let over = pay("over").body(vec![b'x'; (64 << 10) + 1]);
    expect_problem(&ask(&gateway, &over).await, 413, "body-too-large");
    let over = over.chunked();
    expect_problem(&ask(&gateway, &over).await, 413, "body-too-large");
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn multipart_arrives_as_it_was_sent_and_counts_by_its_parts() {
    let origin = Origin::start().await;
    let config = "[[route]]\nmatch = \"POST /upload\"\nfingerprint = { body = \"multipart\" }\n";
    let gateway = launch(&origin).config(config).start().await;
    let upload = |boundary: &str, file: &str| {
        let body = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\
             Content-Type: text/plain\r\n\r\n{file}\r\n--{boundary}--\r\n"
        );
        let media_type = format!("multipart/form-data; boundary={boundary}");
        Ask::post("/upload")
            .key("k")
            .field("Content-Type", &media_type)
            .body(body)
    };
    let first = ask(&gateway, &upload("one", "text")).await;
    let seen = &origin.seen()[0];
    assert!(seen.body.starts_with(b"--one\r\n") && seen.body.ends_with(b"--one--\r\n"));
    expect_replay(&ask(&gateway, &upload("two", "text")).await, &first);
    expect_problem(
        &ask(&gateway, &upload("one", "other")).await,
        422,
        "key-reused",
    );
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_sender_holds_no_key() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let bytes = pay("k").bytes();
    let mut slow = Wire::connect(gateway.addr()).await.unwrap();
    slow.send(&bytes[..bytes.len() - 1]).await.unwrap();

    let first = ask(&gateway, &pay("k")).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    slow.send(&bytes[bytes.len() - 1..]).await.unwrap();
    expect_replay(&slow.read().await.unwrap(), &first);
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_is_too_slow_is_cut_off() {
    let origin = Origin::start().await;
    let config = "[limits]\nbody_grace = \"1s\"\n";
    let gateway = launch(&origin).config(config).start().await;
    let bytes = pay("k").bytes();
    let mut slow = Wire::connect(gateway.addr()).await.unwrap();
    slow.send(&bytes[..bytes.len() - 1]).await.unwrap();
    if let Ok(refused) = slow.read().await {
        expect_problem(&refused, 408, "request-cut");
    }
    assert!(slow.is_closed().await);
    assert_eq!(origin.count(), 0);
    assert!(!ask(&gateway, &pay("k")).await.is_replay());
}

#[tokio::test]
async fn a_body_without_bytes_is_a_body() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let empty = Ask::new("POST", "/payments").key("k");
    let first = ask(&gateway, &empty).await;
    expect_replay(&ask(&gateway, &empty).await, &first);
    expect_replay(&ask(&gateway, &empty.body("")).await, &first);
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn trailers_of_a_request_arrive() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    for key in ["Idempotency-Key: k\r\n", ""] {
        let mut wire = Wire::connect(gateway.addr()).await.unwrap();
        let request = format!(
            "POST /payments HTTP/1.1\r\nHost: a\r\n{key}Transfer-Encoding: chunked\r\n\
             Trailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 42\r\n\r\n"
        );
        wire.send(request.as_bytes()).await.unwrap();
        assert_eq!(wire.read().await.unwrap().status, 201);
    }
    for seen in origin.seen() {
        assert_eq!(seen.body, b"abc");
        assert_eq!(seen.trailers.get("x-sum"), Some("42"), "{seen:?}");
    }
}
