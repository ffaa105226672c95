//! A rehearsal: one HTTP/1 connection without a socket, for tests from outside. The bytes come in
//! the pieces that the test chooses, and everything behind them is the real server.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::caps::Caps;
use super::connection::Common;
use super::stop::Stop;
use super::wire::Ahead;
use super::{Conflict, Peer, Received, Settings, http1};
use crate::net::Socket;

/// A request as the service was handed it.
#[derive(Debug)]
pub struct Heard {
    /// The head.
    pub parts: Parts,
    /// Why it could be read in another way, if it could. Its body is not read then.
    pub conflict: Option<Conflict>,
    /// The body and the trailers; `None` if it was not read, or broke off.
    pub body: Option<(Bytes, Option<HeaderMap>)>,
}

/// The caller's end, which says what it has to say and listens to nothing.
#[derive(Debug)]
struct Script(VecDeque<Bytes>);

/// Serves a connection on which `pieces` come one after the other, and returns the requests that
/// came to the service. Needs a runtime with a clock.
pub async fn rehearse(pieces: impl IntoIterator<Item = Bytes>) -> Vec<Heard> {
    let settings = Arc::new(Settings::default());
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let permit = Caps::new(&settings).admit(addr.ip());
    let permit = permit.expect("the first connection has a place");
    let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
    let notes = Arc::clone(&heard);
    let common = Common {
        service: move |request: Request<Received>| {
            let notes = Arc::clone(&notes);
            async move { answer(request, &notes).await }
        },
        settings,
        tls: None,
        closing: Stop::default(),
    };
    let script = Script(pieces.into_iter().filter(|it| !it.is_empty()).collect());
    let peer = Peer { addr, tls: false };
    // A caller who breaks off, or who speaks no HTTP, is what is rehearsed.
    let _ = http1::talk(common, script, Ahead::default(), peer, permit).await;
    std::mem::take(&mut *heard.lock())
}

async fn answer(request: Request<Received>, heard: &Mutex<Vec<Heard>>) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let conflict = parts.extensions.get::<Conflict>().copied();
    let mut response = Response::new(Full::default());
    let body = match conflict {
        Some(_) => None,
        None => body.collect().await.ok(),
    };
    if body.is_none() {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    let body = body.map(|body| {
        let trailers = body.trailers().cloned();
        (body.to_bytes(), trailers)
    });
    heard.lock().push(Heard {
        parts,
        conflict,
        body,
    });
    response
}

// === impl Script ===

impl Socket for Script {
    fn close_by_reset(&self, _resets: bool) -> io::Result<()> {
        Ok(())
    }

    fn taken(&self) -> u64 {
        0
    }
}

impl AsyncRead for Script {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let pieces = &mut self.get_mut().0;
        if let Some(mut piece) = pieces.pop_front() {
            buf.put_slice(&piece.split_to(piece.len().min(buf.remaining())));
            if !piece.is_empty() {
                pieces.push_front(piece);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Script {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
