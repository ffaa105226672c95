//! P14: traffic without keys goes through as if nobody stood in between.

use onceward_rig::gateway::{Act, Answer, Ask, Gate, Origin, Payload, Seen, Wire};

use crate::{ask, launch};

#[tokio::test]
async fn requests_and_answers_pass_as_they_are() {
    let origin = Origin::scripted(|_| {
        let answer = Answer::new(418, "short and stout").field("X-Pot", "tea");
        answer
            .field("Set-Cookie", "a=b")
            .field("Set-Cookie", "c=d")
            .into()
    })
    .await;
    let gateway = launch(&origin).start().await;
    let asked = Ask::new("PROPFIND", "/a%2Fb/../c?q=1&q=%20#")
        .field("Cookie", "x=y")
        .field("Accept-Encoding", "br")
        .field("X-Forwarded-For", "192.0.2.1")
        .field("Forwarded", "for=192.0.2.1")
        .field("X-Odd", "\u{e9}")
        .body("body");
    let answers = [ask(&gateway, &asked).await, ask(&gateway, &asked).await];
    for answer in answers {
        assert_eq!(
            (answer.status, answer.text()),
            (418, "short and stout".into())
        );
        assert_eq!(answer.fields.get("x-pot"), Some("tea"));
        assert_eq!(answer.fields.all("set-cookie").count(), 2);
        for ours in [
            "idempotent-replayed",
            "idempotency-expires",
            "x-should-retry",
        ] {
            assert!(!answer.fields.has(ours), "{ours}");
        }
    }
    assert_eq!(origin.count(), 2);
    let seen = &origin.seen()[0];
    assert_eq!(
        (&*seen.method, seen.target.trim_end_matches('#')),
        ("PROPFIND", "/a%2Fb/../c?q=1&q=%20")
    );
    assert_eq!(seen.body, b"body");
    assert_eq!(seen.fields.get("cookie"), Some("x=y"));
    assert_eq!(seen.fields.get("accept-encoding"), Some("br"));
    assert_eq!(seen.fields.get("host"), Some("shop.example"));
    assert_eq!(seen.fields.get("x-forwarded-for"), Some("127.0.0.1"));
    assert!(
        !seen.fields.has("forwarded"),
        "nobody can say for whom else it asks"
    );
    assert!(seen.attempt().is_none() && seen.fence().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ways_stream_at_the_same_time() {
    let gate = Gate::new();
    let pieces = (0..3).map(|at| format!("<{at}>").into_bytes()).collect();
    let answer = Answer::with(200, Payload::Paced(pieces, gate.clone()));
    let origin = Origin::scripted(move |_| answer.clone().into()).await;
    let gateway = launch(&origin).start().await;
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    wire.send(&Ask::get("/stream").bytes()).await.unwrap();
    assert_eq!(wire.head().await.unwrap().status, 200);
    for at in 0..3 {
        gate.open_once();
        let piece = format!("3\r\n<{at}>\r\n");
        assert_eq!(wire.some(piece.len()).await, piece.as_bytes());
    }
    gate.open();
    assert_eq!(wire.some(5).await, b"0\r\n\r\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_body_is_passed_on_before_it_is_whole() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    let head = "POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    wire.send(format!("{head}5\r\nfirst\r\n").as_bytes())
        .await
        .unwrap();
    // The connection to the service is there while the body is not.
    onceward_rig::gateway::until("the body is passed on", || async {
        (origin.connections() > 0).then_some(())
    })
    .await;
    assert_eq!(origin.count(), 0);
    wire.send(b"6\r\nsecond\r\n0\r\n\r\n").await.unwrap();
    assert_eq!(wire.read().await.unwrap().status, 201);
    assert_eq!(origin.seen()[0].body, b"firstsecond");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_becomes_a_tunnel() {
    let origin = Origin::scripted(|seen: &Seen| match seen.fields.get("upgrade") {
        Some("echo") => Act::Echo,
        _ => Answer::new(400, "no upgrade").into(),
    })
    .await;
    let gateway = launch(&origin).start().await;
    let upgrade = Ask::get("/socket")
        .field("Connection", "Upgrade")
        .field("Upgrade", "echo");
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    wire.send(&upgrade.bytes()).await.unwrap();
    let head = wire.head().await.unwrap();
    assert_eq!(
        (head.status, head.fields.get("upgrade")),
        (101, Some("echo"))
    );
    for word in ["hello", "\0binary\r\n\r\n"] {
        wire.send(word.as_bytes()).await.unwrap();
        assert_eq!(wire.some(word.len()).await, word.as_bytes());
    }
    let with_key = Ask::post("/socket").key("k").field("Connection", "Upgrade");
    let refused = ask(&gateway, &with_key.field("Upgrade", "echo")).await;
    crate::expect_problem(&refused, 400, "upgrade-refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn http_1_0_knows_no_upgrades() {
    let origin = Origin::scripted(|seen: &Seen| match seen.fields.get("upgrade") {
        Some(_) => Act::Echo,
        None => Answer::new(426, "no upgrade").into(),
    })
    .await;
    let gateway = launch(&origin).start().await;
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    let text = "GET /socket HTTP/1.0\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
    wire.send(text.as_bytes()).await.unwrap();
    assert_eq!(wire.head().await.unwrap().status, 426);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunked_answer_passes_whole_whatever_its_pieces_are() {
    for len in [100, 16_385, 20_000, 200_000] {
        let chunks = Payload::Chunked(vec![vec![b'x'; len]], String::new());
        let origin = Origin::scripted(move |_| Answer::with(200, chunks.clone()).into()).await;
        let gateway = launch(&origin).start().await;
        let unkeyed = ask(&gateway, &Ask::get("/large")).await;
        assert!(unkeyed.complete && unkeyed.body.len() == len, "{len}");
        let pay = Ask::post("/payments").key("k").body("x");
        for answer in [ask(&gateway, &pay).await, ask(&gateway, &pay).await] {
            assert!(answer.complete && answer.body.len() == len, "{len}");
        }
    }
}

#[tokio::test]
async fn a_failing_service_is_told_as_such() {
    let origin = Origin::scripted(|_| Act::Vanish).await;
    let gateway = launch(&origin).start().await;
    let answer = ask(&gateway, &Ask::post("/payments")).await;
    assert_eq!(
        answer.problem().as_deref(),
        Some("upstream-failed"),
        "{}",
        answer.text()
    );
    assert_eq!((answer.status, origin.count()), (502, 1));
}

#[tokio::test]
async fn a_large_answer_passes_whatever_is_kept() {
    let origin = Origin::scripted(|_| Answer::new(200, vec![b'x'; 8 << 20]).into()).await;
    let gateway = launch(&origin).start().await;
    let answer = ask(&gateway, &Ask::get("/large")).await;
    assert!(answer.complete && answer.body.len() == 8 << 20);
    let head = ask(&gateway, &Ask::new("HEAD", "/large")).await;
    assert_eq!(head.fields.get("content-length"), Some("8388608"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_cut_is_cut_for_the_service_too() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    for asked in [Ask::post("/upload"), Ask::post("/upload").chunked()] {
        let bytes = asked.bytes();
        for end in asked.head().len()..bytes.len() {
            let mut wire = Wire::connect(gateway.addr()).await.unwrap();
            wire.send(&bytes[..end]).await.unwrap();
            match end % 2 {
                0 => wire.reset().unwrap(),
                _ => drop(wire),
            }
        }
    }
    assert_eq!(ask(&gateway, &Ask::get("/after")).await.status, 201);
    assert_eq!(origin.count(), 1, "{:?}", origin.seen());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_cut_is_cut_for_the_caller_too() {
    let pieces = vec![b"one".to_vec(), b"two".to_vec()];
    let chunked = Answer::with(200, Payload::Chunked(pieces, String::new()));
    for answer in [Answer::receipt(0), chunked] {
        let len = answer.wire_len();
        let origin = Origin::scripted(move |seen| Act::Cut {
            answer: answer.clone(),
            after: seen.target[1..].parse().unwrap(),
        })
        .await;
        let gateway = launch(&origin).start().await;
        for after in 0..len {
            let mut wire = Wire::connect(gateway.addr()).await.unwrap();
            wire.send(&Ask::get(&format!("/{after}")).bytes())
                .await
                .unwrap();
            let whole = wire
                .read()
                .await
                .is_ok_and(|it| it.complete && it.status == 200);
            assert!(!whole, "the first {after} of {len} bytes pass for all");
        }
    }
}
