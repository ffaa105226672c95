//! Answers on HTTP/2: their bodies, watched on the way out.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::streams::Delivery;

pin_project! {
    /// The body of an answer.
    pub(super) struct Answer<B> {
        // None where the server answered by itself.
        #[pin]
        body: Option<B>,
        delivery: Delivery,
    }
}

// === impl Answer ===

impl<B> Answer<B> {
    /// Lets `delivery` see the body of `response`.
    pub(super) fn watched(response: Response<B>, delivery: Delivery) -> Response<Self> {
        response.map(|body| Self {
            body: Some(body),
            delivery,
        })
    }

    /// Returns an answer of the server's own, without a body.
    pub(super) fn empty(status: StatusCode, delivery: Delivery) -> Response<Self> {
        let mut response = Response::new(Self {
            body: None,
            delivery,
        });
        *response.status_mut() = status;
        response
    }
}

impl<B> Body for Answer<B>
where
    B: Body<Data = Bytes>,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        this.delivery.asked();
        let Some(body) = this.body.as_pin_mut() else {
            return Poll::Ready(None);
        };
        let frame = ready!(body.poll_frame(cx));
        if matches!(frame, Some(Ok(_))) {
            this.delivery.gave();
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
