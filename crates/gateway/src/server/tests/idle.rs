//! Idle connections: closed in time, and never while an answer is on its way.
//!
//! The connections are in memory and the clock stands still while anything moves, so that these
//! tests see the limits to the second and wait for none of them.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};

use futures_util::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{DuplexStream, duplex};

use super::super::wire::Ahead;
use super::layer::{Layer, permit};
use super::*;
use crate::net::Socket;

const IDLE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

/// More than any window.
const LARGE: usize = 1 << 20;

type Streamed = UnsyncBoxBody<Bytes, Infallible>;

/// A connection in memory, and the server's end of it in a task.
///
/// `/hold` is answered when the gate opens; `/quiet` says one word at once and another when the
/// gate opens; `/ticks` says one at once and then whenever it opens; `/flood` never ends, and `/large` is all there; all else is answered with
/// 16 KiB.
struct Line {
    caller: DuplexStream,
    gate: Arc<Semaphore>,
    closing: Stop,
    running: JoinHandle<Result<(), BoxError>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaks {
    Http1,
    Http2,
}

// === impl Line ===

impl Line {
    fn open(speaks: Speaks, buffer: usize) -> Self {
        let (caller, io) = duplex(buffer);
        Self::open_on(speaks, caller, io)
    }

    /// With a layer in between that takes what is written and hands it on later, as TLS does.
    fn open_layered(speaks: Speaks, buffer: usize) -> Self {
        let (caller, io) = duplex(buffer);
        Self::open_on(speaks, caller, Layer::over(io))
    }

    fn open_on<T>(speaks: Speaks, caller: DuplexStream, io: T) -> Self
    where
        T: Socket + Send + 'static,
    {
        let gate = Arc::new(Semaphore::new(0));
        let service = {
            let gate = Arc::clone(&gate);
            move |request: Request<Received>| answer(request, Arc::clone(&gate))
        };
        let (settings, closing) = (Arc::new(Settings::default()), Stop::default());
        let common = Common {
            service,
            settings: Arc::clone(&settings),
            tls: None,
            closing: closing.clone(),
        };
        let peer = Peer {
            addr: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1),
            tls: false,
        };
        let running = tokio::spawn(async move {
            let (ahead, permit) = (Ahead::default(), permit(&settings));
            if speaks == Speaks::Http1 {
                let talked = http1::talk(common, io, ahead, peer, permit).await;
                return talked.map_err(Into::into);
            }
            let streams = Streams::new(TaskTracker::new(), Stop::default());
            let talked = http2::talk(common, io, ahead, peer, permit, streams).await;
            talked.map_err(Into::into)
        });
        Self {
            caller,
            gate,
            closing,
            running,
        }
    }

    async fn get(&mut self, path: &str) {
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        self.caller.write_all(head.as_bytes()).await.unwrap();
    }

    /// Reads until what was heard ends with `end`.
    async fn hear_until(&mut self, end: &str) {
        let mut heard = Vec::new();
        while !heard.ends_with(end.as_bytes()) {
            heard.push(within(self.caller.read_u8()).await.unwrap());
        }
    }

    /// Asserts that the server says nothing and does not close for `span`.
    async fn is_open_for(&mut self, span: Duration) {
        let heard = timeout(span, self.caller.read_u8()).await;
        assert!(heard.is_err(), "{heard:?} within {span:?}");
    }

    /// Asserts that the server closes within `span`, without a word.
    async fn is_closed_within(&mut self, span: Duration) {
        let mut heard = Vec::new();
        let closed = timeout(span, self.caller.read_to_end(&mut heard)).await;
        assert!(closed.is_ok_and(|closed| closed.is_ok()), "within {span:?}");
        assert_eq!(String::from_utf8(heard).unwrap(), "");
        within(&mut self.running).await.unwrap().unwrap();
    }
}

async fn answer(request: Request<Received>, gate: Arc<Semaphore>) -> Response<Streamed> {
    let frame = |text: &'static str| Ok(Frame::data(Bytes::from_static(text.as_bytes())));
    let body = match request.uri().path() {
        "/quiet" => {
            let last = async move {
                gate.acquire().await.unwrap().forget();
                frame("goodbye")
            };
            let frames = stream::once(async move { frame("hello") });
            let frames = futures_util::StreamExt::chain(frames, stream::once(last));
            StreamBody::new(frames).boxed_unsync()
        }
        "/ticks" => {
            let ticks = stream::unfold(1, move |permits| {
                let gate = Arc::clone(&gate);
                async move {
                    gate.add_permits(permits);
                    gate.acquire().await.unwrap().forget();
                    Some((frame("tick"), 0))
                }
            });
            StreamBody::new(ticks).boxed_unsync()
        }
        "/flood" => {
            let frames = stream::repeat_with(|| Ok(Frame::data(Bytes::from(vec![b'x'; 16 << 10]))));
            StreamBody::new(frames).boxed_unsync()
        }
        "/hold" => {
            gate.acquire().await.unwrap().forget();
            Full::new("held".into()).boxed_unsync()
        }
        "/large" => Full::new(vec![b'x'; LARGE].into()).boxed_unsync(),
        _ => Full::new(vec![b'x'; 16 << 10].into()).boxed_unsync(),
    };
    Response::new(body)
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_closed_when_it_asked_nothing_for_the_idle_time() {
    let mut line = Line::open(Speaks::Http1, 64 << 10);
    // The second time of idling is as long as the first, whenever the one before it began.
    for _ in 0..3 {
        line.get("/").await;
        line.hear_until("xxx").await;
        while timeout(SECOND, line.caller.read_u8()).await.is_ok() {}
        line.is_open_for(IDLE - SECOND * 3).await;
    }
    line.is_closed_within(SECOND * 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_under_way_is_not_cut() {
    let mut line = Line::open(Speaks::Http1, 64 << 10);
    line.get("/hold").await;
    line.is_open_for(IDLE * 10).await;
    line.gate.add_permits(1);
    line.hear_until("held").await;
    line.is_open_for(IDLE - SECOND).await;
    line.is_closed_within(SECOND * 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_is_not_cut() {
    let mut line = Line::open(Speaks::Http1, 64 << 10);
    line.get("/quiet").await;
    line.hear_until("hello\r\n").await;
    line.is_open_for(IDLE * 10).await;
    line.gate.add_permits(1);
    line.hear_until("goodbye\r\n0\r\n\r\n").await;
    line.is_open_for(IDLE - SECOND).await;
    line.is_closed_within(SECOND * 2).await;
}

#[tokio::test(start_paused = true)]
async fn who_hung_up_on_a_quiet_stream_does_not_keep_its_place() {
    let mut line = Line::open(Speaks::Http1, 64 << 10);
    line.get("/quiet").await;
    line.hear_until("hello\r\n").await;
    drop(line.caller);
    let ended = timeout(IDLE + SECOND, line.running).await;
    assert!(ended.unwrap().unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn who_says_no_more_is_told_the_rest_of_a_stream_that_goes_on() {
    let mut line = Line::open(Speaks::Http1, 64 << 10);
    line.get("/ticks").await;
    line.caller.shutdown().await.unwrap();
    for _ in 0..5 {
        line.hear_until("tick\r\n").await;
        let silence = timeout(IDLE / 2, line.caller.read_u8()).await;
        assert!(silence.is_err(), "{silence:?}");
        line.gate.add_permits(1);
    }
    line.hear_until("tick\r\n").await;
    let ended = timeout(IDLE + SECOND, line.running).await;
    assert!(ended.unwrap().unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_request_behind_a_quiet_stream_waits_for_its_turn() {
    let mut line = Line::open(Speaks::Http1, 64 << 10);
    line.get("/quiet").await;
    line.hear_until("hello\r\n").await;
    for part in ["GET /hold HTT", "P/1.1\r\nHost: a\r\n\r\n"] {
        line.caller.write_all(part.as_bytes()).await.unwrap();
        line.is_open_for(IDLE * 2).await;
    }
    line.gate.add_permits(2);
    line.hear_until("goodbye\r\n0\r\n\r\n").await;
    line.hear_until("held").await;
}

#[tokio::test(start_paused = true)]
async fn empty_lines_do_not_keep_a_connection() {
    let mut line = Line::open(Speaks::Http1, 64 << 10);
    line.get("/hold").await;
    line.gate.add_permits(1);
    line.hear_until("held").await;
    for _ in 0..3 {
        line.is_open_for(IDLE / 4).await;
        line.caller.write_all(b"\r\n").await.unwrap();
    }
    line.is_closed_within(IDLE / 4 + SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_takes_its_answer_slowly_is_not_idle() {
    for open in [Line::open, Line::open_layered] {
        let mut line = open(Speaks::Http1, 1 << 10);
        line.get("/").await;
        line.hear_until("\r\n\r\n").await;
        let mut piece = [0; 1 << 10];
        for _ in 0..16 {
            sleep(IDLE - SECOND).await;
            within(line.caller.read_exact(&mut piece)).await.unwrap();
        }
        line.is_open_for(IDLE / 2).await;
        line.is_closed_within(IDLE * 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_takes_nothing_is_cut_off() {
    for open in [Line::open, Line::open_layered] {
        let mut line = open(Speaks::Http1, 1 << 10);
        line.get("/flood").await;
        let ended = timeout(IDLE + SECOND, &mut line.running).await;
        assert!(ended.unwrap().unwrap().is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_wakes_a_connection_that_lies_idle() {
    for requests in 0..3 {
        let mut line = Line::open(Speaks::Http1, 64 << 10);
        for _ in 0..requests {
            line.gate.add_permits(1);
            line.get("/hold").await;
            line.hear_until("held").await;
        }
        line.is_open_for(SECOND).await;
        line.closing.give();
        line.is_closed_within(SECOND / 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_lets_a_stream_end() {
    let mut line = Line::open(Speaks::Http1, 64 << 10);
    line.get("/quiet").await;
    line.hear_until("hello\r\n").await;
    line.closing.give();
    line.is_open_for(IDLE * 3).await;
    line.gate.add_permits(1);
    line.hear_until("goodbye\r\n0\r\n\r\n").await;
    line.is_closed_within(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn who_is_told_the_end_behind_an_answer_may_speak_on_for_a_while() {
    for is_shutdown in [false, true] {
        let mut line = Line::open(Speaks::Http1, 64 << 10);
        if is_shutdown {
            line.get("/quiet").await;
            line.hear_until("hello\r\n").await;
            line.closing.give();
        } else {
            let head = b"GET /hold HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            line.caller.write_all(head).await.unwrap();
        }
        line.gate.add_permits(1);
        line.hear_until(if is_shutdown { "0\r\n\r\n" } else { "held" })
            .await;
        let mut rest = Vec::new();
        line.caller.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"");
        line.get("/").await;
        assert!(timeout(SECOND, &mut line.running).await.is_err());
        // Who closes as well ends it at once.
        match is_shutdown {
            true => drop(line.caller),
            false => sleep(SECOND).await,
        }
        let ended = timeout(SECOND / 4, line.running).await;
        ended.unwrap().unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn who_was_silent_at_shutdown_is_not_waited_for_and_who_spoke_is_answered() {
    for speaks in [false, true] {
        let mut line = Line::open(Speaks::Http1, 64 << 10);
        line.gate.add_permits(2);
        line.get("/hold").await;
        line.hear_until("held").await;
        line.is_open_for(SECOND).await;
        line.closing.give();
        if speaks {
            line.get("/hold").await;
            line.hear_until("connection: close\r\n").await;
            line.hear_until("held").await;
        }
        let ended = timeout(SECOND, &mut line.running).await;
        assert_eq!(ended.is_ok(), !speaks);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_came_behind_another_before_shutdown_is_answered() {
    let mut line = Line::open(Speaks::Http1, 64 << 10);
    let both = b"GET /quiet HTTP/1.1\r\nHost: a\r\n\r\nGET /hold HTTP/1.1\r\nHost: a\r\n\r\n";
    line.caller.write_all(both).await.unwrap();
    line.hear_until("hello\r\n").await;
    line.closing.give();
    line.gate.add_permits(2);
    line.hear_until("goodbye\r\n0\r\n\r\n").await;
    line.hear_until("connection: close\r\n").await;
    line.hear_until("held").await;
}

/// A caller who speaks HTTP/2, with windows as small as may be.
struct Http2 {
    sender: SendRequest<Full<Bytes>>,
    driving: JoinHandle<hyper::Result<()>>,
}

impl Http2 {
    const WINDOW: u32 = 65_535;

    async fn greet(caller: DuplexStream) -> Self {
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .initial_stream_window_size(Self::WINDOW)
            .initial_connection_window_size(Self::WINDOW);
        let greeting = builder.handshake(TokioIo::new(caller));
        let (sender, connection) = within(greeting).await.unwrap();
        let driving = tokio::spawn(connection);
        Self { sender, driving }
    }

    async fn get(&mut self, path: &str) -> hyper::body::Incoming {
        let request = Request::get(format!("http://a{path}")).body(Full::default());
        let answer = self.sender.send_request(request.unwrap());
        within(answer).await.unwrap().into_body()
    }
}

#[tokio::test(start_paused = true)]
async fn an_http2_caller_that_takes_nothing_is_cut_off() {
    let line = Line::open(Speaks::Http2, 64 << 10);
    let mut caller = Http2::greet(line.caller).await;
    let _untaken = caller.get("/flood").await;
    let ended = timeout(IDLE * 4, line.running).await;
    ended.unwrap().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_http2_caller_that_takes_its_answer_slowly_is_not_cut_off() {
    // One is still being made, the other is whole and waits in the connection.
    for path in ["/flood", "/large"] {
        let mut line = Line::open(Speaks::Http2, 64 << 10);
        let mut caller = Http2::greet(line.caller).await;
        let mut body = caller.get(path).await;
        let mut heard = 0;
        while heard < LARGE {
            // As much as a window, for a caller need not tell of less.
            let next = heard + Http2::WINDOW as usize;
            while heard < next.min(LARGE) {
                let frame = within(body.frame()).await.unwrap().unwrap();
                heard += frame.into_data().unwrap().len();
            }
            let ended = timeout(IDLE / 2, &mut line.running).await;
            assert!(ended.is_err(), "{path} after {heard}: {ended:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_http2_stream_is_not_cut() {
    let mut line = Line::open(Speaks::Http2, 64 << 10);
    let mut caller = Http2::greet(line.caller).await;
    let mut body = caller.get("/quiet").await;
    within(body.frame()).await.unwrap().unwrap();
    assert!(timeout(IDLE * 10, &mut line.running).await.is_err());
    line.gate.add_permits(1);
    let frame = within(body.frame()).await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "goodbye");
    // Behind it there is nothing to wait for; who hangs up first does not matter.
    let _ = timeout(IDLE * 3, line.running).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn shutdown_wakes_an_http2_connection_that_lies_idle() {
    let line = Line::open(Speaks::Http2, 64 << 10);
    line.gate.add_permits(1);
    let mut caller = Http2::greet(line.caller).await;
    within(caller.get("/hold").await.collect()).await.unwrap();
    line.closing.give();
    let ended = timeout(SECOND, async { (line.running.await, caller.driving.await) });
    let _ = ended.await.unwrap();
}
