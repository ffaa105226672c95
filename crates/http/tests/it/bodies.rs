//! Request bodies: received in full before anything is claimed, up to a limit.

use http_body_util::BodyExt as _;

use crate::world::{Run, Shop, announced, answer, full, pay, pipe};

#[tokio::test(start_paused = true)]
async fn a_body_over_the_limit_is_refused_whether_or_not_it_says_so() {
    let shop = Shop::open().terms(|terms| terms.request_max(4));
    let (up, undeclared) = pipe();
    for piece in ["12", "34", "5"] {
        up.data(piece);
    }
    drop(up);
    for body in [full("12345"), announced(5, pipe().1), undeclared] {
        let seen = shop.send(pay("k").map(|_| body)).await;
        seen.expect_problem("body-too-large");
        assert_eq!(seen.status, 413);
        assert!(!seen.headers.contains_key("retry-after"));
    }
    assert_eq!((shop.runs(), shop.world.store.count()), (0, 0));

    let fits = pay("k").map(|_| full("1234"));
    shop.send(fits).await.expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn a_cut_upload_executes_nothing() {
    let shop = Shop::open();
    let (up, body) = pipe();
    up.data("1");
    up.fail();
    let seen = shop.send(pay("k").map(|_| body)).await;
    seen.expect_problem("request-cut");
    assert_eq!((shop.runs(), shop.world.store.count()), (0, 0));
    // The key is as good as new, for another body too.
    shop.send(pay("k")).await.expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn a_slow_sender_holds_no_key() {
    let shop = Shop::open();
    let (up, body) = pipe();
    up.data("10");
    let slow = shop.start(pay("k").map(|_| body));
    shop.world.settle().await;
    assert_eq!(shop.world.store.count(), 0);
    shop.send(pay("k")).await.expect_first(201, "paid");
    up.data("0");
    drop(up);
    slow.await.unwrap().expect_replay(201, "paid");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_trailers_of_a_request_count() {
    let shop = Shop::open();
    let trailed = || {
        let (up, body) = pipe();
        up.data("100");
        up.trailers(crate::world::checksum());
        pay("k").map(|_| body)
    };
    shop.send(trailed()).await.expect_first(201, "paid");
    shop.send(trailed()).await.expect_replay(201, "paid");
    shop.send(pay("k")).await.expect_problem("key-reused");
}

#[tokio::test(start_paused = true)]
async fn the_service_may_take_the_body_that_was_read_in_full() {
    let shop = Shop::new(
        async |run: Run| match run.request.into_body().into_whole() {
            Ok(whole) => {
                let (data, trailers) = whole.into_parts();
                assert_eq!((data, trailers), ("100".into(), None));
                Ok(answer(201, "whole"))
            }
            Err(passed) => {
                assert_eq!(passed.collect().await?.to_bytes(), "100");
                Ok(answer(201, "passed"))
            }
        },
    );
    shop.send(pay("k")).await.expect_first(201, "whole");
    let mut unkeyed = pay("k");
    unkeyed.headers_mut().remove("idempotency-key");
    shop.send(unkeyed).await.expect(201, "passed");
}
