//! HTTP/1: one request after the other.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::answer::Answer;
use super::caps::Permit;
use super::connection::Common;
use super::exchange::{Exchange, UnderWay};
use super::framing::{self, Conflict};
use super::wire::{Ahead, Wire};
use super::{BoxError, Peer, Received, Settings};

/// The most bytes that hyper keeps of one connection, each way.
const BUFFER: usize = 64 * 1024;

/// Serves a connection until it ends.
pub(super) async fn talk<S, F, B, T>(
    common: Common<S>,
    io: T,
    ahead: Ahead,
    peer: Peer,
    permit: Permit,
) -> hyper::Result<()>
where
    S: Fn(Request<Received>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (service, settings) = (common.service, common.settings);
    let exchange = Arc::<Exchange>::default();
    let wire = Wire::requests(io, ahead, &settings, Arc::clone(&exchange), permit);
    let builder = builder(&settings);
    let service = service_fn(move |request: Request<Incoming>| {
        let (mut parts, body) = request.into_parts();
        let under_way = UnderWay::begin(&exchange);
        let conflict = framing::conflict(&parts, exchange.take());
        parts.extensions.insert(peer);
        if let Some(conflict) = conflict {
            parts.extensions.insert(conflict);
        }
        let answer = service(Request::from_parts(parts, Received::new(body, &settings)));
        async move { Ok::<_, Infallible>(finish(answer.await, conflict, under_way)) }
    });
    let connection = builder.serve_connection(TokioIo::new(wire), service);
    let mut connection = pin!(connection.with_upgrades());
    if let Some(ended) = common.closing.until(connection.as_mut()).await {
        return ended;
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

/// Says in the answer, and to the wire, what becomes of the connection.
fn finish<B>(
    mut answer: Response<B>,
    conflict: Option<Conflict>,
    under_way: UnderWay,
) -> Response<Answer<B, UnderWay>> {
    // Nothing behind a conflict is read. Behind an answer that did not wait for its whole request
    // there is the rest of it, and hyper closes: the caller is told.
    if conflict.is_some() || under_way.exchange().is_in_body() {
        let close = HeaderValue::from_static("close");
        answer.headers_mut().insert(CONNECTION, close);
    }
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        under_way.exchange().set_upgraded();
    }
    Answer::watched(answer, under_way)
}

fn builder(settings: &Settings) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // It would be a new timer for every request; the wire keeps one for all of them.
        .header_read_timeout(None)
        // A caller may say that it sends no more and still wants its answer. One that is gone is
        // noticed when it is written to.
        .half_close(true)
        .pipeline_flush(false)
        // Most answers are small: to copy one behind its head costs less than a vectored write.
        .writev(false)
        .max_header_size(settings.head_bytes_max)
        .max_buf_size(BUFFER.max(settings.head_bytes_max));
    // hyper has room for as many without allocating, but only if it is not told.
    if settings.headers_max != Settings::default().headers_max {
        builder.max_headers(settings.headers_max);
    }
    builder
}
