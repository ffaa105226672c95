//! Content: what the body of a request is made of, whichever protocol it came in.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::BoxError;
use super::feed::Fed;
use crate::http1::Limits;
use crate::http1::decode::{Decoder, Length, Piece};

/// The content of a request's body, as it comes from its connection.
#[derive(Debug)]
pub struct Content(Kind);

#[derive(Debug)]
enum Kind {
    AtHand(AtHand),
    Fed(Fed),
    Frames(Incoming),
    /// Nobody may read it, for nobody knows where it ends.
    Unclear,
}

/// A body that came with its head.
#[derive(Default, Debug)]
struct AtHand {
    data: Bytes,
    trailers: Option<HeaderMap>,
    /// Whether its length was known beforehand: whoever passes it on may say so.
    is_chunked: bool,
    is_over: bool,
}

// === impl Content ===

impl Content {
    pub(super) fn empty() -> Self {
        Self(Kind::AtHand(AtHand::default()))
    }

    pub(super) fn unclear() -> Self {
        Self(Kind::Unclear)
    }

    pub(super) fn fed(fed: Fed) -> Self {
        Self(Kind::Fed(fed))
    }

    pub(super) fn frames(body: Incoming) -> Self {
        Self(Kind::Frames(body))
    }

    /// Returns the body that `bytes` begin with, and how long it is there, if it is whole.
    pub(super) fn at_hand(length: Length, bytes: &[u8], limits: Limits) -> Option<(Self, usize)> {
        let body = match length {
            Length::Sized(len) => {
                let len = usize::try_from(len).ok()?;
                let data = Bytes::copy_from_slice(bytes.get(..len)?);
                let body = AtHand {
                    data,
                    ..AtHand::default()
                };
                (body, len)
            }
            Length::Chunked => AtHand::chunked(bytes, limits)?,
        };
        Some((Self(Kind::AtHand(body.0)), body.1))
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.get_mut().0 {
            Kind::AtHand(body) => Poll::Ready(body.next().map(Ok)),
            Kind::Fed(body) => body.poll_frame(cx),
            Kind::Frames(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Kind::Unclear => Poll::Ready(Some(Err("the framing of the request is unclear".into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::AtHand(body) => body.is_over || !body.is_chunked && body.data.is_empty(),
            Kind::Fed(body) => body.is_at_end(),
            Kind::Frames(body) => body.is_end_stream(),
            Kind::Unclear => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::AtHand(body) if body.is_chunked => SizeHint::default(),
            Kind::AtHand(body) => SizeHint::with_exact(body.data.len() as u64),
            Kind::Fed(body) => body
                .left()
                .map_or_else(SizeHint::default, SizeHint::with_exact),
            Kind::Frames(body) => body.size_hint(),
            Kind::Unclear => SizeHint::default(),
        }
    }
}

// === impl AtHand ===

impl AtHand {
    /// Joins chunks, if all of them are there. What is wrong with them is found out again by
    /// whoever reads them one by one.
    fn chunked(bytes: &[u8], limits: Limits) -> Option<(Self, usize)> {
        let mut decoder = Decoder::new(Length::Chunked, limits);
        let mut body = Self {
            is_chunked: true,
            ..Self::default()
        };
        let (mut joined, mut used) = (BytesMut::new(), 0);
        loop {
            let (len, piece) = decoder.decode(&bytes[used..]).ok()?;
            used += len;
            match piece {
                Piece::Nothing => return None,
                Piece::Data(len) => joined.extend_from_slice(&bytes[used - len..used]),
                Piece::Trailers(trailers) => body.trailers = Some(trailers),
                Piece::End => {
                    body.data = joined.freeze();
                    return Some((body, used));
                }
            }
        }
    }

    fn next(&mut self) -> Option<Frame<Bytes>> {
        if !self.data.is_empty() {
            return Some(Frame::data(std::mem::take(&mut self.data)));
        }
        if let Some(trailers) = self.trailers.take() {
            return Some(Frame::trailers(trailers));
        }
        self.is_over = true;
        None
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::server::Settings;

    fn limits() -> Limits {
        Limits::of(&Settings::default())
    }

    #[tokio::test]
    async fn a_body_is_at_hand_only_if_all_of_it_is() {
        let sized = Length::Sized(5);
        assert!(Content::at_hand(sized, b"hell", limits()).is_none());
        let (body, len) = Content::at_hand(sized, b"hello!", limits()).unwrap();
        assert_eq!((body.size_hint().exact(), len), (Some(5), 5));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "hello");

        let text = b"2\r\nhe\r\n3\r\nllo\r\n0\r\nx: y\r\n\r\n";
        let part = &text[..text.len() - 1];
        assert!(Content::at_hand(Length::Chunked, part, limits()).is_none());
        let (body, len) = Content::at_hand(Length::Chunked, text, limits()).unwrap();
        assert_eq!((body.size_hint().exact(), len), (None, text.len()));
        assert!(!body.is_end_stream());
        let body = body.collect().await.unwrap();
        assert_eq!(body.trailers().unwrap()["x"], "y");
        assert_eq!(body.to_bytes(), "hello");
    }

    #[tokio::test]
    async fn an_unclear_body_is_not_read() {
        assert!(Content::empty().is_end_stream());
        assert!(!Content::unclear().is_end_stream());
        assert!(Content::unclear().collect().await.is_err());
    }
}
