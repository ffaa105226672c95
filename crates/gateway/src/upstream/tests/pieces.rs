//! Exchanges that come and go in pieces, both ways at once.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Method, Request, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, StreamBody};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use super::{Care, OK, Outbound, Peer, chain, post, request, text};

/// A body in one piece that says what it likes about its length.
struct Piece {
    says: Option<u64>,
    data: Option<Bytes>,
}

// === impl Piece ===

impl Piece {
    fn request(says: Option<u64>, data: impl Into<Bytes>) -> Request<Outbound> {
        let data = Some(data.into());
        request(Method::POST, "/", Outbound::passed(Self { says, data }))
    }
}

impl Body for Piece {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.data.take().map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.says.map(SizeHint::with_exact).unwrap_or_default()
    }
}

/// A body of frames that are sent one by one.
fn open_body() -> (mpsc::UnboundedSender<Frame<Bytes>>, Outbound) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let frames = stream::unfold(receiver, |mut receiver| async {
        let frame = receiver.recv().await?;
        Some((Ok::<_, Infallible>(frame), receiver))
    });
    (sender, Outbound::passed(StreamBody::new(frames.boxed())))
}

#[tokio::test]
async fn an_answer_may_come_byte_by_byte() {
    let peer = Peer::new().await;
    let answer = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nx-a: 1\r\n\
        transfer-encoding: chunked\r\n\r\n2;x\r\nok\r\n3\r\nok2\r\n0\r\nx-sum: 7\r\n\r\n";
    let (answer, mut caller) = tokio::join!(
        async {
            let answer = peer.post(Care::Any).await.unwrap();
            assert_eq!(answer.headers()["x-a"], "1");
            answer.into_body().collect().await.unwrap()
        },
        async {
            let mut caller = peer.accept().await;
            caller.request().await;
            for at in 0..answer.len() {
                caller.say(&answer[at..=at]).await;
                tokio::task::yield_now().await;
            }
            caller
        }
    );
    assert_eq!(answer.trailers().unwrap()["x-sum"], "7");
    assert_eq!(answer.to_bytes(), "okok2");
    peer.expect_reuse(&mut caller, Care::Any).await;
}

#[tokio::test]
async fn a_request_goes_on_while_its_answer_comes() {
    let peer = Peer::new().await;
    let (frames, body) = open_body();
    let sending = peer.send(request(Method::POST, "/echo", body), Care::Any);
    let (sent, mut caller) = tokio::join!(sending, async {
        let mut caller = peer.accept().await;
        caller.read_to("\r\n\r\n").await;
        caller
            .say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            .await;
        caller
    });
    let mut answer = sent.unwrap().into_body();
    for word in ["one", "two"] {
        frames.send(Frame::data(word.into())).unwrap();
        let (heard, ()) = tokio::join!(answer.frame(), async {
            let chunk = caller.read_to(&format!("3\r\n{word}\r\n")).await;
            caller.say(&chunk).await;
        });
        assert_eq!(heard.unwrap().unwrap().into_data().unwrap(), word);
    }
    drop(frames);
    let (rest, ()) = tokio::join!(answer.collect(), async {
        let end = caller.read_to("0\r\n\r\n").await;
        caller.say(&end).await;
    });
    assert!(rest.unwrap().to_bytes().is_empty());
    peer.expect_reuse(&mut caller, Care::Any).await;
}

#[tokio::test]
async fn an_answer_in_the_middle_of_the_request_is_heard_though_the_connection_is_reset() {
    let peer = Peer::new().await;
    let body = Outbound::buffered(vec![b'x'; 32 << 20]);
    let sending = peer.send(request(Method::POST, "/", body), Care::Any);
    let (sent, ()) = tokio::join!(sending, async {
        let mut caller = peer.accept().await;
        caller.read_to("\r\n\r\n").await;
        caller
            .say("HTTP/1.1 413 Content Too Large\r\ncontent-length: 2\r\n\r\nok")
            .await;
        // It closes with bytes unread, which resets the connection.
        drop(caller);
    });
    let answer = sent.unwrap();
    assert_eq!(answer.status(), 413);
    assert_eq!(text(answer).await.unwrap(), "ok");
    assert_eq!(peer.at_rest(), 0);
}

#[tokio::test]
async fn a_body_that_fails_while_the_answer_comes_cuts_the_answer() {
    let peer = Peer::new().await;
    let (fail, failure) = tokio::sync::oneshot::channel::<()>();
    let failing = stream::once(async {
        failure.await.unwrap();
        Err::<Frame<Bytes>, _>(std::io::Error::other("the caller went away"))
    });
    let body = Outbound::passed(StreamBody::new(failing.boxed()));
    let sending = peer.send(request(Method::POST, "/", body), Care::Any);
    let (sent, _caller) = tokio::join!(sending, async {
        let mut caller = peer.accept().await;
        caller.read_to("\r\n\r\n").await;
        caller
            .say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
            .await;
        caller
    });
    fail.send(()).unwrap();
    text(sent.unwrap()).await.unwrap_err();
    assert_eq!(peer.at_rest(), 0);
}

#[tokio::test]
async fn a_body_is_cut_to_the_length_that_was_said() {
    let peer = Peer::new().await;
    let sending = peer.send(Piece::request(Some(3), "pay and more"), Care::Any);
    let (sent, mut caller) = tokio::join!(sending, async {
        let mut caller = peer.accept().await;
        caller.request().await;
        caller.say(OK).await;
        caller
    });
    text(sent.unwrap()).await.unwrap();
    let request = peer.send(post("pay"), Care::Any);
    let (sent, read) = tokio::join!(request, async {
        let read = caller.request().await;
        caller.say(OK).await;
        read
    });
    text(sent.unwrap()).await.unwrap();
    assert!(read.starts_with("POST /payments HTTP/1.1\r\n"), "{read}");
}

#[tokio::test]
async fn a_body_shorter_than_it_said_is_no_request() {
    let peer = Peer::new().await;
    let sending = peer.send(Piece::request(Some(50), "pay"), Care::Any);
    let (sent, mut caller) = tokio::join!(sending, peer.accept());
    let error = sent.unwrap_err();
    assert!(error.is_unsent());
    assert!(chain(&error).contains("shorter"), "{}", chain(&error));
    assert_eq!(caller.rest().await, b"");
}

#[tokio::test]
async fn trailers_of_a_passed_body_go_out_if_they_are_announced() {
    let peer = Peer::new().await;
    let (frames, body) = open_body();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", HeaderValue::from_static("7"));
    trailers.insert("x-other", HeaderValue::from_static("8"));
    let mut announced = "x-sum".to_owned();
    // These go no further as headers either.
    for name in ["connection", "idempotency-fence", "x-forwarded-for"] {
        trailers.insert(name, HeaderValue::from_static("9"));
        announced = format!("{announced}, {name}");
    }
    frames.send(Frame::data("pay".into())).unwrap();
    frames.send(Frame::trailers(trailers)).unwrap();
    let mut request = request(Method::POST, "/", body);
    let announced = HeaderValue::from_str(&announced).unwrap();
    request.headers_mut().insert("trailer", announced);
    let (sent, read) = tokio::join!(peer.send(request, Care::Any), async {
        let mut caller = peer.accept().await;
        let read = caller.read_to("x-sum: 7\r\n\r\n").await;
        caller.say(OK).await;
        read
    });
    text(sent.unwrap()).await.unwrap();
    assert!(
        read.ends_with("3\r\npay\r\n0\r\nx-sum: 7\r\n\r\n"),
        "{read}"
    );
    assert_eq!(peer.at_rest(), 1);
}

#[tokio::test]
async fn large_chunks_go_out_whole() {
    const SIZE: usize = 3 << 20;
    let peer = Peer::new().await;
    let (frames, body) = open_body();
    for byte in [b'a', b'b'] {
        frames.send(Frame::data(vec![byte; SIZE].into())).unwrap();
    }
    drop(frames);
    let (a, b) = ("a".repeat(SIZE), "b".repeat(SIZE));
    let expected = format!("300000\r\n{a}\r\n300000\r\n{b}\r\n0\r\n\r\n");
    let sending = peer.send(request(Method::POST, "/", body), Care::Any);
    let (sent, read) = tokio::join!(sending, async {
        let mut caller = peer.accept().await;
        caller.read_to("\r\n\r\n").await;
        let mut read = vec![0; expected.len()];
        caller.stream.read_exact(&mut read).await.unwrap();
        caller.say(OK).await;
        read
    });
    text(sent.unwrap()).await.unwrap();
    assert!(read == expected.as_bytes());
    assert_eq!(peer.at_rest(), 1);
}

#[tokio::test]
async fn a_chunk_that_is_known_to_be_the_last_ends_its_body() {
    for size in [3, 20 << 10] {
        let peer = Peer::new().await;
        let data = "x".repeat(size);
        let sending = peer.send(Piece::request(None, data.clone()), Care::Any);
        let (sent, read) = tokio::join!(sending, async {
            let mut caller = peer.accept().await;
            caller.read_to("\r\n\r\n").await;
            let read = caller.read_to("\r\n0\r\n\r\n").await;
            caller.say(OK).await;
            read
        });
        text(sent.unwrap()).await.unwrap();
        assert!(read == format!("{size:x}\r\n{data}\r\n0\r\n\r\n"));
        assert_eq!(peer.at_rest(), 1);
    }
}

#[tokio::test]
async fn a_service_that_only_ever_announces_its_answer_is_not_listened_to() {
    let peer = Peer::new().await;
    let (sent, ()) = tokio::join!(peer.post(Care::Any), async {
        let mut caller = peer.accept().await;
        caller.request().await;
        caller
            .say(&"HTTP/1.1 102 Processing\r\n\r\n".repeat(101))
            .await;
        caller.rest().await;
    });
    let error = sent.unwrap_err();
    assert!(!error.is_unsent());
    assert!(chain(&error).contains("too many"), "{}", chain(&error));
}

#[tokio::test]
async fn an_answer_of_http_1_0_ends_with_its_connection() {
    let peer = Peer::new().await;
    let (sent, ()) = tokio::join!(peer.post(Care::Any), async {
        let mut caller = peer.accept().await;
        caller.request().await;
        caller.say("HTTP/1.0 200 OK\r\n\r\nok").await;
    });
    let answer = sent.unwrap();
    assert_eq!(answer.version(), Version::HTTP_10);
    assert_eq!(text(answer).await.unwrap(), "ok");
    assert_eq!(peer.at_rest(), 0);
}

#[tokio::test]
async fn the_size_of_an_answer_is_what_is_still_to_come() {
    let peer = Peer::new().await;
    let (sent, mut caller) = tokio::join!(peer.post(Care::Any), async {
        let mut caller = peer.accept().await;
        caller.request().await;
        caller
            .say("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhalf")
            .await;
        caller
    });
    let mut body = sent.unwrap().into_body();
    assert_eq!(body.size_hint().exact(), Some(6));
    body.frame().await.unwrap().unwrap();
    assert_eq!(body.size_hint().exact(), Some(2));
    assert!(!body.is_end_stream());
    caller.say("ok").await;
    body.frame().await.unwrap().unwrap();
    assert_eq!(body.size_hint().exact(), Some(0));
    assert!(body.is_end_stream());
}
