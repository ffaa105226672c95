//! Answers on HTTP/2: their bodies, watched on the way out.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Either, Full};
use pin_project_lite::pin_project;

use super::BoxError;
use super::streams::Delivery;

pin_project! {
    /// The body of an answer: the service's, or one of the server's own.
    pub(super) struct Answer<B> {
        #[pin]
        body: Either<B, Full<Bytes>>,
        delivery: Delivery,
    }
}

// === impl Answer ===

impl<B> Answer<B> {
    /// Lets `delivery` see the body of `response`.
    pub(super) fn watched(response: Response<B>, delivery: Delivery) -> Response<Self> {
        response.map(|body| Self {
            body: Either::Left(body),
            delivery,
        })
    }

    /// Returns an answer of the server's own.
    pub(super) fn own(response: Response<Bytes>, delivery: Delivery) -> Response<Self> {
        response.map(|body| Self {
            body: Either::Right(Full::new(body)),
            delivery,
        })
    }
}

impl<B> Body for Answer<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.project();
        this.delivery.asked();
        let frame = ready!(this.body.poll_frame(cx));
        if matches!(frame, Some(Ok(_))) {
            this.delivery.gave();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
