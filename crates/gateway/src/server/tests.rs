mod bodies;
mod corpus;
mod cut;
mod ending;
mod idle;
mod layer;
mod limits;
mod pieces;
mod protocols;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::*;

/// Nothing here takes this long; a test that waits for it has failed.
const FOREVER: Duration = Duration::from_secs(20);

type Answer = Pin<Box<dyn Future<Output = Response<Full<Bytes>>> + Send>>;

/// What the service was asked.
#[derive(Clone, Debug)]
struct Seen {
    line: String,
    body: Result<Bytes, String>,
    conflict: Option<Conflict>,
    peer: Peer,
}

/// A server on a free port, whose service notes what it was asked.
///
/// `/hold` is answered when the gate opens, `/early` before the body is read, `/large` with more
/// than fits into any buffer, and `/echo` becomes an echo; all else is answered with the length of
/// its body.
struct World {
    addr: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    gate: Arc<Semaphore>,
    /// A permit for every request that has come to the service.
    come: Arc<Semaphore>,
    shutdown: CancellationToken,
    running: JoinHandle<()>,
}

/// A caller with a socket of its own.
struct Caller {
    stream: TcpStream,
}

// === impl World ===

impl World {
    fn start(settings: Settings) -> Self {
        Self::start_with(settings, None, FOREVER)
    }

    fn start_with(settings: Settings, tls: Option<Arc<ServerConfig>>, grace: Duration) -> Self {
        Self::start_in(Lanes::default(), settings, tls, grace)
    }

    fn start_in(
        lanes: Lanes,
        settings: Settings,
        tls: Option<Arc<ServerConfig>>,
        grace: Duration,
    ) -> Self {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let addr = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let gate = Arc::new(Semaphore::new(0));
        let come = Arc::new(Semaphore::new(0));
        let shutdown = CancellationToken::new();
        let service = {
            let (seen, gate, come) = (Arc::clone(&seen), Arc::clone(&gate), Arc::clone(&come));
            move |request: Request<Received>| -> Answer {
                come.add_permits(1);
                let (seen, gate) = (Arc::clone(&seen), Arc::clone(&gate));
                Box::pin(async move { answer(request, &seen, &gate).await })
            }
        };
        let told = shutdown.clone();
        let running = tokio::spawn(async move {
            serve(listener, tls, settings, service, told, grace, &lanes).await;
        });
        Self {
            addr,
            seen,
            gate,
            come,
            shutdown,
            running,
        }
    }

    async fn call(&self) -> Caller {
        let stream = TcpStream::connect(self.addr).await.unwrap();
        Caller { stream }
    }

    /// Waits until one more request has come to the service.
    async fn request(&self) {
        within(self.come.acquire()).await.unwrap().forget();
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    /// Shuts the server down and waits until it has ended.
    async fn end(self) {
        self.shutdown.cancel();
        within(self.running).await.unwrap();
    }
}

async fn answer(
    request: Request<Received>,
    seen: &Mutex<Vec<Seen>>,
    gate: &Semaphore,
) -> Response<Full<Bytes>> {
    let (mut parts, body) = request.into_parts();
    let mut note = Seen {
        line: format!("{} {}", parts.method, parts.uri),
        body: Ok(Bytes::new()),
        conflict: parts.extensions.get().copied(),
        peer: *parts.extensions.get().expect("the server says who calls"),
    };
    if parts.uri.path() == "/echo" {
        let switch = parts.extensions.remove().expect("a switch was asked for");
        tokio::spawn(echo(switch));
        return respond(101, "");
    }
    let path = parts.uri.path();
    if note.conflict.is_some() || path == "/early" {
        let status = if path == "/early" { 413 } else { 400 };
        seen.lock().push(note);
        return respond(status, "refused");
    }
    note.body = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .map_err(|error| format!("{error:?}"));
    let (status, text) = match &note.body {
        Ok(body) => (200, format!("took {}", body.len())),
        Err(error) => (408, error.clone()),
    };
    seen.lock().push(note);
    if path == "/hold" {
        gate.acquire().await.unwrap().forget();
    }
    if path == "/large" {
        return respond(200, "x".repeat(32 << 20));
    }
    respond(status, text)
}

async fn echo(switch: Switch) {
    let (mut near, mut far) = tokio::io::split(switch.await.unwrap());
    tokio::io::copy(&mut near, &mut far).await.unwrap();
}

fn respond(status: u16, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
    response
}

// === impl Caller ===

impl Caller {
    async fn say(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        within(self.stream.write_all(bytes.as_ref())).await.unwrap();
        self
    }

    async fn get(&mut self, path: &str) -> &mut Self {
        self.say(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
            .await
    }

    /// Reads one answer whose length is given, and no byte more: its status and body.
    async fn hear(&mut self) -> (u16, String) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(within(self.stream.read_u8()).await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let status = head[9..12].parse().unwrap();
        let len = head
            .split_once("content-length: ")
            .and_then(|(_, rest)| rest.split_once('\r'))
            .map_or(0, |(len, _)| len.parse().unwrap());
        let mut body = vec![0; len];
        within(self.stream.read_exact(&mut body)).await.unwrap();
        (status, String::from_utf8(body).unwrap())
    }

    /// Reads until the server closes. A reset is an end as well.
    async fn hear_all(&mut self) -> String {
        let mut all = Vec::new();
        let _ = within(self.stream.read_to_end(&mut all)).await;
        String::from_utf8_lossy(&all).into_owned()
    }
}

async fn within<F: Future>(future: F) -> F::Output {
    timeout(FOREVER, future).await.expect("it happens in time")
}

/// Limits short enough to be waited for, and only where one is meant to be reached.
fn brief() -> Duration {
    Duration::from_millis(50)
}
