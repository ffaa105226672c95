//! Against peers that are scripted by hand, byte by byte.

mod answers;
mod broken;
mod pieces;
mod requests;
mod reuse;
mod secure;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use onceward::testing::ManualClock;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{Care, Inbound, Outbound, SendError, Settings, Target, Upstream};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// The service behind the gateway, and the way to it.
struct Peer {
    listener: TcpListener,
    clock: Arc<ManualClock>,
    upstream: Upstream,
}

/// One connection, as the service sees it.
struct Caller<S = TcpStream> {
    stream: S,
}

// === impl Peer ===

impl Peer {
    async fn new() -> Self {
        Self::with("http", "", Settings::default()).await
    }

    async fn with(scheme: &str, prefix: &str, settings: Settings) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = Target::parse(&format!("{scheme}://127.0.0.1:{port}{prefix}")).unwrap();
        let clock = Arc::new(ManualClock::new());
        let upstream = Upstream::new(target, settings, clock.clone()).unwrap();
        Self {
            listener,
            clock,
            upstream,
        }
    }

    async fn accept(&self) -> Caller {
        let (stream, _) = self.listener.accept().await.unwrap();
        // What is said is on its way when it is said.
        stream.set_nodelay(true).unwrap();
        Caller { stream }
    }

    /// Sends one request on a new connection and answers it with `OK`.
    async fn warmed_up(&self) -> Caller {
        self.answered_with(OK).await
    }

    /// Sends one request on a new connection, answers it and reads the answer.
    async fn answered_with(&self, answer: &str) -> Caller {
        let (sent, caller) = tokio::join!(self.post(Care::Any), async {
            let mut caller = self.accept().await;
            caller.request().await;
            caller.say(answer).await;
            caller
        });
        text(sent.unwrap()).await.unwrap();
        caller
    }

    async fn post(&self, care: Care) -> Result<Response<Inbound>, SendError> {
        self.send(post("pay"), care).await
    }

    async fn send(
        &self,
        request: Request<Outbound>,
        care: Care,
    ) -> Result<Response<Inbound>, SendError> {
        self.upstream.send(request, care, MINUTE).await
    }

    /// Sends a request and expects it on a new connection.
    async fn expect_new_connection(&self, care: Care) -> Caller {
        let (sent, caller) = tokio::join!(self.post(care), async {
            let mut caller = self.accept().await;
            caller.request().await;
            caller.say(OK).await;
            caller
        });
        assert_eq!(text(sent.unwrap()).await.unwrap(), "ok");
        caller
    }

    /// Sends a request and expects it on the connection of `caller`.
    async fn expect_reuse(&self, caller: &mut Caller, care: Care) {
        let (sent, ()) = tokio::join!(self.post(care), async {
            caller.request().await;
            caller.say(OK).await;
        });
        assert_eq!(text(sent.unwrap()).await.unwrap(), "ok");
    }

    fn at_rest(&self) -> usize {
        self.upstream.shared.pool.len()
    }
}

// === impl Caller ===

impl<S: AsyncRead + AsyncWrite + Unpin> Caller<S> {
    /// Reads one request with the body `pay` that [`post`] gives it.
    async fn request(&mut self) -> String {
        self.read_to("\r\n\r\npay").await
    }

    /// Reads until the bytes end with `end`.
    async fn read_to(&mut self, end: &str) -> String {
        let mut read = Vec::new();
        while !read.ends_with(end.as_bytes()) {
            read.push(self.stream.read_u8().await.unwrap());
        }
        String::from_utf8(read).unwrap()
    }

    /// Reads until the other side closes, one way or another.
    async fn rest(&mut self) -> Vec<u8> {
        let mut read = Vec::new();
        let _ = self.stream.read_to_end(&mut read).await;
        read
    }

    async fn say(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
        self.stream.flush().await.unwrap();
    }
}

impl Caller {
    /// Closes the connection, and returns when the other side could know.
    fn close(self) {
        let address = self.stream.peer_addr().unwrap();
        drop(self);
        until_news_at(address);
    }

    fn reset(self) {
        let linger = Some(Duration::ZERO);
        SockRef::from(&self.stream).set_linger(linger).unwrap();
        self.close();
    }
}

/// Waits until there is something to learn from the socket at `address`: bytes, or an end. Keeps
/// the thread meanwhile, so that the runtime does not learn of it first.
fn until_news_at(address: SocketAddr) {
    const ESTABLISHED: &str = "01";
    let port = format!(":{:04X}", address.port());
    let is_quiet = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state, queues) = (fields[1], fields[3], fields[4]);
        local.ends_with(&port) && state == ESTABLISHED && queues.ends_with(":00000000")
    };
    while std::fs::read_to_string("/proc/net/tcp")
        .is_ok_and(|sockets| sockets.lines().skip(1).any(is_quiet))
    {
        std::thread::yield_now();
    }
}

fn request(method: Method, uri: &str, body: Outbound) -> Request<Outbound> {
    Request::builder()
        .method(method)
        .uri(uri)
        .header("host", "upstream")
        .body(body)
        .unwrap()
}

fn post(body: &'static str) -> Request<Outbound> {
    let body = Outbound::buffered(Bytes::from_static(body.as_bytes()));
    request(Method::POST, "/payments", body)
}

async fn text(answer: Response<Inbound>) -> Result<String, onceward::BoxError> {
    let body = answer.into_body().collect().await?;
    Ok(String::from_utf8(body.to_bytes().to_vec()).unwrap())
}

/// The texts of an error and of all that caused it.
fn chain(error: &SendError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
