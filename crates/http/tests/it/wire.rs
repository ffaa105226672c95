//! The layer under a real HTTP/1.1 server: what is on the wire, byte by byte.

use std::convert::Infallible;

use futures_util::FutureExt as _;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use onceward::testing::{Call, Fault};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tower::service_fn;

use crate::world::{Sent, Shop, announced, answer, checksum, empty, pay, pipe};

/// A client's end of a connection to `shop`.
struct Line(DuplexStream);

impl Line {
    fn to(shop: &Shop) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let shop = shop.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
            shop.call(request).map(Ok::<_, Infallible>)
        });
        let service = TowerToHyperService::new(service);
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(theirs), service));
        Self(ours)
    }

    /// Sends a payment, with these headers beside the usual ones.
    async fn pay(&mut self, headers: &str) {
        let head = format!(
            "POST /payments HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: k\r\nX-Caller: alice\r\n\
             Content-Length: 3\r\n{headers}\r\n100"
        );
        self.0.write_all(head.as_bytes()).await.unwrap();
    }

    /// Reads until what was read ends in `end`.
    async fn read_until(&mut self, end: &str) -> String {
        let mut read = Vec::new();
        while !read.ends_with(end.as_bytes()) {
            let byte = self.0.read_u8().await;
            let text = || String::from_utf8_lossy(&read).into_owned();
            read.push(byte.unwrap_or_else(|_| panic!("the line ends after {:?}", text())));
        }
        String::from_utf8(read).unwrap()
    }

    /// Reads to the end of the connection.
    async fn read_rest(&mut self) -> String {
        let mut read = String::new();
        self.0.read_to_string(&mut read).await.unwrap();
        read
    }
}

fn has(head: &str, line: &str) -> bool {
    let mut lines = head.lines();
    lines.any(|found| found.eq_ignore_ascii_case(line))
}

#[tokio::test(start_paused = true)]
async fn an_answer_and_its_replay_go_over_one_connection() {
    let shop = Shop::open();
    let mut line = Line::to(&shop);
    for replayed in [false, true] {
        line.pay("").await;
        let head = line.read_until("\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 201 "), "{head}");
        assert!(has(&head, "content-length: 4"), "{head}");
        assert_eq!(has(&head, "idempotent-replayed: true"), replayed);
        assert_eq!(head.to_lowercase().matches("\ndate:").count(), 1);
        line.read_until("paid").await;
    }
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn trailers_are_on_the_wire_both_times() {
    let shop = Shop::new(async |_| {
        let (out, body) = pipe();
        out.data("paid");
        out.trailers(checksum());
        Ok(Response::new(body))
    });
    let mut line = Line::to(&shop);
    for _ in 0..2 {
        line.pay("TE: trailers\r\n").await;
        let head = line.read_until("\r\n\r\n").await;
        assert!(has(&head, "transfer-encoding: chunked"), "{head}");
        line.read_until("x-checksum: 17\r\n\r\n").await;
    }
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn statuses_without_a_body_have_none_on_the_wire() {
    for (status, length) in [(204, false), (304, false), (200, true)] {
        let shop = Shop::answering(move || {
            let answer = Response::builder().status(status);
            answer.body(empty()).unwrap()
        });
        let mut line = Line::to(&shop);
        for _ in 0..2 {
            line.pay("").await;
            let head = line.read_until("\r\n\r\n").await;
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
            assert_eq!(has(&head, "content-length: 0"), length, "{head}");
        }
        assert_eq!(shop.runs(), 1);
    }
}

/// Sees that a large answer lacks its end on the wire until it is stored.
async fn expect_withheld(body: Sent, out: crate::world::Pipe, end: &str) {
    let shop = Shop::once(move || Response::new(body)).keeping(4);
    let mut line = Line::to(&shop);
    line.pay("").await;
    out.data("01234567");
    line.read_until("01234567").await;
    shop.world.store.fail_next_of(Call::Replace, 1, Fault::Held);
    out.data("89");
    drop(out);
    shop.world.store.until_held().await;
    shop.world.settle().await;
    let mut rest = [0; 64];
    let early = futures_util::poll!(Box::pin(line.0.read(&mut rest)));
    let early = match early {
        std::task::Poll::Ready(len) => String::from_utf8_lossy(&rest[..len.unwrap()]).into_owned(),
        std::task::Poll::Pending => String::new(),
    };
    assert!(!early.contains(end), "{early:?}");
    shop.world.store.release();
    line.read_until(end).await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_large_answer_is_on_the_wire_once_it_is_stored() {
    let (out, body) = pipe();
    expect_withheld(body, out, "0\r\n\r\n").await;
    let (out, body) = pipe();
    expect_withheld(announced(10, body), out, "89").await;
}

#[tokio::test(start_paused = true)]
async fn a_cut_stream_closes_the_connection_without_its_end() {
    let (out, body) = pipe();
    let shop = Shop::streaming(body);
    let mut line = Line::to(&shop);
    line.pay("").await;
    out.data("half");
    line.read_until("half\r\n").await;
    out.fail();
    assert_eq!(line.read_rest().await, "");
    shop.world.settle().await;
    shop.expect_unknown("k").await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_without_its_body_read_does_not_leave_it_to_the_next_request() {
    let shop = Shop::open().terms(|terms| terms.request_max(2));
    let mut line = Line::to(&shop);
    line.pay("").await;
    let head = line.read_until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 413 "), "{head}");
    // Whether it closes the connection or goes on, "100" is never taken for a request.
    line.0.shutdown().await.unwrap();
    let rest = line.read_rest().await;
    assert!(!rest.contains("HTTP/1.1 400"), "{rest}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_closes_while_the_work_runs_changes_nothing() {
    let (shop, gate) = Shop::gated();
    let mut line = Line::to(&shop);
    line.pay("").await;
    shop.world.settle().await;
    assert_eq!(shop.runs(), 1);
    drop(line);
    shop.world.settle().await;
    gate.add_permits(1);
    shop.world.settle().await;
    shop.send(pay("k")).await.expect_replay(201, "paid");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_is_cut_executes_nothing() {
    let shop = Shop::answering(|| answer(201, "paid"));
    let mut line = Line::to(&shop);
    let head = "POST /payments HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: k\r\n\
                X-Caller: alice\r\nContent-Length: 30\r\n\r\n100";
    line.0.write_all(head.as_bytes()).await.unwrap();
    shop.world.settle().await;
    drop(line);
    shop.world.settle().await;
    assert_eq!((shop.runs(), shop.world.store.count()), (0, 0));
}
