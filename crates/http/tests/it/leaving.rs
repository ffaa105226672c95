//! Callers that leave: whenever they do, the work happens once and its answer is kept.

use futures_util::poll;
use http::Request;
use onceward::testing::Fault;

use crate::world::{Sent, Shop, answer, pay, pipe};

/// A shop in which everything takes its time: the store's calls, the work and its answer.
fn hesitant(media: &'static str) -> Shop {
    let shop = Shop::new(move |_| async move {
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        let (out, body) = pipe();
        tokio::spawn(async move {
            for piece in ["pa", "id"] {
                tokio::task::yield_now().await;
                out.data(piece);
            }
        });
        let mut answer = answer(201, "");
        *answer.body_mut() = body;
        let media = http::HeaderValue::from_static(media);
        answer.headers_mut().insert("content-type", media);
        Ok(answer)
    });
    for call in 1..100 {
        shop.world.store.fail_at(call, Fault::Held);
    }
    let store = shop.world.store.clone();
    tokio::spawn(async move {
        loop {
            store.until_held().await;
            store.release();
            tokio::task::yield_now().await;
        }
    });
    shop
}

/// A payment whose body takes its time.
fn hesitating(key: &str) -> Request<Sent> {
    let (up, body) = pipe();
    tokio::spawn(async move {
        for piece in ["1", "0", "0"] {
            tokio::task::yield_now().await;
            up.data(piece);
        }
    });
    pay(key).map(|_| body)
}

/// Polls a call this often, or to its end, and drops it. Returns whether it came to its end.
async fn leave_after(polls: usize, call: impl Future) -> bool {
    let mut call = Box::pin(call);
    for _ in 0..polls {
        if poll!(&mut call).is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

/// Leaves at every moment there is, and sees each time that a retry gets the only answer.
async fn leave_at_any_moment(media: &'static str) {
    let mut left = 0;
    for polls in 0.. {
        let shop = hesitant(media);
        let stayed = leave_after(polls, shop.call(hesitating("k"))).await;
        let retry = shop.send(pay("k")).await;
        retry.expect(201, "paid");
        assert_eq!(shop.runs(), 1, "left after {polls} polls");
        if stayed {
            break;
        }
        left += 1;
    }
    assert!(left >= 10, "the call has only {left} moments to leave at");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_at_any_moment_changes_nothing() {
    leave_at_any_moment("text/plain").await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_a_stream_at_any_moment_changes_nothing() {
    leave_at_any_moment("text/event-stream").await;
}

#[tokio::test(start_paused = true)]
async fn work_that_has_begun_goes_on_without_its_caller() {
    let (shop, gate) = Shop::gated();
    let first = shop.start_running("k").await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    gate.add_permits(1);
    shop.world.settle().await;
    shop.send(pay("k")).await.expect_replay(201, "paid");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_before_its_body_is_there_executes_nothing() {
    let shop = Shop::open();
    let (up, body) = pipe();
    up.data("1");
    let first = shop.start(pay("k").map(|_| body));
    shop.world.settle().await;
    assert!(up.is_read());
    first.abort();
    shop.world.settle().await;
    assert_eq!((shop.runs(), shop.world.store.count()), (0, 0));
    shop.send(pay("k")).await.expect_first(201, "paid");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_does_not_disturb_the_others() {
    let (shop, gate) = Shop::gated();
    let first = shop.start_running("k").await;
    let (leaves, stays) = (shop.start(pay("k")), shop.start(pay("k")));
    shop.world.settle().await;
    leaves.abort();
    gate.add_permits(1);
    first.await.unwrap().expect_first(201, "paid");
    stays.await.unwrap().expect_replay(201, "paid");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_work_whose_caller_left() {
    let (shop, gate) = Shop::gated();
    shop.start_running("k").await.abort();
    let engine = shop.world.engine.clone();
    let grace = std::time::Duration::from_secs(5);
    let shutdown = tokio::spawn(async move { engine.shutdown(grace).await });
    shop.world.settle().await;
    assert!(!shutdown.is_finished());
    shop.send(pay("other"))
        .await
        .expect_problem("store-unavailable");
    gate.add_permits(1);
    assert_eq!(shutdown.await.unwrap(), []);
    let mut next = shop.clone();
    next.world = shop.world.node();
    next.send(pay("k")).await.expect_replay(201, "paid");
}
