//! Requests that are none of the layer's business: they pass, and nothing is touched.

use http::Method;
use http_body_util::BodyExt as _;
use onceward_http::{KeyNeed, NotExecuted};

use crate::world::{Change, Run, Shop, answer, full, pay, pipe, read};

/// A shop that answers with what it is sent, as it comes.
fn echo() -> Shop {
    Shop::new(async |run: Run| {
        let body = run.request.into_body().boxed_unsync();
        Ok(http::Response::new(body))
    })
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_key_streams_through_both_ways() {
    let shop = echo();
    let (up, body) = pipe();
    let request = pay("k").without("idempotency-key").map(|_| body);

    let call = tokio::spawn(shop.call(request));
    shop.world.settle().await;
    assert!(call.is_finished(), "it does not wait for the body");
    let mut answer = call.await.unwrap().into_body();
    for part in ["one", "two"] {
        up.data(part);
        let frame = answer.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), part);
    }
    drop(up);
    assert!(answer.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_key_asks_no_store_and_is_executed_each_time() {
    let shop = Shop::open();
    for _ in 0..2 {
        let seen = shop.send(pay("k").without("idempotency-key")).await;
        seen.expect(201, "paid");
        assert_eq!(seen.handled.outcome, "passed");
        assert!(!seen.headers.contains_key("idempotency-expires"));
    }
    assert_eq!(shop.runs(), 2);
    assert_eq!(shop.world.store.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn safe_methods_pass_even_with_a_key() {
    let shop = Shop::open();
    let safe = [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE];
    for method in safe {
        for _ in 0..2 {
            let request = pay("k").to(method.clone(), "/payments");
            let seen = shop.send(request.with("upgrade", "websocket")).await;
            assert_eq!(seen.handled.outcome, "passed", "{method}");
        }
    }
    assert_eq!(shop.runs(), 8);
    assert_eq!(shop.world.store.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn every_other_method_is_protected() {
    let shop = Shop::open();
    for (done, method) in ["POST", "PUT", "PATCH", "DELETE", "MERGE"]
        .into_iter()
        .enumerate()
    {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = || pay("k").to(method.clone(), "/payments");
        shop.send(request()).await.expect_first(201, "paid");
        shop.send(request()).await.expect_replay(201, "paid");
        assert_eq!(shop.runs(), done + 1, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn where_keys_are_off_they_mean_nothing() {
    let shop = Shop::open().terms(|terms| terms.key(KeyNeed::Off));
    for _ in 0..2 {
        let seen = shop.send(pay("k").with("idempotency-key", "twice")).await;
        assert_eq!(seen.handled.outcome, "passed");
    }
    assert_eq!(shop.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_service_reaches_whoever_sent_no_key() {
    let shop = Shop::new(async |_| Err("no paper".into()));
    let request = pay("k").without("idempotency-key");
    let error = shop.try_call(request).await.unwrap_err();
    assert_eq!(error.to_string(), "no paper");

    let shop = Shop::new(async |_| Err(NotExecuted("no paper".into()).into()));
    let request = pay("k").without("idempotency-key");
    assert!(
        shop.try_call(request)
            .await
            .unwrap_err()
            .is::<NotExecuted>()
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_key_needs_no_caller_and_no_limit() {
    let shop = echo().terms(|terms| terms.request_max(4));
    let request = pay("k").without("idempotency-key").without("x-caller");
    let seen = read(shop.call(request.map(|_| full("a large body"))).await).await;
    seen.expect(200, "a large body");
}

#[tokio::test(start_paused = true)]
async fn the_service_sees_the_request_as_it_was_sent() {
    let shop = Shop::new(async |run: Run| {
        let (parts, body) = run.request.into_parts();
        let body = body.boxed_unsync().collect().await.unwrap();
        let trailers = body.trailers().cloned().unwrap_or_default();
        assert_eq!(parts.method, Method::POST);
        assert_eq!(parts.uri, "/payments?a=1");
        assert_eq!(parts.headers["x-note"], "hello");
        assert_eq!(parts.headers["idempotency-key"], "k");
        assert_eq!(trailers["x-checksum"], "17");
        assert_eq!(body.to_bytes(), "100");
        Ok(answer(201, "paid"))
    });
    let (up, body) = pipe();
    up.data("10");
    up.data("0");
    up.trailers(crate::world::checksum());
    drop(up);
    let request = pay("k").to(Method::POST, "/payments?a=1");
    let request = request.with("x-note", "hello").map(|_| body);
    shop.send(request).await.expect_first(201, "paid");
}
