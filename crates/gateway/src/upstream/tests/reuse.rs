//! Which connections are used again.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use http::Method;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::runtime::{Builder, Runtime};

use super::super::outbound;
use super::{
    Care, MINUTE, OK, Outbound, Peer, SECOND, Settings, post, request, text, until_news_at,
};

#[tokio::test]
async fn a_connection_is_used_again() {
    let peer = Peer::new().await;
    let mut caller = peer.warmed_up().await;
    for care in [Care::Any, Care::Fresh] {
        peer.expect_reuse(&mut caller, care).await;
    }
}

#[tokio::test]
async fn a_careful_request_takes_no_connection_that_rested_for_over_a_second() {
    let peer = Peer::new().await;
    let mut old = peer.warmed_up().await;
    peer.clock.advance(SECOND);
    peer.expect_reuse(&mut old, Care::Fresh).await;

    peer.clock.advance(SECOND + Duration::from_millis(1));
    let mut new = peer.expect_new_connection(Care::Fresh).await;
    // A service that serves one connection at a time would wait for the old one to end.
    assert_eq!(peer.at_rest(), 1);
    assert_eq!(old.rest().await, b"");

    peer.clock.advance(SECOND + Duration::from_millis(1));
    peer.expect_reuse(&mut new, Care::Any).await;
}

#[tokio::test]
async fn a_close_while_idle_is_noticed_before_anything_is_written() {
    for care in [Care::Any, Care::Fresh] {
        let peer = Peer::new().await;
        let caller = peer.warmed_up().await;
        // The runtime does not get to see this close before the next request is sent.
        caller.close();
        peer.expect_new_connection(care).await;
        assert_eq!(peer.at_rest(), 1);
    }
}

#[tokio::test]
async fn a_reset_while_idle_is_noticed_before_anything_is_written() {
    let peer = Peer::new().await;
    peer.warmed_up().await.reset();
    peer.expect_new_connection(Care::Fresh).await;
}

#[tokio::test]
async fn bytes_that_nobody_asked_for_are_not_taken_for_the_next_answer() {
    let peer = Peer::new().await;
    let mut caller = peer.warmed_up().await;
    caller
        .say("HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        .await;
    until_news_at(caller.stream.peer_addr().unwrap());
    peer.expect_new_connection(Care::Any).await;
    assert_eq!(caller.rest().await, b"");
}

#[tokio::test]
async fn bytes_after_an_answer_close_its_connection() {
    let peer = Peer::new().await;
    let mut caller = peer
        .answered_with(&format!("{OK}HTTP/1.1 200 OK\r\n"))
        .await;
    assert_eq!(peer.at_rest(), 0);
    assert_eq!(caller.rest().await, b"");
}

#[tokio::test]
async fn bytes_after_an_answer_that_has_no_body_close_its_connection() {
    for (method, answer) in [
        (Method::HEAD, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"),
        (Method::GET, "HTTP/1.1 204 No Content\r\n\r\n"),
        (
            Method::GET,
            "HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\n\r\n",
        ),
    ] {
        for comes_later in [false, true] {
            let peer = Peer::new().await;
            let sending = peer.send(request(method.clone(), "/", Outbound::Empty), Care::Any);
            let (sent, mut caller) = tokio::join!(sending, async {
                let mut caller = peer.accept().await;
                caller.read_to("\r\n\r\n").await;
                let surplus = if comes_later { "" } else { "ok" };
                caller.say(&format!("{answer}{surplus}")).await;
                caller
            });
            assert!(sent.unwrap().body().is_end_stream());
            assert_eq!(peer.at_rest(), usize::from(comes_later), "{answer}");
            if comes_later {
                caller.say("ok").await;
                until_news_at(caller.stream.peer_addr().unwrap());
            }
            peer.expect_new_connection(Care::Any).await;
            assert_eq!(caller.rest().await, b"");
        }
    }
}

#[tokio::test]
async fn a_connection_at_rest_keeps_nobody_alive() {
    let peer = Peer::new().await;
    let (kept, _caller) = tokio::join!(keeps_task(async { peer.post(Care::Any).await }), async {
        let mut caller = peer.accept().await;
        caller.request().await;
        caller.say(OK).await;
        caller
    });
    assert_eq!(peer.at_rest(), 1);
    assert!(!kept);
}

/// Sends a request and reads its answer, and says whether anything still knows the waker with
/// which that was polled.
pub(super) async fn keeps_task(
    sending: impl Future<Output = Result<http::Response<super::Inbound>, super::SendError>>,
) -> bool {
    struct Passing(Waker);
    impl Wake for Passing {
        fn wake(self: Arc<Self>) {
            self.0.wake_by_ref();
        }
    }
    let outer = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    let inner = Arc::new(Passing(outer));
    let waker = Waker::from(Arc::clone(&inner));
    let mut calling = Box::pin(async { text(sending.await.unwrap()).await.unwrap() });
    poll_fn(|_| calling.as_mut().poll(&mut Context::from_waker(&waker))).await;
    drop((calling, waker));
    Arc::strong_count(&inner) > 1
}

#[tokio::test]
async fn a_connection_that_ends_before_the_request_is_begun_is_replaced_once() {
    let peer = Peer::new().await;
    let mut dead = peer.upstream.shared.connect().await.unwrap();
    drop(peer.accept().await);
    poll_fn(|cx| dead.poll_end(cx)).await;

    let mut request = post("pay");
    let framing = outbound::prepare(&mut request, peer.upstream.target()).unwrap();
    let sending = (peer.upstream).send_on(Some(dead), &mut request, framing, MINUTE);
    let (sent, mut caller) = tokio::join!(sending, async {
        let mut caller = peer.accept().await;
        caller.request().await;
        caller.say(OK).await;
        caller
    });
    text(sent.unwrap()).await.unwrap();
    drop(peer.upstream);
    assert_eq!(caller.rest().await, b"", "one request came, and no second");
}

#[tokio::test]
async fn close_is_obeyed_and_http_1_0_is_not_spoken_twice() {
    for answer in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\n",
    ] {
        let peer = Peer::new().await;
        let mut caller = peer.answered_with(answer).await;
        assert_eq!(peer.at_rest(), 0, "{answer}");
        assert_eq!(caller.rest().await, b"");
    }
}

#[tokio::test]
async fn the_last_second_that_the_server_hints_at_is_not_used() {
    let answer = "HTTP/1.1 200 OK\r\nkeep-alive: timeout=5\r\ncontent-length: 2\r\n\r\nok";
    let peer = Peer::new().await;
    let mut caller = peer.answered_with(answer).await;
    peer.clock.advance(Duration::from_millis(3_999));
    let (sent, ()) = tokio::join!(peer.post(Care::Any), async {
        caller.request().await;
        caller.say(answer).await;
    });
    text(sent.unwrap()).await.unwrap();

    peer.clock.advance(4 * SECOND);
    peer.expect_new_connection(Care::Any).await;
    assert_eq!(caller.rest().await, b"");
}

#[tokio::test]
async fn connections_that_rested_too_long_are_closed_in_quiet_times() {
    let settings = Settings {
        idle_max: 10 * SECOND,
        ..Settings::default()
    };
    let peer = Peer::with("http", "", settings).await;
    let mut old = peer.warmed_up().await;
    peer.clock.advance(9 * SECOND);
    peer.upstream.reap();
    assert_eq!(peer.at_rest(), 1);
    peer.clock.advance(SECOND);
    peer.upstream.reap();
    assert_eq!(peer.at_rest(), 0);
    assert_eq!(old.rest().await, b"");
}

#[tokio::test]
async fn no_more_connections_rest_than_may_and_the_newest_stay() {
    let settings = Settings {
        idle_connections_max: 1,
        ..Settings::default()
    };
    let peer = Peer::with("http", "", settings).await;
    let mut old = peer.warmed_up().await;
    peer.clock.advance(2 * SECOND);
    let mut new = peer.expect_new_connection(Care::Fresh).await;
    assert_eq!(peer.at_rest(), 1);
    assert_eq!(old.rest().await, b"");
    peer.expect_reuse(&mut new, Care::Any).await;
}

#[tokio::test]
async fn an_answer_before_the_request_is_written_ends_its_connection() {
    const BODY: usize = 32 << 20;
    let buffered = Outbound::buffered(vec![b'x'; BODY]);
    let passed = Outbound::passed(http_body_util::Full::new(vec![b'x'; BODY].into()));
    for body in [buffered, passed] {
        let peer = Peer::new().await;
        let sending = peer.send(request(Method::POST, "/", body), Care::Any);
        let (sent, mut caller) = tokio::join!(sending, async {
            let mut caller = peer.accept().await;
            caller.read_to("\r\n\r\n").await;
            caller.say(OK).await;
            caller
        });
        assert_eq!(text(sent.unwrap()).await.unwrap(), "ok");
        assert_eq!(peer.at_rest(), 0);
        assert!(caller.rest().await.len() < BODY);
    }
}

#[tokio::test]
async fn an_answer_dropped_early_closes_its_connection() {
    let peer = Peer::new().await;
    let (sent, mut caller) = tokio::join!(peer.post(Care::Any), async {
        let mut caller = peer.accept().await;
        caller.request().await;
        caller
            .say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
            .await;
        caller
    });
    let mut body = sent.unwrap().into_body();
    assert_eq!(
        body.frame().await.unwrap().unwrap().into_data().unwrap(),
        "half"
    );
    drop(body);
    assert_eq!(peer.at_rest(), 0);
    assert_eq!(caller.rest().await, b"");
}

#[tokio::test]
async fn a_dropped_call_closes_its_connection() {
    let peer = Peer::new().await;
    let mut caller = tokio::select! {
        _ = peer.post(Care::Any) => panic!("nothing was answered"),
        caller = async {
            let mut caller = peer.accept().await;
            caller.request().await;
            caller
        } => caller,
    };
    assert_eq!(caller.rest().await, b"");
    assert_eq!(peer.at_rest(), 0);
}

#[tokio::test]
async fn a_reader_that_stops_at_the_last_byte_leaves_the_connection_to_others() {
    let peer = Peer::new().await;
    let (sent, mut caller) = tokio::join!(peer.post(Care::Any), async {
        let mut caller = peer.accept().await;
        caller.request().await;
        caller.say(OK).await;
        caller
    });
    let mut body = sent.unwrap().into_body();
    assert_eq!(
        body.frame().await.unwrap().unwrap().into_data().unwrap(),
        "ok"
    );
    drop(body);
    peer.expect_reuse(&mut caller, Care::Any).await;
}

#[tokio::test]
async fn an_exchange_on_a_rested_connection_polls_its_task_twice() {
    let peer = Peer::new().await;
    let mut caller = peer.warmed_up().await;
    let upstream = peer.upstream.clone();
    // Once to write the request, once to read the answer: the halves of a connection do not wake
    // the task that drives them both.
    let calling = tokio::spawn(async move {
        let mut calling = pin!(async {
            let sent = upstream.send(post("pay"), Care::Fresh, MINUTE).await;
            text(sent.unwrap()).await.unwrap()
        });
        let mut polls = 0;
        let answer = poll_fn(|cx| {
            polls += 1;
            calling.as_mut().poll(cx)
        })
        .await;
        (answer, polls)
    });
    caller.request().await;
    caller.say(OK).await;
    assert_eq!(calling.await.unwrap(), ("ok".to_owned(), 2));
}

#[tokio::test]
async fn a_connection_of_another_runtime_is_used_only_if_nobody_there_needs_it() {
    let peer = Peer::new().await;
    let mut theirs = peer.warmed_up().await;
    let elsewhere = Lane::start();

    // A service that serves one connection at a time would not look at a new one.
    let send = |care| elsewhere.send(&peer, care);
    let (sent, ()) = tokio::join!(send(Care::Fresh), async {
        theirs.request().await;
        theirs.say(OK).await;
    });
    assert_eq!(sent, "ok");
    assert_eq!(peer.at_rest(), 1);

    // While there is work under way everybody uses their own.
    let mut busy = peer.upstream.shared.connect().await.unwrap();
    let dialled = peer.accept().await;
    let (sent, ours) = tokio::join!(send(Care::Any), async {
        let mut caller = peer.accept().await;
        caller.request().await;
        caller.say(OK).await;
        caller
    });
    assert_eq!(sent, "ok");
    assert_eq!(peer.at_rest(), 2);

    // One that rested for a moment is not needed where it was made.
    peer.clock.advance(SECOND / 2);
    peer.expect_reuse(&mut theirs, Care::Any).await;
    let mut again = peer.upstream.shared.connect().await.unwrap();
    drop(peer.accept().await);
    poll_fn(|cx| again.poll_end(cx)).await;
    peer.clock.advance(SECOND / 2);
    let third = Lane::start();
    let (sent, ()) = tokio::join!(third.send(&peer, Care::Any), async {
        theirs.request().await;
        theirs.say(OK).await;
    });
    assert_eq!(sent, "ok");
    drop((again, dialled));
    poll_fn(|cx| busy.poll_end(cx)).await;
    drop((busy, ours));
}

/// A runtime of another thread.
struct Lane(Option<Runtime>);

// === impl Lane ===

impl Lane {
    fn start() -> Self {
        let mut builder = Builder::new_multi_thread();
        Self(Some(
            builder.worker_threads(1).enable_all().build().unwrap(),
        ))
    }

    /// Sends a request from there, and returns the answer's text.
    async fn send(&self, peer: &Peer, care: Care) -> String {
        let upstream = peer.upstream.clone();
        let sending = async move {
            let answer = upstream.send(post("pay"), care, MINUTE).await.unwrap();
            text(answer).await.unwrap()
        };
        let runtime = self.0.as_ref().expect("it runs until it is dropped");
        runtime.spawn(sending).await.unwrap()
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
