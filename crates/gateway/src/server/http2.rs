//! HTTP/2: many requests at once.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use onceward_http::Profile;
use onceward_http::problem::{Media, Problem};
use tokio::time::sleep;

use super::answer::Answer;
use super::caps::Permit;
use super::connection::Common;
use super::content::Content;
use super::framing;
use super::stop::Stop;
use super::streams::Streams;
use super::wire::{Ahead, Wire};
use super::{BoxError, Peer, Received, Settings};
use crate::net::Socket;

/// Serves a connection until it ends.
pub(super) async fn talk<S, F, B, T>(
    common: Common<S>,
    io: T,
    ahead: Ahead,
    peer: Peer,
    permit: Permit,
    streams: Streams,
) -> hyper::Result<()>
where
    S: Fn(Request<Received>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    T: Socket + Send + 'static,
{
    let (service, settings) = (common.service, common.settings);
    let wire = Wire::new(io, ahead, &settings, streams.clone(), permit);
    let (builder, idle) = (builder(&settings, streams.clone()), settings.idle);
    let deliveries = streams.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (mut parts, body) = request.into_parts();
        let delivery = deliveries.delivery();
        // On HTTP/1 the answer is the same.
        let answer = match parts.headers.len() <= settings.headers_max {
            true => {
                if let Some(conflict) = framing::conflict(&parts) {
                    parts.extensions.insert(conflict);
                }
                parts.extensions.insert(peer);
                let body = Received::new(Content::frames(body), &settings);
                Ok(service(Request::from_parts(parts, body)))
            }
            false => {
                let media = Media::of(&parts.headers);
                Err(Problem::HeadTooLarge.answer(&settings.naming, Profile::Ietf, media))
            }
        };
        async move {
            Ok::<_, Infallible>(match answer {
                Ok(answer) => Answer::watched(answer.await, delivery),
                Err(told) => Answer::own(told, delivery),
            })
        }
    });
    let connection = pin!(builder.serve_connection(TokioIo::new(wire), service));
    let shut = |connection: Pin<&mut _>| http2::Connection::graceful_shutdown(connection);
    run(connection, shut, &common.closing, idle, &streams).await
}

/// Runs the connection, and shuts it down when the server does or when its caller asks nothing.
async fn run<C>(
    mut connection: Pin<&mut C>,
    shut: impl Fn(Pin<&mut C>),
    closing: &Stop,
    idle: Duration,
    streams: &Streams,
) -> hyper::Result<()>
where
    C: Future<Output = hyper::Result<()>>,
{
    let mut closing = pin!(closing.given());
    let (mut is_closing, mut last_look) = (false, streams.look());
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => return ended,
            () = closing.as_mut(), if !is_closing => {
                shut(connection.as_mut());
                is_closing = true;
            }
            // Pings keep the connection of an absent caller from lasting, this that of one who
            // answers them, and asks nothing or takes none of its answers.
            () = sleep(idle) => {
                let is_quiet = streams.is_quiet_since(last_look);
                if is_quiet && is_closing {
                    return Ok(());
                } else if is_quiet {
                    shut(connection.as_mut());
                    is_closing = true;
                }
                last_look = streams.look();
            }
        }
    }
}

fn builder(settings: &Settings, streams: Streams) -> http2::Builder<Streams> {
    let mut builder = http2::Builder::new(streams);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(settings.streams_max)
        .max_header_list_size(settings.h2_header_list)
        // Streams that are opened and reset at once cost us more than the peer.
        .max_pending_accept_reset_streams(16)
        .max_local_error_reset_streams(128)
        .initial_connection_window_size(1024 * 1024)
        .initial_stream_window_size(256 * 1024)
        .keep_alive_interval(settings.idle / 3)
        .keep_alive_timeout(settings.headers);
    builder
}
