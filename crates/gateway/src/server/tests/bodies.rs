//! Bodies on HTTP/1: those that come in their time, and those that go out in parts.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::task::{Context, Poll};

use futures_util::{StreamExt as _, stream};
use http_body::Frame;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use tokio::io::{BufStream, DuplexStream, duplex};

use super::super::wire::Ahead;
use super::*;
use crate::net::Socket;

type Streamed = UnsyncBoxBody<Bytes, Infallible>;

/// A connection in memory whose service is `service`.
fn open<F>(buffer: usize, service: fn(Request<Received>) -> F) -> DuplexStream
where
    F: Future<Output = Response<Streamed>> + Send + 'static,
{
    let (caller, io) = duplex(buffer);
    serve_on(io, service);
    caller
}

fn serve_on<F>(io: impl Socket + Send + 'static, service: fn(Request<Received>) -> F)
where
    F: Future<Output = Response<Streamed>> + Send + 'static,
{
    let settings = Arc::new(Settings::default());
    let peer = Peer {
        addr: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1),
        tls: false,
    };
    let permit = Caps::new(&settings).admit(peer.addr.ip()).unwrap();
    let common = Common {
        service,
        settings,
        tls: None,
        closing: Stop::default(),
    };
    tokio::spawn(http1::talk(common, io, Ahead::default(), peer, permit));
}

/// Sends `text` and its end, and returns all that comes back.
async fn exchange(mut caller: DuplexStream, text: &[u8]) -> String {
    let (mut far, mut near) = tokio::io::split(&mut caller);
    let mut heard = Vec::new();
    let (said, all) = tokio::join!(
        async {
            near.write_all(text).await?;
            near.shutdown().await
        },
        far.read_to_end(&mut heard),
    );
    said.unwrap();
    all.unwrap();
    String::from_utf8(heard).unwrap()
}

/// The content of an answer in chunks, and what stands behind the last one.
fn unchunked(answer: &str) -> (String, String) {
    let (_, mut rest) = answer.split_once("\r\n\r\n").unwrap();
    let mut content = String::new();
    loop {
        let (size, behind) = rest.split_once("\r\n").unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (content, behind.to_owned());
        }
        content.push_str(&behind[..size]);
        rest = behind[size..].strip_prefix("\r\n").unwrap();
    }
}

/// Answers with the request's own body, as it comes.
async fn echo(request: Request<Received>) -> Response<Streamed> {
    let frames = stream::unfold(request.into_body(), |mut body| async move {
        let frame = body.frame().await?.unwrap();
        Some((Ok(frame), body))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let trailer = http::HeaderValue::from_static("x-sum");
    response.headers_mut().insert("trailer", trailer);
    response
}

/// Reads the body in a task of its own.
async fn elsewhere(request: Request<Received>) -> Response<Streamed> {
    let reading = tokio::spawn(request.into_body().collect());
    let body = reading.await.unwrap().unwrap().to_bytes();
    Response::new(Full::new(body).boxed_unsync())
}

/// Answers with pieces of many sizes, some of them larger than any buffer.
async fn pieces(_: Request<Received>) -> Response<Streamed> {
    let frames = stream::iter(SIZES).then(|size| async move {
        tokio::task::yield_now().await;
        Ok(Frame::data(Bytes::from(vec![b'x'; size])))
    });
    Response::new(StreamBody::new(frames).boxed_unsync())
}

const SIZES: [usize; 9] = [1, 0, 16 << 10, (16 << 10) + 1, 7, 300_000, 100, 70_000, 3];

fn chunked(content: &str, size: usize) -> String {
    let mut text = "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\
                    Connection: close\r\n\r\n"
        .to_owned();
    for chunk in content.as_bytes().chunks(size) {
        let chunk = str::from_utf8(chunk).unwrap();
        text.push_str(&format!("{:x}\r\n{chunk}\r\n", chunk.len()));
    }
    text + "0\r\nX-Sum: 42\r\n\r\n"
}

#[tokio::test]
async fn a_body_that_is_larger_than_any_buffer_comes_through() {
    let content = "0123456789".repeat(30_000);
    for (buffer, size) in [(1 << 10, 100_000), (1 << 20, 777), (64 << 10, 64 << 10)] {
        let answer = within(exchange(
            open(buffer, echo),
            chunked(&content, size).as_bytes(),
        ))
        .await;
        let (echoed, trailers) = unchunked(&answer);
        assert!(echoed == content, "{} bytes", echoed.len());
        assert_eq!(trailers, "x-sum: 42\r\n\r\n");
    }
}

#[tokio::test]
async fn a_body_may_be_read_in_another_task() {
    let content = "0123456789".repeat(30_000);
    let text = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{content}",
        content.len()
    );
    let answer = within(exchange(open(1 << 10, elsewhere), text.as_bytes())).await;
    assert!(answer.ends_with(&format!("\r\n\r\n{content}")));
}

#[tokio::test]
async fn an_answer_in_pieces_of_any_size_comes_through() {
    for buffer in [1 << 8, 1 << 14, 1 << 20] {
        let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let answer = within(exchange(open(buffer, pieces), get.as_bytes())).await;
        let (content, behind) = unchunked(&answer);
        assert_eq!(content.len(), SIZES.iter().sum::<usize>());
        assert_eq!(behind, "\r\n");

        let old = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
        let answer = within(exchange(open(buffer, pieces), old.as_bytes())).await;
        let (head, content) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(content.len(), SIZES.iter().sum::<usize>());
        assert!(
            !head.contains("keep-alive") && !head.contains("chunked"),
            "{head}"
        );
    }
}

#[tokio::test]
async fn an_answer_that_is_shorter_than_it_said_ends_the_connection() {
    async fn short(_: Request<Received>) -> Response<Streamed> {
        let frames = stream::iter(["abc", ""]).then(|text| async move {
            tokio::task::yield_now().await;
            Ok(Frame::data(Bytes::from_static(text.as_bytes())))
        });
        let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
        response.headers_mut().insert("content-length", 5.into());
        response
    }
    let text = "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2);
    let answer = within(exchange(open(1 << 10, short), text.as_bytes())).await;
    assert!(answer.ends_with("\r\n\r\nabc"), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
}

#[tokio::test]
async fn an_answer_that_cannot_be_sent_is_none_of_the_service() {
    async fn early(_: Request<Received>) -> Response<Streamed> {
        let mut response = Response::new(Full::default().boxed_unsync());
        *response.status_mut() = http::StatusCode::EARLY_HINTS;
        response
    }
    let text = "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2);
    let answer = within(exchange(open(1 << 10, early), text.as_bytes())).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    assert!(answer.contains(r#""code":"upstream-failed""#), "{answer}");
    let text = text.replace("GET", "HEAD");
    let answer = within(exchange(open(1 << 10, early), text.as_bytes())).await;
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn a_word_is_given_when_the_body_is_asked_for_and_only_then() {
    async fn ask(request: Request<Received>) -> Response<Streamed> {
        let is_wanted = request.uri().path() == "/wanted";
        let mut body = request.into_body();
        let len = match is_wanted {
            true => body
                .frame()
                .await
                .unwrap()
                .unwrap()
                .into_data()
                .unwrap()
                .len(),
            false => 0,
        };
        Response::new(Full::new(len.to_string().into()).boxed_unsync())
    }
    for (path, word) in [("/wanted", true), ("/not", false)] {
        let text = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc"
        );
        let answer = within(exchange(open(1 << 10, ask), text.as_bytes())).await;
        assert_eq!(
            answer.starts_with("HTTP/1.1 100 Continue\r\n\r\n"),
            word,
            "{answer}"
        );
        assert_eq!(answer.contains("connection: close"), !word, "{answer}");
    }
}

/// Takes more than it passes on at once, as TLS does.
impl Socket for BufStream<DuplexStream> {
    fn close_by_reset(&self, _resets: bool) -> io::Result<()> {
        Ok(())
    }

    fn taken(&self) -> u64 {
        0
    }
}

#[tokio::test]
async fn a_word_that_is_stuck_above_the_socket_goes_out_in_the_end() {
    let (mut caller, io) = duplex(10);
    serve_on(BufStream::new(io), elsewhere);
    let head = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    within(caller.write_all(head.as_bytes())).await.unwrap();
    let word = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut heard = vec![0; word.len()];
    within(caller.read_exact(&mut heard)).await.unwrap();
    assert_eq!(heard, word);
    let answer = within(exchange(caller, b"abc")).await;
    assert!(answer.ends_with("\r\n\r\nabc"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_sends_everything_before_it_reads_gets_an_early_answer() {
    const LEN: usize = 1 << 20;
    async fn early(_: Request<Received>) -> Response<Streamed> {
        Response::new(Full::new(vec![b'x'; LEN].into()).boxed_unsync())
    }
    let mut caller = open(1 << 10, early);
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {LEN}\r\n\r\n");
    caller.write_all(head.as_bytes()).await.unwrap();
    within(caller.write_all(&vec![b'y'; LEN])).await.unwrap();
    let answer = within(exchange(caller, b"")).await;
    assert!(answer.contains("connection: close"));
    let (_, content) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(content.len(), LEN);
}

#[tokio::test(start_paused = true)]
async fn there_is_an_end_to_what_is_taken_in_for_nobody() {
    async fn early(_: Request<Received>) -> Response<Streamed> {
        Response::new(Full::new(vec![b'x'; 1 << 20].into()).boxed_unsync())
    }
    let mut caller = open(1 << 10, early);
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    caller.write_all(head.as_bytes()).await.unwrap();
    let piece = [b"10000\r\n", &[b'y'; 1 << 16][..], b"\r\n"].concat();
    let mut sent = 0;
    while caller.write_all(&piece).await.is_ok() {
        sent += piece.len();
        assert!(sent < 10 << 20, "{sent}");
    }
    assert!(sent > 7 << 20, "{sent}");
}

#[tokio::test]
async fn a_caller_who_wants_no_trailers_gets_none() {
    let text = chunked("abc", 3).replace("TE: trailers\r\n", "");
    let answer = within(exchange(open(1 << 10, echo), text.as_bytes())).await;
    assert_eq!(unchunked(&answer), ("abc".to_owned(), "\r\n".to_owned()));
}

/// A body that is over with its last piece and says so, but not how long it is.
struct Piece(Option<Bytes>);

impl Body for Piece {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }
}

/// Answers with as many bytes as the path says, in one piece.
async fn one_piece(request: Request<Received>) -> Response<Streamed> {
    let len = request.uri().path()[1..].parse().unwrap();
    let piece = Bytes::from(vec![b'x'; len]);
    Response::new(Piece(Some(piece)).boxed_unsync())
}

#[tokio::test]
async fn a_piece_of_any_size_is_whole_before_the_end_is_said() {
    for len in [1, 16 << 10, (16 << 10) + 1, 64 << 10, 300 << 10] {
        let text = format!("GET /{len} HTTP/1.1\r\nhost: a\r\n\r\n");
        let answer = exchange(open(1 << 16, one_piece), text.as_bytes()).await;
        let (content, behind) = unchunked(&answer);
        assert_eq!((content.len(), &*behind), (len, "\r\n"));

        let text = format!("GET /{len} HTTP/1.0\r\n\r\n");
        let answer = exchange(open(1 << 16, one_piece), text.as_bytes()).await;
        let (_, content) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(content.len(), len);
    }
}
