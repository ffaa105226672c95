//! What is said when there is no answer: unsent, or maybe sent.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderValue, Method};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, StreamBody};
use onceward::testing::{ExpectVerdict, ManualClock, World};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::super::deadline::Deadline;
use super::super::link::{Call, Exchange};
use super::super::outbound;
use super::secure::silent_peer;
use super::{
    Care, MINUTE, OK, Outbound, Peer, SECOND, Settings, Target, Upstream, chain, post, request,
    text,
};

fn upstream(target: &str) -> Upstream {
    let target = Target::parse(target).unwrap();
    Upstream::new(target, Settings::default(), Arc::new(ManualClock::new())).unwrap()
}

#[tokio::test]
async fn a_refused_connection_is_unsent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let upstream = upstream(&format!("http://127.0.0.1:{port}"));
    let error = upstream.send(post("pay"), Care::Fresh, MINUTE).await;
    let error = error.unwrap_err();
    assert!(error.is_unsent());
    assert!(
        chain(&error).contains("cannot connect"),
        "{}",
        chain(&error)
    );
    assert!(upstream.probe_connect().await.unwrap_err().is_unsent());
}

#[tokio::test]
async fn a_name_without_address_is_unsent() {
    let upstream = upstream("http://nothing.invalid");
    let error = upstream.send(post("pay"), Care::Any, MINUTE).await;
    assert!(error.unwrap_err().is_unsent());
}

/// Both sides run at once, so that the reset may come between any two writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_before_a_reset_is_heard() {
    for _ in 0..50 {
        let peer = Peer::new().await;
        let piece = Bytes::from(vec![b'x'; 17 << 10]);
        let pieces = stream::iter((0..2_000).map(move |_| Ok::<_, io::Error>(piece.clone())));
        let body = Outbound::passed(StreamBody::new(pieces.map(|piece| piece.map(Frame::data))));
        let upstream = peer.upstream.clone();
        let sending = tokio::spawn(async move {
            let request = request(Method::POST, "/", body);
            upstream.send(request, Care::Fresh, MINUTE).await
        });
        let mut caller = peer.accept().await;
        caller.read_to("xxxxxxxxxx").await;
        caller
            .say("HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n")
            .await;
        caller.reset();
        assert_eq!(sending.await.unwrap().unwrap().status(), 413);
        assert_eq!(peer.at_rest(), 0);
    }
}

/// A body that ends with its connection is whole only if nothing broke: the reset is told to whoever
/// writes, and to whoever reads behind that it looks like an end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_does_not_end_an_answer() {
    let mut begun = 0;
    for _ in 0..50 {
        let peer = Peer::new().await;
        let upstream = peer.upstream.clone();
        let sending = tokio::spawn(async move {
            let body = Outbound::buffered(vec![b'x'; 32 << 20]);
            let request = request(Method::POST, "/", body);
            upstream.send(request, Care::Fresh, MINUTE).await
        });
        let mut caller = peer.accept().await;
        caller.read_to("xxxxxxxxxx").await;
        caller.say("HTTP/1.1 200 OK\r\n\r\npart").await;
        caller.reset();
        match sending.await.unwrap() {
            Ok(answer) => {
                begun += 1;
                assert!(
                    text(answer).await.is_err(),
                    "a part was taken for the whole"
                );
            }
            Err(error) => assert!(!error.is_unsent()),
        }
    }
    assert!(begun > 0, "no answer was begun");
}

#[tokio::test]
async fn a_reset_after_half_a_request_is_maybe_sent() {
    let peer = Peer::new().await;
    let body = Outbound::buffered(vec![b'x'; 32 << 20]);
    let sending = peer.send(request(Method::POST, "/", body), Care::Fresh);
    let (sent, ()) = tokio::join!(sending, async {
        let mut caller = peer.accept().await;
        caller.read_to("xxxxxxxxxx").await;
        caller.reset();
    });
    assert!(!sent.unwrap_err().is_unsent());
    assert_eq!(peer.at_rest(), 0);
}

#[tokio::test]
async fn a_close_instead_of_an_answer_is_maybe_sent_and_not_sent_again() {
    let peer = Peer::new().await;
    let mut caller = peer.warmed_up().await;
    let (sent, ()) = tokio::join!(peer.post(Care::Any), async move {
        caller.request().await;
        drop(caller);
    });
    assert!(!sent.unwrap_err().is_unsent());
    // The next connection that comes is that of the next request.
    peer.expect_new_connection(Care::Any).await;
}

#[tokio::test]
async fn a_head_that_is_cut_or_no_http_is_maybe_sent() {
    for (answer, reason) in [
        ("HTTP/1.1 200 OK\r\ncontent-le", "before the end"),
        ("SSH-2.0-OpenSSH_9.6\r\n", "not HTTP/1.1"),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
            "length is ambiguous",
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "not one chunked",
        ),
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", "empty line"),
        ("HTTP/1.1 100 Continue\r\n\r\n\n", "empty line"),
        ("HTTP/1.1 100 Continue\r\n\r\n", "before the end"),
    ] {
        let peer = Peer::new().await;
        let (sent, ()) = tokio::join!(peer.post(Care::Any), async {
            let mut caller = peer.accept().await;
            caller.request().await;
            caller.say(answer).await;
        });
        let error = sent.unwrap_err();
        assert!(!error.is_unsent(), "{answer}");
        let text = chain(&error);
        assert!(text.contains(reason), "{answer}: {text}");
        assert_eq!(peer.at_rest(), 0);
    }
}

#[tokio::test]
async fn a_body_that_is_cut_is_an_error_and_ends_its_connection() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalfnoise",
    ] {
        let peer = Peer::new().await;
        let (sent, ()) = tokio::join!(peer.post(Care::Any), async {
            let mut caller = peer.accept().await;
            caller.request().await;
            caller.say(answer).await;
        });
        let mut body = sent.unwrap().into_body();
        while body.frame().await.unwrap().is_ok() {}
        // Who asks again is not told that this was all.
        for _ in 0..2 {
            body.frame().await.unwrap().unwrap_err();
        }
        assert!(!body.is_end_stream());
        assert_eq!(peer.at_rest(), 0);
    }
}

#[tokio::test]
async fn a_request_whose_own_body_fails_is_maybe_sent_once_a_byte_went_out() {
    let peer = Peer::new().await;
    let (arrived, arrival) = tokio::sync::oneshot::channel();
    let first = stream::once(async { Ok(Frame::data("half".into())) });
    let body = StreamBody::new(first.chain(stream::once(async {
        arrival.await.unwrap();
        Err(io::Error::other("the caller went away"))
    })));
    let request = request(Method::POST, "/", Outbound::passed(body));
    let (sent, ()) = tokio::join!(peer.send(request, Care::Any), async {
        let mut caller = peer.accept().await;
        caller.read_to("half").await;
        arrived.send(()).unwrap();
        caller.rest().await;
    });
    let error = sent.unwrap_err();
    assert!(!error.is_unsent());
    assert!(chain(&error).contains("went away"), "{}", chain(&error));
}

#[tokio::test]
async fn a_request_whose_own_body_fails_at_once_is_unsent() {
    let peer = Peer::new().await;
    let failure =
        stream::once(async { Err::<Frame<Bytes>, _>(io::Error::other("the caller went away")) });
    let request = request(
        Method::POST,
        "/",
        Outbound::passed(StreamBody::new(failure)),
    );
    let (sent, mut caller) = tokio::join!(peer.send(request, Care::Any), peer.accept());
    assert!(sent.unwrap_err().is_unsent());
    assert_eq!(caller.rest().await, b"");
}

#[tokio::test]
async fn no_answer_in_time_is_maybe_sent() {
    let peer = Peer::new().await;
    let (sent, _caller) = tokio::join!(peer.post(Care::Any), async {
        let mut caller = peer.accept().await;
        caller.request().await;
        tokio::time::pause();
        tokio::time::advance(MINUTE + SECOND).await;
        caller
    });
    let error = sent.unwrap_err();
    assert!(!error.is_unsent());
    assert!(chain(&error).contains("no answer"), "{}", chain(&error));
}

#[tokio::test]
async fn a_head_that_trickles_gains_no_time_by_it() {
    let peer = Peer::new().await;
    let (sent, ()) = tokio::join!(peer.post(Care::Any), async {
        let mut caller = peer.accept().await;
        caller.request().await;
        caller.say("HTTP/1.1 200 OK\r\nx: ").await;
        tokio::time::pause();
        for _ in 0..20 {
            tokio::time::advance(4 * SECOND).await;
            let _ = caller.stream.write_all(b"y").await;
            tokio::task::yield_now().await;
        }
        let _ = caller.stream.write_all(b"\r\n\r\n").await;
    });
    let error = sent.unwrap_err();
    assert!(!error.is_unsent());
    assert!(chain(&error).contains("no answer"), "{}", chain(&error));
}

#[tokio::test]
async fn no_connection_in_time_is_unsent() {
    // Between connecting and the end of the handshake the time passes.
    for (within, reason) in [(MINUTE, "no connection"), (SECOND, "no answer")] {
        let peer = silent_peer().await;
        let sending = peer.upstream.send(post("pay"), Care::Any, within);
        let (sent, _caller) = tokio::join!(sending, async {
            let caller = peer.accept().await;
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(6)).await;
            caller
        });
        tokio::time::resume();
        let error = sent.unwrap_err();
        assert!(error.is_unsent());
        assert!(chain(&error).contains(reason), "{}", chain(&error));
    }
}

#[tokio::test]
async fn a_claim_that_lapsed_while_connecting_is_not_sent_under() {
    let peer = Peer::new().await;
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    let mut held = post("pay");
    held.extensions_mut().insert(claim.as_attempt());
    let (sent, _caller) = tokio::join!(peer.send(held, Care::Fresh), async {
        let mut caller = peer.accept().await;
        caller.request().await;
        caller.say(OK).await;
        caller
    });
    text(sent.unwrap()).await.unwrap();

    world.clock.advance(world.policy.lease);
    let mut lapsed = post("pay");
    lapsed.extensions_mut().insert(claim.as_attempt());
    let error = peer.send(lapsed, Care::Fresh).await.unwrap_err();
    assert!(error.is_unsent());
    assert!(chain(&error).contains("claim lapsed"), "{}", chain(&error));
}

#[tokio::test]
async fn a_tunnel_is_refused() {
    let peer = Peer::new().await;
    let request = request(Method::CONNECT, "elsewhere:443", Outbound::Empty);
    assert!(peer.send(request, Care::Any).await.unwrap_err().is_unsent());
}

#[tokio::test]
async fn a_switch_that_nobody_asked_for_is_maybe_sent() {
    let peer = Peer::new().await;
    let (sent, ()) = tokio::join!(peer.post(Care::Any), async {
        let mut caller = peer.accept().await;
        caller.request().await;
        caller
            .say("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n")
            .await;
        caller.rest().await;
    });
    assert!(!sent.unwrap_err().is_unsent());
}

#[tokio::test]
async fn a_switch_before_the_request_is_written_is_maybe_sent() {
    let peer = Peer::new().await;
    let body = Outbound::buffered(vec![b'x'; 32 << 20]);
    let mut asking = request(Method::POST, "/", body);
    let protocol = HeaderValue::from_static("echo");
    asking.headers_mut().insert("upgrade", protocol);
    let (sent, _caller) = tokio::join!(peer.send(asking, Care::Any), async {
        let mut caller = peer.accept().await;
        caller.read_to("\r\n\r\n").await;
        caller
            .say("HTTP/1.1 101 Switching Protocols\r\nupgrade: echo\r\n\r\n")
            .await;
        caller
    });
    let error = sent.unwrap_err();
    assert!(!error.is_unsent());
    assert!(chain(&error).contains("before it had"), "{}", chain(&error));
}

#[tokio::test]
async fn a_connection_that_ended_or_spoke_before_the_request_carries_none_of_it() {
    for (said, reason) in [
        ("", "closed the connection before it was asked"),
        (OK, "spoke before"),
    ] {
        let peer = Peer::new().await;
        let mut link = peer.upstream.shared.connect().await.unwrap();
        let mut caller = peer.accept().await;
        caller.say(said).await;
        caller.close();
        // So that the runtime knows.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut request = post("pay");
        let framing = outbound::prepare(&mut request, peer.upstream.target()).unwrap();
        let mut call = Call {
            request: &mut request,
            framing,
            deadline: &mut Deadline::new(MINUTE),
            is_begun: false,
        };
        let Exchange::NotBegun(cause) = poll_fn(|cx| link.poll_exchange(cx, &mut call)).await
        else {
            panic!("it is not even begun with");
        };
        assert!(cause.to_string().contains(reason), "{cause}");
        assert_eq!((*link).close(), 0);
    }
}
