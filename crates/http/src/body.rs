//! Bodies: what the service gets, and what the caller gets.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use onceward::BoxError;
use pin_project_lite::pin_project;
use tokio::sync::mpsc;

pin_project! {
    /// The body of a request as the service behind gets it: read in full where there is a key,
    /// untouched where there is none.
    #[derive(Debug)]
    pub struct RequestBody<B> {
        #[pin]
        kind: RequestKind<B>,
    }
}

pin_project! {
    #[project = RequestProj]
    #[derive(Debug)]
    enum RequestKind<B> {
        Whole { whole: Whole },
        Passed { #[pin] body: B },
    }
}

pin_project! {
    /// The body of an answer.
    #[derive(Debug)]
    pub struct AnswerBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProj]
    #[derive(Debug)]
    enum Kind<B> {
        Whole { whole: Whole },
        Passed { #[pin] body: B },
        Flowing { flowing: Flowing },
    }
}

/// A body that is all there.
#[derive(Clone, Default, Debug)]
pub struct Whole {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

/// The reading end of an answer that is passed on while it is recorded.
#[derive(Debug)]
pub(crate) struct Flowing {
    pub(crate) frames: mpsc::UnboundedReceiver<Piece>,
    /// How many bytes are still to come, where the head has said so.
    pub(crate) left: Option<u64>,
    pub(crate) ended: bool,
}

/// A piece of a flowing answer, with what it weighs in the queue.
#[derive(Debug)]
pub(crate) enum Piece {
    Frame(Frame<Bytes>, Option<tokio::sync::OwnedSemaphorePermit>),
    /// The record is stored: the message may end.
    End,
}

/// An answer that ends before its end: it is not stored, so nobody may hold all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer was cut, because it could not be recorded in full")]
pub struct Cut;

// === impl Whole ===

impl Whole {
    /// Returns a body of `data`, and what follows it.
    pub fn new(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self {
            data: (!data.is_empty()).then_some(data),
            trailers: trailers.filter(|trailers| !trailers.is_empty()),
        }
    }

    /// Returns the data, and what follows it.
    pub fn into_parts(self) -> (Bytes, Option<HeaderMap>) {
        (self.data.unwrap_or_default(), self.trailers)
    }

    fn next(&mut self) -> Option<Frame<Bytes>> {
        let data = self.data.take().map(Frame::data);
        data.or_else(|| self.trailers.take().map(Frame::trailers))
    }

    fn is_over(&self) -> bool {
        self.data.is_none() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let len = self.data.as_ref().map_or(0, |data| data.len() as u64);
        let mut hint = SizeHint::with_exact(len);
        if self.trailers.is_some() {
            // HTTP/1.1 sends no trailers after a body of known length.
            hint = SizeHint::new();
            hint.set_lower(len);
        }
        hint
    }
}

// === impl RequestBody ===

impl<B> RequestBody<B> {
    pub(crate) fn whole(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        let whole = Whole::new(data, trailers);
        Self {
            kind: RequestKind::Whole { whole },
        }
    }

    pub(crate) fn passed(body: B) -> Self {
        Self {
            kind: RequestKind::Passed { body },
        }
    }

    /// Returns the body that was read in full, or else the one that is passed on as it comes.
    pub fn into_whole(self) -> Result<Whole, B> {
        match self.kind {
            RequestKind::Whole { whole } => Ok(whole),
            RequestKind::Passed { body } => Err(body),
        }
    }
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project().kind.project() {
            RequestProj::Whole { whole } => Poll::Ready(whole.next().map(Ok)),
            RequestProj::Passed { body } => poll_passed(body, cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            RequestKind::Whole { whole } => whole.is_over(),
            RequestKind::Passed { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            RequestKind::Whole { whole } => whole.size_hint(),
            RequestKind::Passed { body } => body.size_hint(),
        }
    }
}

fn poll_passed<B>(
    body: Pin<&mut B>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BoxError>>>
where
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    let frame = ready!(body.poll_frame(cx));
    Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
}

// === impl AnswerBody ===

impl<B> AnswerBody<B> {
    pub(crate) fn whole(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        let whole = Whole::new(data, trailers);
        Self {
            kind: Kind::Whole { whole },
        }
    }

    pub(crate) fn passed(body: B) -> Self {
        Self {
            kind: Kind::Passed { body },
        }
    }

    pub(crate) fn flowing(flowing: Flowing) -> Self {
        Self {
            kind: Kind::Flowing { flowing },
        }
    }
}

impl<B> From<Bytes> for AnswerBody<B> {
    fn from(data: Bytes) -> Self {
        Self::whole(data, None)
    }
}

impl<B> Body for AnswerBody<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project().kind.project() {
            KindProj::Whole { whole } => Poll::Ready(whole.next().map(Ok)),
            KindProj::Passed { body } => poll_passed(body, cx),
            KindProj::Flowing { flowing } => flowing.poll_next(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole { whole } => whole.is_over(),
            Kind::Passed { body } => body.is_end_stream(),
            Kind::Flowing { flowing } => flowing.ended,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole { whole } => whole.size_hint(),
            Kind::Passed { body } => body.size_hint(),
            Kind::Flowing { flowing } => flowing
                .left
                .map_or_else(SizeHint::new, SizeHint::with_exact),
        }
    }
}

// === impl Flowing ===

impl Flowing {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match ready!(self.frames.poll_recv(cx)) {
            Some(Piece::Frame(frame, _room)) => {
                if let (Some(left), Some(data)) = (&mut self.left, frame.data_ref()) {
                    *left = left.saturating_sub(data.len() as u64);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Piece::End) => {
                self.ended = true;
                Poll::Ready(None)
            }
            // Whoever recorded went away without saying that the record is stored.
            None => {
                self.ended = true;
                Poll::Ready(Some(Err(Cut.into())))
            }
        }
    }
}
