//! Replays: the first answer once more, byte for byte, and nothing that was the first caller's.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Response};
use onceward_http::{Fate, Terms};

use crate::world::{Change as _, Sent, Shop, announced, answer, checksum, empty, full, pay, pipe};

fn with(headers: &[(&'static str, &'static str)]) -> Response<Sent> {
    let mut response = answer(201, "paid");
    for (name, value) in headers {
        let value = http::HeaderValue::from_static(value);
        response.headers_mut().append(*name, value);
    }
    response
}

/// The values of one header, in their order.
fn values(seen: &crate::world::Seen, name: &str) -> Vec<String> {
    let lines = seen.headers.get_all(name).iter();
    lines
        .map(|line| line.to_str().unwrap().to_owned())
        .collect()
}

fn change(shop: Shop, change: impl FnOnce(&mut Terms)) -> Shop {
    shop.terms(|mut terms| {
        change(&mut terms);
        terms
    })
}

#[tokio::test(start_paused = true)]
async fn a_retry_gets_the_first_answer_and_executes_nothing() {
    let shop = Shop::open();
    let first = shop.send(pay("k")).await.expect_first(201, "paid");
    assert_eq!(first.handled.attempt, 1);
    for _ in 0..3 {
        let again = shop.send(pay("k")).await.expect_replay(201, "paid");
        assert_eq!(
            again.headers["idempotency-expires"],
            first.headers["idempotency-expires"]
        );
        assert_eq!(
            (again.handled.slot, again.handled.attempt),
            (first.handled.slot, 0)
        );
    }
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn every_byte_of_a_body_comes_back() {
    let bytes: Bytes = (0..=255).cycle().take(100_000).collect::<Vec<u8>>().into();
    let sent = bytes.clone();
    let shop = Shop::answering(move || Response::new(full(sent.clone())));
    assert_eq!(shop.send(pay("k")).await.body, bytes);
    assert_eq!(shop.send(pay("k")).await.body, bytes);
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_in_pieces_comes_back_whole() {
    let (out, body) = pipe();
    for piece in ["a", "", "bc", "d"] {
        out.data(piece);
    }
    drop(out);
    let shop = Shop::once(move || Response::new(body));
    shop.send(pay("k")).await.expect_first(200, "abcd");
    shop.send(pay("k")).await.expect_replay(200, "abcd");
}

#[tokio::test(start_paused = true)]
async fn repeated_headers_come_back_in_their_order() {
    let headers = [
        ("link", "<a>"),
        ("x-one", "1"),
        ("link", "<b>"),
        ("link", "<a>"),
    ];
    let shop = Shop::answering(move || with(&headers));
    let first = shop.send(pay("k")).await.expect_first(201, "paid");
    let again = shop.send(pay("k")).await.expect_replay(201, "paid");
    for seen in [first, again] {
        assert_eq!(values(&seen, "link"), ["<a>", "<b>", "<a>"]);
        assert_eq!(values(&seen, "x-one"), ["1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn header_values_beyond_ascii_come_back() {
    let shop = Shop::answering(|| {
        let mut response = answer(201, "paid");
        let value = http::HeaderValue::from_bytes(b"caf\xe9").unwrap();
        response.headers_mut().insert("x-place", value);
        response
    });
    for _ in 0..2 {
        let seen = shop.send(pay("k")).await;
        assert_eq!(seen.headers["x-place"].as_bytes(), b"caf\xe9");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_without_a_body_come_back_without_one() {
    for status in [200, 204, 304] {
        let shop = Shop::answering(move || {
            let response = Response::builder().status(status).header("etag", "\"1\"");
            response.body(empty()).unwrap()
        });
        shop.send(pay("k")).await.expect_first(status, "");
        let again = shop.send(pay("k")).await.expect_replay(status, "");
        assert_eq!(again.headers["etag"], "\"1\"");
        assert!(!again.headers.contains_key("content-length"));
        assert_eq!(shop.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn trailers_come_back_and_are_announced() {
    let shop = Shop::new(async |_| {
        let (out, body) = pipe();
        out.data("paid");
        out.trailers(checksum());
        Ok(Response::new(body))
    });
    let first = shop.send(pay("k")).await.expect_first(200, "paid");
    let again = shop.send(pay("k")).await.expect_replay(200, "paid");
    for seen in [first, again] {
        assert_eq!(seen.trailers, Some(checksum()));
        assert_eq!(seen.headers["trailer"], "x-checksum");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_an_answer_and_its_replay_says_not_to_retry() {
    for status in [400, 404, 422, 500, 501, 505] {
        let shop = Shop::answering(move || answer(status, "no"));
        let first = shop.send(pay("k")).await.expect_first(status, "no");
        assert!(!first.headers.contains_key("x-should-retry"));
        let again = shop.send(pay("k")).await.expect_replay(status, "no");
        let marked = again.headers.get("x-should-retry").is_some();
        assert_eq!(marked, status >= 500);
        if marked {
            assert_eq!(again.headers["x-should-retry"], "false");
            assert_eq!(again.headers["stripe-should-retry"], "false");
        }
        assert!(!again.headers.contains_key("retry-after"));
        assert_eq!(shop.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn cookies_are_the_first_callers_alone() {
    let shop = Shop::answering(|| with(&[("set-cookie", "session=1")]));
    let first = shop.send(pay("k")).await;
    assert_eq!(first.headers["set-cookie"], "session=1");
    let again = shop.send(pay("k")).await.expect_replay(201, "paid");
    assert!(!again.headers.contains_key("set-cookie"));
}

#[tokio::test(start_paused = true)]
async fn cookies_are_replayed_where_the_route_says_so() {
    let cookies = [("set-cookie", "a=1"), ("set-cookie", "b=2")];
    let shop = change(Shop::answering(move || with(&cookies)), |terms| {
        terms.replay_cookies = true;
    });
    shop.send(pay("k")).await.expect_first(201, "paid");
    let again = shop.send(pay("k")).await.expect_replay(201, "paid");
    assert_eq!(values(&again, "set-cookie"), ["a=1", "b=2"]);
}

#[tokio::test(start_paused = true)]
async fn what_holds_for_a_connection_or_a_moment_is_not_replayed() {
    let fleeting = [
        ("connection", "x-hop, close"),
        ("x-hop", "1"),
        ("keep-alive", "timeout=5"),
        ("proxy-authenticate", "Basic"),
        ("te", "trailers"),
        ("trailer", "x-nothing"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("date", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("age", "17"),
        ("content-length", "4"),
    ];
    let shop = Shop::answering(move || {
        let mut response = with(&fleeting);
        response
            .headers_mut()
            .append("x-stays", "1".parse().unwrap());
        response
    });
    shop.send(pay("k")).await.expect_first(201, "paid");
    let again = shop.send(pay("k")).await.expect_replay(201, "paid");
    for (name, _) in fleeting {
        assert!(!again.headers.contains_key(name), "{name}");
    }
    assert_eq!(again.headers["x-stays"], "1");
}

#[tokio::test(start_paused = true)]
async fn only_the_headers_that_a_route_lists_are_kept() {
    // Without the location a caller might not find what was made.
    let headers = [
        ("location", "/payments/1"),
        ("x-private", "1"),
        ("x-listed", "1"),
    ];
    let shop = change(Shop::answering(move || with(&headers)), |terms| {
        terms.store_headers = Some(vec![HeaderName::from_static("x-listed")]);
    });
    let first = shop.send(pay("k")).await.expect_first(201, "paid");
    assert_eq!(first.headers["x-private"], "1");
    let again = shop.send(pay("k")).await.expect_replay(201, "paid");
    assert_eq!(again.headers["location"], "/payments/1");
    assert_eq!(again.headers["x-listed"], "1");
    assert!(!again.headers.contains_key("x-private"));
}

#[tokio::test(start_paused = true)]
async fn only_the_layer_says_that_an_answer_is_a_replay() {
    let shop = Shop::answering(|| {
        with(&[
            ("idempotent-replayed", "true"),
            ("idempotency-expires", "never"),
        ])
    });
    let first = shop.send(pay("k")).await.expect_first(201, "paid");
    let again = shop.send(pay("k")).await.expect_replay(201, "paid");
    assert_eq!(values(&again, "idempotent-replayed"), ["true"]);
    for seen in [first, again] {
        assert_eq!(values(&seen, "idempotency-expires").len(), 1);
        assert_ne!(seen.headers["idempotency-expires"], "never");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_exactly_the_limit_is_kept() {
    let shop = Shop::answering(|| Response::new(announced(4, full("paid")))).keeping(4);
    shop.send(pay("k")).await.expect_first(200, "paid");
    shop.send(pay("k")).await.expect_replay(200, "paid");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_for_its_retention_and_then_executed_anew() {
    let shop = Shop::open();
    let retention = shop.world.policy.retention;
    shop.send(pay("k")).await.expect_first(201, "paid");
    shop.world.clock.advance(retention - Duration::from_secs(1));
    shop.send(pay("k")).await.expect_replay(201, "paid");
    shop.world.clock.advance(Duration::from_secs(1));
    shop.send(pay("k")).await.expect_first(201, "paid");
    assert_eq!(shop.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_handler_can_have_any_status_stored() {
    let shop = Shop::answering(|| {
        let mut response = answer(503, "closed for good");
        response.extensions_mut().insert(Fate::Store);
        response
    });
    shop.send(pay("k"))
        .await
        .expect_first(503, "closed for good");
    shop.send(pay("k"))
        .await
        .expect_replay(503, "closed for good");
}

#[tokio::test(start_paused = true)]
async fn another_process_on_the_same_store_replays_too() {
    let shop = Shop::open();
    shop.send(pay("k")).await.expect_first(201, "paid");
    let mut other = shop.clone();
    other.world = shop.world.node();
    other.send(pay("k")).await.expect_replay(201, "paid");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test]
async fn what_was_settled_without_a_status_reads_as_it_ended() {
    for (outcome, status) in [
        (onceward::Outcome::success("done"), 200),
        (onceward::Outcome::failure("declined"), 500),
    ] {
        let shop = Shop::new(|_| async { Err("lost".into()) });
        shop.send(pay("k")).await.expect_problem("outcome-unknown");
        let slot = shop
            .world
            .engine
            .list(&Default::default(), None, 10)
            .await
            .unwrap();
        let (slot, _) = slot.value.records[0].clone();
        let by = onceward::By {
            who: "ann".into(),
            why: "seen in the ledger".into(),
        };
        let body = outcome.body().unwrap().clone();
        let resolution = onceward::Resolution::Completed(outcome);
        shop.world
            .engine
            .resolve(slot, resolution, &by)
            .await
            .unwrap();
        let seen = shop.send(pay("k")).await;
        assert_eq!((seen.status.as_u16(), seen.body), (status, body));
    }
}

#[tokio::test]
async fn a_final_error_is_not_replayed_with_an_invitation_to_retry() {
    let shop = Shop::answering(|| {
        let mut failed = answer(500, "no");
        let value = http::HeaderValue::from_static("3");
        failed.headers_mut().insert("retry-after", value);
        failed
    });
    let first = shop.send(pay("k")).await.expect_first(500, "no");
    assert_eq!(first.headers["retry-after"], "3");
    let again = shop.send(pay("k")).await.expect_replay(500, "no");
    assert!(!again.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn the_service_is_asked_for_an_answer_that_every_retry_can_read() {
    let shop = Shop::new(|run| async move {
        assert_eq!(run.request.headers()["accept-encoding"], "identity");
        assert!(!run.request.headers().contains_key("range"));
        Ok(answer(200, "whole"))
    });
    let asked = pay("k")
        .with("accept-encoding", "gzip")
        .with("range", "bytes=0-1");
    shop.send(asked).await.expect_first(200, "whole");
}
