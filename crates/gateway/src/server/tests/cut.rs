//! Answers that are cut: none of them looks like a whole one.

use futures_util::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;

use super::*;

type Streamed = UnsyncBoxBody<Bytes, BoxError>;

/// A server on a free port. `/at-once` fails behind its first bytes and in the same moment,
/// `/later` after a while, `/stuck` says no more, and `/whole` is whole.
struct Broken {
    addr: SocketAddr,
    running: JoinHandle<()>,
}

// === impl Broken ===

impl Broken {
    fn start() -> Self {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let addr = listener.local_addr().unwrap();
        let running = tokio::spawn(async move {
            let settings = Settings {
                idle: brief(),
                ..Settings::default()
            };
            let (shutdown, lanes) = (CancellationToken::new(), Lanes::default());
            serve(
                listener, None, settings, break_off, shutdown, FOREVER, &lanes,
            )
            .await;
        });
        Self { addr, running }
    }

    /// What comes of a request, and how that ends.
    async fn ask(&self, request: &str) -> (String, io::Result<()>) {
        let mut stream = TcpStream::connect(self.addr).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut heard = Vec::new();
        let ended = within(stream.read_to_end(&mut heard)).await;
        (String::from_utf8(heard).unwrap(), ended.map(drop))
    }
}

async fn break_off(request: Request<Received>) -> Response<Streamed> {
    let path = request.uri().path().to_owned();
    let first = stream::once(async { Ok(Frame::data(Bytes::from_static(b"first"))) });
    let second = stream::once(async move {
        match &*path {
            "/whole" => return Ok(Frame::data(Bytes::from_static(b" and last"))),
            "/later" => sleep(brief()).await,
            "/stuck" => std::future::pending().await,
            _ => {}
        }
        Err(BoxError::from("the service broke"))
    });
    let frames = futures_util::StreamExt::chain(first, second);
    Response::new(StreamBody::new(frames).boxed_unsync())
}

#[tokio::test]
async fn an_answer_that_would_end_with_its_connection_is_reset_when_it_breaks() {
    let server = Broken::start();
    for path in ["/at-once", "/later"] {
        let (_, ended) = server.ask(&format!("GET {path} HTTP/1.0\r\n\r\n")).await;
        let kind = ended.map_err(|error| error.kind());
        assert_eq!(kind, Err(io::ErrorKind::ConnectionReset), "{path}");
    }
    let (answer, ended) = server.ask("GET /whole HTTP/1.0\r\n\r\n").await;
    ended.unwrap();
    assert!(answer.ends_with("\r\n\r\nfirst and last"), "{answer}");
}

#[tokio::test]
async fn an_answer_that_would_end_with_its_connection_is_reset_when_the_server_is_dropped() {
    let server = Broken::start();
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let request = b"GET /stuck HTTP/1.0\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"first") {
        heard.push(within(stream.read_u8()).await.unwrap());
    }
    server.running.abort();
    let ended = within(stream.read_u8()).await;
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn what_there_was_of_an_answer_goes_out_before_it_is_cut() {
    let server = Broken::start();
    for path in ["/at-once", "/later"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        let (answer, _) = server.ask(&request).await;
        assert!(
            answer.ends_with("\r\n\r\n5\r\nfirst\r\n"),
            "{path}: {answer}"
        );
    }
}
