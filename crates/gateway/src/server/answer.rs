//! Answers: their bodies, watched on the way out.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::exchange::UnderWay;

/// Whoever wants to know how far an answer's body has come. It is dropped with the body.
pub(super) trait Watch {
    /// The body is asked for its next frame: those before it were taken.
    fn asked(&mut self);

    /// The body gave a frame, which now has to find its way to the caller.
    fn gave(&mut self);
}

pin_project! {
    /// The body of an answer.
    pub(super) struct Answer<B, W> {
        // None where the server answered by itself.
        #[pin]
        body: Option<B>,
        watch: W,
    }
}

// === impl Answer ===

impl<B, W> Answer<B, W> {
    /// Lets `watch` see the body of `response`.
    pub(super) fn watched(response: Response<B>, watch: W) -> Response<Self> {
        response.map(|body| Self {
            body: Some(body),
            watch,
        })
    }

    /// Returns an answer of the server's own, without a body.
    pub(super) fn empty(status: StatusCode, watch: W) -> Response<Self> {
        let mut response = Response::new(Self { body: None, watch });
        *response.status_mut() = status;
        response
    }
}

impl<B, W> Body for Answer<B, W>
where
    B: Body<Data = Bytes>,
    W: Watch,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        this.watch.asked();
        let Some(body) = this.body.as_pin_mut() else {
            return Poll::Ready(None);
        };
        let frame = ready!(body.poll_frame(cx));
        if matches!(frame, Some(Ok(_))) {
            this.watch.gave();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let empty = || SizeHint::with_exact(0);
        self.body.as_ref().map_or_else(empty, Body::size_hint)
    }
}

// === impl UnderWay ===

/// On HTTP/1 it is enough to know when the body is gone: the wire sees what the caller takes.
impl Watch for UnderWay {
    fn asked(&mut self) {}

    fn gave(&mut self) {}
}
