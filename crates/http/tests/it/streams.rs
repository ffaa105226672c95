//! Answers that flow: streams, and answers too large to keep. Their end is withheld until they
//! are stored.

use std::time::Duration;

use bytes::Bytes;
use futures_util::poll;
use http::Response;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use onceward::State;
use onceward::testing::{Call, Fault};

use crate::world::{Answer, Sent, Shop, announced, checksum, empty, full, pay, pipe, read};

const LONG: Duration = Duration::from_secs(12);

/// The next frame's data.
async fn next(answer: &mut Answer) -> Bytes {
    let frame = answer.frame().await.expect("a frame comes");
    frame.unwrap().into_data().unwrap()
}

/// Sees that nothing comes while nothing is stored.
async fn expect_nothing_yet(shop: &Shop, answer: &mut Answer) {
    shop.world.settle().await;
    assert!(poll!(answer.frame()).is_pending());
}

async fn is_completed(shop: &Shop) -> bool {
    shop.world.settle().await;
    let record = shop.record("k").await.expect("there is a record");
    matches!(record.state, State::Completed(_))
}

/// A shop that keeps 8 bytes, and answers with `body` once.
fn small(body: Sent) -> Shop {
    Shop::once(move || {
        let answer = Response::builder().status(201);
        let answer = answer.header("location", "/payments/1");
        answer.body(body).unwrap()
    })
    .keeping(8)
}

// --- streams --------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn events_flow_before_the_stream_ends_and_are_replayed_whole() {
    let (out, body) = pipe();
    let shop = Shop::streaming(body);
    let mut answer = shop.call(pay("k")).await;
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        out.data(event);
        assert_eq!(next(&mut answer).await, event);
    }
    assert!(!is_completed(&shop).await);
    drop(out);
    assert!(answer.frame().await.is_none());
    assert!(is_completed(&shop).await);

    let again = shop.send(pay("k")).await;
    let again = again.expect_replay(200, "data: 1\n\ndata: 2\n\n");
    assert_eq!(again.headers["content-type"], "text/event-stream");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_media_type_of_events_is_read_in_any_case_and_with_parameters() {
    for media in ["text/event-stream;charset=utf-8", "Text/Event-Stream"] {
        let (out, body) = pipe();
        let shop = Shop::once(move || {
            let stream = Response::builder().header("content-type", media);
            stream.body(body).unwrap()
        });
        let mut answer = shop.call(pay("k")).await;
        out.data("data: 1\n\n");
        assert_eq!(next(&mut answer).await, "data: 1\n\n");
    }
}

#[tokio::test(start_paused = true)]
async fn a_route_may_stream_every_answer() {
    let (out, body) = pipe();
    let shop = Shop::once(move || Response::new(body)).terms(|terms| terms.stream(true));
    let mut answer = shop.call(pay("k")).await;
    out.data("one");
    assert_eq!(next(&mut answer).await, "one");
    out.trailers(checksum());
    drop(out);
    let trailers = answer.frame().await.unwrap().unwrap();
    assert_eq!(trailers.into_trailers().unwrap(), checksum());
    assert!(answer.frame().await.is_none());
    let again = shop.send(pay("k")).await.expect_replay(200, "one");
    assert_eq!(again.trailers, Some(checksum()));
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_body_is_stored_before_it_is_given_even_where_all_stream() {
    for status in [200, 204, 304] {
        let shop = Shop::answering(move || {
            let answer = Response::builder().status(status);
            answer.body(empty()).unwrap()
        });
        let shop = shop.terms(|terms| terms.stream(true));
        shop.send(pay("warm")).await.expect(status, "");
        shop.world.store.fail_next_of(Call::Replace, 1, Fault::Held);
        // The head is the whole message.
        let head = tokio::spawn(shop.call(pay("k")));
        shop.world.store.until_held().await;
        shop.world.settle().await;
        assert!(!head.is_finished(), "{status}");
        shop.world.store.release();
        read(head.await.unwrap()).await.expect_first(status, "");
        shop.send(pay("k")).await.expect_replay(status, "");
    }
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_of_a_running_stream_waits_for_its_end() {
    let (out, body) = pipe();
    let shop = Shop::streaming(body);
    let mut answer = shop.call(pay("k")).await;
    out.data("one");
    assert_eq!(next(&mut answer).await, "one");
    let second = shop.start(pay("k"));
    shop.world.settle().await;
    assert!(!second.is_finished());
    drop(out);
    second.await.unwrap().expect_replay(200, "one");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_cut_is_unknown_and_its_reader_sees_it() {
    let (out, body) = pipe();
    let shop = Shop::streaming(body);
    let answer = shop.call(pay("k")).await;
    out.data("half");
    out.fail();
    let seen = read(answer).await;
    assert!(seen.cut);
    assert_eq!(seen.body, "half");
    shop.world.settle().await;
    shop.expect_unknown("k").await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_handler_panics_is_unknown_and_its_reader_sees_it() {
    let frames = futures_util::stream::poll_fn(|_| panic!("told to"));
    let body = http_body_util::StreamBody::new(frames).boxed_unsync();
    let shop = Shop::streaming(body);
    let seen = shop.send(pay("k")).await;
    assert!(seen.cut);
    shop.world.settle().await;
    shop.expect_unknown("k").await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_falls_silent_is_unknown() {
    let (out, body) = pipe();
    let shop = Shop::streaming(body).terms(|terms| terms.within(LONG));
    let mut answer = shop.call(pay("k")).await;
    // It is the silence that counts, not the length of the whole.
    for _ in 0..3 {
        shop.world.pass(LONG / 2).await;
        out.data("one");
        assert_eq!(next(&mut answer).await, "one");
    }
    shop.world.pass(LONG + LONG / 2).await;
    assert!(read(answer).await.cut);
    shop.expect_unknown("k").await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_vanishes_does_not_stop_the_recording() {
    let (out, body) = pipe();
    let shop = Shop::streaming(body);
    let mut answer = shop.call(pay("k")).await;
    out.data("one");
    assert_eq!(next(&mut answer).await, "one");
    drop(answer);
    out.data("two");
    shop.world.settle().await;
    assert!(out.is_read());
    drop(out);
    assert!(is_completed(&shop).await);
    shop.send(pay("k")).await.expect_replay(200, "onetwo");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_read_is_left_behind() {
    let (out, body) = pipe();
    let shop = Shop::streaming(body).keeping(8 << 20);
    let answer = shop.call(pay("k")).await;
    let piece = Bytes::from(vec![b'x'; 512 << 10]);
    for _ in 0..6 {
        out.data(piece.clone());
    }
    drop(out);
    assert!(!is_completed(&shop).await);
    shop.world.pass(LONG).await;
    assert!(is_completed(&shop).await);

    let seen = read(answer).await;
    assert!(seen.cut, "it does not hold a whole answer");
    assert!(seen.body.len() <= 2 << 20, "{}", seen.body.len());
    let again = shop.send(pay("k")).await;
    assert_eq!((again.body.len(), again.cut), (3 << 20, false));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_merely_slow_gets_everything() {
    let (out, body) = pipe();
    let shop = Shop::streaming(body).keeping(8 << 20);
    let mut answer = shop.call(pay("k")).await;
    let piece = Bytes::from(vec![b'x'; 512 << 10]);
    for _ in 0..6 {
        out.data(piece.clone());
    }
    drop(out);
    for _ in 0..6 {
        shop.world.pass(LONG / 2).await;
        assert_eq!(next(&mut answer).await, piece);
    }
    assert!(answer.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_stream_is_withheld_until_it_is_stored() {
    let (out, body) = pipe();
    let shop = Shop::streaming(body);
    let mut answer = shop.call(pay("k")).await;
    out.data("one");
    assert_eq!(next(&mut answer).await, "one");
    shop.world.store.fail_next_of(Call::Replace, 1, Fault::Held);
    drop(out);
    shop.world.store.until_held().await;
    expect_nothing_yet(&shop, &mut answer).await;
    shop.world.store.release();
    assert!(answer.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_cannot_be_stored_is_cut() {
    let (out, body) = pipe();
    let shop = Shop::streaming(body);
    let answer = shop.call(pay("k")).await;
    out.data("one");
    shop.world.settle().await;
    shop.world.store.set_down(true);
    drop(out);
    shop.world.pass(LONG).await;
    assert!(read(answer).await.cut);
    shop.world.store.mend();
    shop.world.pass(LONG).await;
    shop.send(pay("k")).await.expect_replay(200, "one");
    assert_eq!(shop.runs(), 1);
}

// --- too large to keep ----------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn an_answer_too_large_to_keep_is_given_whole_and_not_executed_again() {
    let (out, undeclared) = pipe();
    for piece in ["0123", "4567", "89"] {
        out.data(piece);
    }
    drop(out);
    for body in [full("0123456789"), undeclared] {
        let shop = small(body);
        shop.send(pay("k")).await.expect_first(201, "0123456789");
        let again = shop.send(pay("k")).await;
        let problem = again.expect_problem("answer-not-kept");
        assert_eq!(again.status, 409);
        assert_eq!(again.headers["location"], "/payments/1");
        assert_eq!(again.headers["x-should-retry"], "false");
        assert_eq!(problem["original_status"], 201);
        assert_eq!(problem["location"], "/payments/1");
        assert_eq!(shop.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_bytes_of_an_announced_length_are_withheld_until_it_is_stored() {
    let (out, body) = pipe();
    let shop = small(announced(12, body));
    let mut answer = shop.call(pay("k")).await;
    assert_eq!(answer.body().size_hint().exact(), Some(12));
    out.data("01234567");
    assert_eq!(next(&mut answer).await, "01234567");
    shop.world.store.fail_next_of(Call::Replace, 1, Fault::Held);
    out.data("89ab");
    // An empty frame after the last byte is no byte.
    out.data("");
    drop(out);
    shop.world.store.until_held().await;
    expect_nothing_yet(&shop, &mut answer).await;
    shop.world.store.release();
    assert_eq!(next(&mut answer).await, "89ab");
    assert!(answer.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_length_that_only_the_head_announces_counts_too() {
    let (out, body) = pipe();
    let shop = Shop::once(move || {
        let answer = Response::builder().header("content-length", "12");
        answer.body(body).unwrap()
    });
    let shop = shop.keeping(8);
    let call = tokio::spawn(shop.call(pay("k")));
    out.data("0123456789");
    let mut answer = call.await.unwrap();
    assert_eq!(next(&mut answer).await, "0123456789");
    shop.world.store.fail_next_of(Call::Replace, 1, Fault::Held);
    out.data("ab");
    drop(out);
    shop.world.store.until_held().await;
    expect_nothing_yet(&shop, &mut answer).await;
    shop.world.store.release();
    assert_eq!(next(&mut answer).await, "ab");
}

#[tokio::test(start_paused = true)]
async fn an_announced_answer_that_cannot_be_stored_lacks_its_last_bytes() {
    let (out, body) = pipe();
    let shop = small(announced(12, body));
    let answer = shop.call(pay("k")).await;
    shop.world.store.set_down(true);
    out.data("01234567");
    out.data("89ab");
    drop(out);
    shop.world.pass(LONG).await;
    let seen = read(answer).await;
    assert!(seen.cut);
    assert_eq!(seen.body, "01234567");
}

#[tokio::test(start_paused = true)]
async fn an_answer_shorter_or_longer_than_announced_is_no_answer() {
    for pieces in [["01234567", "8"], ["01234567", "89abcdef"]] {
        let (out, body) = pipe();
        let shop = small(announced(12, body));
        let answer = shop.call(pay("k")).await;
        for piece in pieces {
            out.data(piece);
        }
        drop(out);
        assert!(read(answer).await.cut);
        shop.world.settle().await;
        shop.expect_unknown("k").await;
    }
}
