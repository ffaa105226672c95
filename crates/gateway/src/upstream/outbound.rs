//! Requests on their way out: bodies, and framing that always tells the truth about them.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use onceward::BoxError;

use super::error::Cause;
use super::target::Target;

/// The body of a request to the upstream.
#[derive(Default)]
pub enum Outbound {
    /// No body.
    #[default]
    Empty,

    /// A body that is completely here.
    Buffered {
        /// The bytes.
        data: Bytes,
        /// What follows them, if anything; makes the body chunked.
        trailers: Option<HeaderMap>,
    },

    /// A body that is passed on as it comes.
    Passed(UnsyncBoxBody<Bytes, BoxError>),
}

// === impl Outbound ===

impl Outbound {
    /// Returns a body that is completely here and has no trailers.
    pub fn buffered(data: impl Into<Bytes>) -> Self {
        Self::Buffered {
            data: data.into(),
            trailers: None,
        }
    }

    /// Returns `body` as one that is passed on as it comes.
    pub fn passed<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::Passed(body.map_err(Into::into).boxed_unsync())
    }

    /// The names of the trailers that are known already.
    fn trailer_names(&self) -> Option<HeaderValue> {
        let Self::Buffered {
            trailers: Some(trailers),
            ..
        } = self
        else {
            return None;
        };
        let names: Vec<&str> = trailers.keys().map(HeaderName::as_str).collect();
        Some(HeaderValue::from_str(&names.join(", ")).expect("names of fields are ASCII"))
    }
}

impl Body for Outbound {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Buffered { data, .. } if !data.is_empty() => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(data)))))
            }
            Self::Buffered { trailers, .. } => Poll::Ready(
                trailers
                    .take()
                    .map(|trailers| Ok(Frame::trailers(trailers))),
            ),
            Self::Passed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Buffered { data, trailers } => data.is_empty() && trailers.is_none(),
            Self::Passed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Buffered {
                data,
                trailers: None,
            } => SizeHint::with_exact(data.len() as u64),
            // An exact length would leave no place for the trailers.
            Self::Buffered { data, .. } => {
                let mut hint = SizeHint::default();
                hint.set_lower(data.len() as u64);
                hint
            }
            Self::Passed(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for Outbound {
    /// Shows no bytes: bodies may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Buffered { data, .. } => write!(f, "Buffered({} bytes)", data.len()),
            Self::Passed(_) => f.write_str("Passed"),
        }
    }
}

/// How a request says where its body ends. It is said in exactly one way, whatever the request
/// said before: a length that does not fit would make two requests of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Framing {
    /// There is none, and nothing is said.
    Bodiless,
    /// So many bytes.
    Length(u64),
    /// In chunks.
    Chunked,
}

/// Makes a request ready for the wire: its target and its trailers, and how its body is framed.
pub(super) fn prepare(request: &mut Request<Outbound>, target: &Target) -> Result<Framing, Cause> {
    if request.method() == Method::CONNECT {
        return Err(Cause::Tunnel);
    }
    let uri = request.uri();
    if uri.authority().is_some() || !target.path_prefix().is_empty() {
        *request.uri_mut() = target.request_target(uri).map_err(Cause::RequestTarget)?;
    }
    if let Outbound::Buffered { trailers, .. } = request.body_mut() {
        trailers.take_if(|trailers| trailers.is_empty());
    }
    if let Some(names) = request.body().trailer_names() {
        request.headers_mut().insert(header::TRAILER, names);
    }
    Ok(framing(request))
}

fn framing(request: &Request<Outbound>) -> Framing {
    let body = request.body();
    let expects_body = matches!(
        *request.method(),
        Method::POST | Method::PUT | Method::PATCH
    );
    match body.size_hint().exact() {
        _ if body.is_end_stream() && !expects_body => Framing::Bodiless,
        _ if body.is_end_stream() => Framing::Length(0),
        Some(length) => Framing::Length(length),
        None => Framing::Chunked,
    }
}
