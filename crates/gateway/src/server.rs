//! The server: connections in, requests out.
//!
//! [`serve`] takes HTTP/1 and HTTP/2, in plain text or over TLS, and calls a service with every
//! request. What a caller sends is not trusted before that: every wait for it has a limit, so that
//! a silent caller cannot keep a connection; there are only so many connections; and a
//! request that two readers could read in two ways carries a [`Conflict`], which the service must
//! answer with 400.
//!
//! HTTP/2 is hyper's. HTTP/1 is spoken here, in one task per connection and without channels
//! between its parts: a connection that waits holds no buffer, and one reader decides where a
//! request ends.

mod answer;
mod caps;
mod connection;
mod content;
mod date;
mod deadline;
mod encode;
mod feed;
mod framing;
mod head;
mod http1;
mod http2;
mod input;
mod line;
mod listen;
mod output;
mod received;
#[doc(hidden)]
pub mod rehearsal;
mod stop;
mod streams;
mod switch;
mod tls;
mod wire;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use onceward_http::problem::Naming;
use rustix::io::Errno;
use rustls::ServerConfig;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::caps::Caps;
use self::connection::Common;
pub use self::content::Content;
pub use self::framing::Conflict;
pub use self::listen::{BindError, bind};
pub use self::received::{ReceiveError, Received};
use self::stop::Stop;
use self::streams::Streams;
pub use self::switch::{NotSwitched, Switch, Switched};
pub use self::tls::{TlsError, tls};
use crate::lanes::Lanes;
use crate::net::{self, TcpListener, TcpStream};

/// An error of somebody else's, whatever it is.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a server grants its callers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a new connection may say nothing (5 s).
    pub first_byte: Duration,
    /// How long a request's head may take from its first byte on (10 s).
    pub headers: Duration,
    /// How long a connection may lie idle between requests, and how long a caller may take none
    /// of the bytes that wait for it (60 s). Up to twice that where the one follows the other, and
    /// on HTTP/2.
    pub idle: Duration,
    /// How long the TLS handshake may take (10 s).
    pub handshake: Duration,
    /// How long a body may keep us waiting before its pace counts (10 s).
    pub body_grace: Duration,
    /// The slowest pace of a body, in bytes per second (1,024).
    pub body_rate_min: u64,
    /// The most header lines of a request (100); more is 431.
    pub headers_max: usize,
    /// The longest head of an HTTP/1 request, in bytes (32 KiB); more is 431.
    pub head_bytes_max: usize,
    /// The longest target of a request, in bytes (8 KiB). The service checks it and answers 414.
    pub uri_max: usize,
    /// The most streams at once on an HTTP/2 connection (100).
    pub streams_max: u32,
    /// The longest header list of an HTTP/2 request, in bytes (16 KiB); more is 431.
    pub h2_header_list: u32,
    /// The most connections at once (16,384).
    pub connections_max: usize,
    /// The most connections at once from one address, or from one IPv6 /64 (12,288).
    pub connections_per_peer_max: usize,
    /// How callers are told what is wrong with what is no request.
    pub naming: Naming,
}

/// Who is at the other end of a request's connection, found in the request's extensions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The address the connection comes from.
    pub addr: SocketAddr,
    /// Whether it is encrypted.
    pub tls: bool,
}

/// How long accepting pauses when there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves connections until `shutdown`, and then finishes what is under way.
///
/// The service is called with every request; a [`Peer`] is in the extensions, and a [`Conflict`]
/// where the request must be refused with 400, and a [`Switch`] where an HTTP/1.1 caller offers to go
/// on with another protocol. What is no request at all is answered with a problem, by the server
/// itself. On HTTP/1 a caller that hangs up is noticed when it is written to; then, and on HTTP/2 at
/// once, the service's future is dropped.
///
/// On shutdown no more connections are taken, idle ones are closed, and requests under way have
/// `grace` to be answered; then the rest is dropped. Returns when all connections are gone, except
/// those that were upgraded: they belong to the service.
///
/// Connections are served in `lanes`, or in the current runtime if there are none.
///
/// Dropping this future drops the connections with all that is under way on them.
pub(crate) async fn serve<S, F, B>(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    settings: Settings,
    service: S,
    shutdown: CancellationToken,
    grace: Duration,
    lanes: &Lanes,
) where
    S: Fn(Request<Received>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let cut = Stop::default();
    let _cut_at_the_end = cut.on_drop();
    let closing = Stop::default();
    let server = Server {
        caps: Caps::new(&settings),
        tasks: TaskTracker::new(),
        common: Common {
            service,
            settings: Arc::new(settings),
            tls: tls.map(TlsAcceptor::from),
            closing: closing.clone(),
        },
        cut,
        lanes,
    };
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        never = server.accept(&listener) => match never {},
    }
    closing.give();
    drop(listener);
    server.finish(grace).await;
}

/// What accepts connections.
struct Server<'a, S> {
    caps: Caps,
    tasks: TaskTracker,
    common: Common<S>,
    /// Ends what is still under way at the end of the grace.
    cut: Stop,
    lanes: &'a Lanes,
}

// === impl Server ===

impl<S, F, B> Server<'_, S>
where
    S: Fn(Request<Received>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    /// Takes connections, for as long as it is polled.
    async fn accept(&self, listener: &TcpListener) -> Infallible {
        loop {
            match listener.accept().await {
                Ok((stream, addr)) => self.admit(stream, addr),
                Err(error) => pause_after(&error).await,
            }
        }
    }

    /// Serves a connection in a task of its own, unless there are too many.
    fn admit(&self, stream: TcpStream, addr: SocketAddr) {
        // A listener on [::] shows IPv4 addresses in an IPv6 dress.
        let addr = SocketAddr::new(addr.ip().to_canonical(), addr.port());
        let permit = match self.caps.admit(addr.ip()) {
            Ok(permit) => permit,
            Err(full) => {
                return refused(full.as_str());
            }
        };
        let cut = self.cut.clone();
        let streams = Streams::new(self.tasks.clone(), cut.clone());
        let common = self.common.clone();
        let Some(place) = self.lanes.place() else {
            let connection = common.run(stream, addr, permit, streams);
            self.tasks.spawn(async move { cut.until(connection).await });
            return;
        };
        // The socket leaves this runtime, so that the lane's own waits for it.
        let stream = match net::leave(stream) {
            Ok(stream) => stream,
            Err(error) => return cannot_move(&error),
        };
        let handle = place.handle.clone();
        let connection = async move {
            let _place = place;
            match net::arrive(stream) {
                Ok(stream) => drop(cut.until(common.run(stream, addr, permit, streams)).await),
                Err(error) => cannot_move(&error),
            }
        };
        self.tasks.spawn_on(connection, &handle);
    }

    /// Waits for what is under way, `grace` at the most.
    async fn finish(&self, grace: Duration) {
        self.tasks.close();
        if timeout(grace, self.tasks.wait()).await.is_err() {
            let left = self.tasks.len();
            tracing::warn!(left, "connections cut at the end of the grace");
            self.cut.give();
            self.tasks.wait().await;
        }
    }
}

/// Counts a connection that is not served.
fn refused(why: &'static str) {
    metrics::counter!("onceward_connections_refused_total", "why" => why).increment(1);
}

fn cannot_move(error: &io::Error) {
    tracing::error!(%error, "a connection cannot be moved to its thread");
    refused("system");
}

/// Waits where accepting again at once would fail again at once.
async fn pause_after(error: &io::Error) {
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
    if exhausted {
        tracing::error!(%error, "cannot accept connections: raise the limit on open files");
        sleep(ACCEPT_PAUSE).await;
    } else {
        tracing::debug!(%error, "connection gone before it was accepted");
    }
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_secs(5),
            headers: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            handshake: Duration::from_secs(10),
            body_grace: Duration::from_secs(10),
            body_rate_min: 1024,
            headers_max: 100,
            head_bytes_max: 32 * 1024,
            uri_max: 8 * 1024,
            streams_max: 100,
            h2_header_list: 16 * 1024,
            connections_max: 16_384,
            connections_per_peer_max: 12_288,
            naming: Naming::default(),
        }
    }
}

#[cfg(test)]
mod tests;
