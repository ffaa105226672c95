//! One connection: which protocol it speaks, and its life to the end.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::caps::Permit;
use super::stop::Stop;
use super::streams::Streams;
use super::wire::Ahead;
use super::{BoxError, Peer, Received, Settings, http1, http2};
use crate::net::{self, Metered, Socket, TcpStream};

/// What every connection of a server has in common.
#[derive(Clone)]
pub(super) struct Common<S> {
    pub(super) service: S,
    pub(super) settings: Arc<Settings>,
    pub(super) tls: Option<TlsAcceptor>,
    /// Says that what is under way is finished, and nothing more is begun.
    pub(super) closing: Stop,
}

/// What a connection speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Protocol {
    Http1,
    Http2,
}

/// The first bytes of HTTP/2.
const PREFACE: &[u8; Ahead::LEN_MAX] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// === impl Common ===

impl<S, F, B> Common<S>
where
    S: Fn(Request<Received>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    /// Serves a connection until it ends.
    pub(super) async fn run(
        self,
        stream: TcpStream,
        addr: SocketAddr,
        permit: Permit,
        streams: Streams,
    ) {
        // Answers are written whole; holding back their last segment helps nobody.
        let _ = stream.set_nodelay(true);
        let _ = net::expect_signs_of_life(&stream);
        // Nothing was asked yet, so there is nothing to finish.
        let opened = self.closing.until(self.open(stream, addr)).await;
        // Boxed, for a connection that says nothing shall not be as large as one that works.
        match opened.flatten() {
            None => {}
            Some(Opened::Plain(stream, ahead, protocol)) => {
                let peer = Peer { addr, tls: false };
                Box::pin(self.talk(stream, ahead, protocol, peer, permit, streams)).await;
            }
            Some(Opened::Tls(stream, protocol)) => {
                let (peer, ahead) = (Peer { addr, tls: true }, Ahead::default());
                Box::pin(self.talk(*stream, ahead, protocol, peer, permit, streams)).await;
            }
        }
    }

    /// Finds out what the connection speaks, or `None` where that takes too long.
    async fn open(&self, stream: TcpStream, addr: SocketAddr) -> Option<Opened> {
        let Some(acceptor) = &self.tls else {
            return sniff(stream, &self.settings).await;
        };
        let handshake = timeout(
            self.settings.handshake,
            acceptor.accept(Metered::new(stream)),
        );
        match Box::pin(handshake).await {
            Ok(Ok(stream)) => {
                let protocol = match stream.get_ref().1.alpn_protocol() {
                    Some(b"h2") => Protocol::Http2,
                    _ => Protocol::Http1,
                };
                Some(Opened::Tls(Box::new(stream), protocol))
            }
            Ok(Err(error)) => {
                tracing::debug!(%addr, %error, "TLS handshake failed");
                None
            }
            Err(_) => {
                tracing::debug!(%addr, "TLS handshake took too long");
                None
            }
        }
    }

    async fn talk<T>(
        self,
        io: T,
        ahead: Ahead,
        protocol: Protocol,
        peer: Peer,
        permit: Permit,
        streams: Streams,
    ) where
        T: Socket + Send + 'static,
    {
        let ended: Result<(), BoxError> = match protocol {
            Protocol::Http1 => {
                let talked = http1::talk(self, io, ahead, peer, permit).await;
                talked.map_err(Into::into)
            }
            Protocol::Http2 => {
                let talked = http2::talk(self, io, ahead, peer, permit, streams).await;
                talked.map_err(Into::into)
            }
        };
        if let Err(error) = ended {
            // The peer's doing, as a rule, and as frequent as it likes.
            tracing::debug!(addr = %peer.addr, error = &*error as &dyn std::error::Error, "connection ended");
        }
    }
}

/// A connection whose protocol is known.
enum Opened {
    Plain(TcpStream, Ahead, Protocol),
    Tls(Box<tokio_rustls::server::TlsStream<Metered>>, Protocol),
}

/// Reads just enough to tell HTTP/2 with prior knowledge from HTTP/1. The preface may come in
/// pieces, and a peek does not wait for more of them, so the bytes are taken off the socket.
async fn sniff(mut stream: TcpStream, settings: &Settings) -> Option<Opened> {
    let mut ahead = Ahead::default();
    let first = timeout(settings.first_byte, stream.read(ahead.room())).await;
    ahead.add(some_bytes(first.ok()?)?);
    let rest = async {
        while ahead.as_slice() != PREFACE && PREFACE.starts_with(ahead.as_slice()) {
            let more = stream.read(ahead.room()).await;
            ahead.add(some_bytes(more)?);
        }
        Some(())
    };
    timeout(settings.headers, rest).await.ok()??;
    let protocol = if ahead.as_slice() == PREFACE {
        Protocol::Http2
    } else {
        Protocol::Http1
    };
    Some(Opened::Plain(stream, ahead, protocol))
}

fn some_bytes(read: std::io::Result<usize>) -> Option<usize> {
    read.ok().filter(|count| *count > 0)
}
