//! Requests that are being written.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, Request};
use http_body::Body;
use tokio::io::AsyncWrite;

use super::encode;
use super::error::Cause;
use super::outbound::{Framing, Outbound};
use crate::http1::encode::{announced, last_chunk};
use crate::http1::outgoing::Outgoing;

/// A request, or what the kernel did not take of it yet.
#[derive(Debug)]
pub(super) struct Sending {
    outgoing: Outgoing,
    /// What has to be asked for more, behind what is outgoing; `None` if everything is there.
    body: Option<Outbound>,
    /// With the length that is still owed.
    framing: Framing,
    /// The trailers that the head announced.
    announced: Vec<HeaderName>,
}

// === impl Sending ===

impl Sending {
    /// Writes a request as far as it goes, and returns what is left of it. Takes its body out.
    pub(super) fn begin(
        request: &mut Request<Outbound>,
        framing: Framing,
        io: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Result<Option<Box<Self>>, Cause> {
        let mut sending = Self::new(request, framing);
        match sending.poll(io, cx) {
            Poll::Pending => Ok(Some(Box::new(sending))),
            Poll::Ready(written) => written.map(|()| None),
        }
    }

    fn new(request: &mut Request<Outbound>, framing: Framing) -> Self {
        let mut outgoing = Outgoing::default();
        encode::head(outgoing.room(), request, framing);
        let announced = match framing {
            Framing::Chunked => announced(request.headers()),
            Framing::Bodiless | Framing::Length(_) => Vec::new(),
        };
        let has_body = !matches!(framing, Framing::Bodiless | Framing::Length(0));
        let body = mem::take(request.body_mut());
        Self {
            outgoing,
            body: has_body.then_some(body),
            framing,
            announced,
        }
    }

    /// Writes on. Ready when the kernel has everything.
    pub(super) fn poll(
        &mut self,
        io: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cause>> {
        loop {
            // What the body has at once goes out with the head; if it fails at once, nothing does.
            let waits = self.gather(cx)?;
            let sent = self.outgoing.poll_send(cx, Pin::new(&mut *io));
            ready!(sent.result).map_err(Cause::Io)?;
            if self.body.is_none() {
                return Poll::Ready(Ok(()));
            }
            if waits {
                return Poll::Pending;
            }
        }
    }

    /// Takes what the body has, until it is enough for a write. Returns whether it waits for more.
    fn gather(&mut self, cx: &mut Context<'_>) -> Result<bool, Cause> {
        while self.outgoing.has_room() {
            let Some(body) = &mut self.body else {
                break;
            };
            let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) else {
                return Ok(true);
            };
            let is_last = frame.is_none() || body.is_end_stream();
            match frame.transpose().map_err(Cause::RequestBody)? {
                None => {}
                Some(frame) => match frame.into_data() {
                    Ok(data) => self.put(data),
                    Err(frame) => {
                        if let Ok(trailers) = frame.into_trailers() {
                            self.end(Some(trailers))?;
                        }
                    }
                },
            }
            if is_last && self.body.is_some() {
                self.end(None)?;
            }
        }
        Ok(false)
    }

    /// Puts a piece of the body behind what is to be written.
    fn put(&mut self, mut data: Bytes) {
        if let Framing::Length(owed) = &mut self.framing {
            // More than was said would be another request.
            data.truncate(usize::try_from(*owed).unwrap_or(usize::MAX));
            *owed -= data.len() as u64;
            if *owed == 0 {
                self.body = None;
            }
        }
        match self.framing {
            _ if data.is_empty() => {}
            Framing::Chunked => self.outgoing.put_chunk(data),
            Framing::Length(_) | Framing::Bodiless => self.outgoing.put(data),
        }
    }

    /// Ends the body.
    fn end(&mut self, trailers: Option<HeaderMap>) -> Result<(), Cause> {
        self.body = None;
        match (self.framing, trailers) {
            (Framing::Chunked, Some(trailers)) => {
                last_chunk(self.outgoing.room(), Some(trailers), &self.announced);
            }
            (Framing::Chunked, None) => self.outgoing.put_last_chunk(),
            (Framing::Length(1..), _) => return Err(Cause::ShortBody),
            (Framing::Length(0) | Framing::Bodiless, _) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::{self, IoSlice};
    use std::task::Waker;

    use futures_util::stream;
    use http::{HeaderMap, HeaderValue, Request};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use proptest::prelude::*;

    use super::*;

    /// A connection that takes so many bytes at a time, and now and then none for the moment;
    /// behind the end of its list, everything.
    #[derive(Default)]
    struct Narrow {
        takes: VecDeque<usize>,
        taken: Vec<u8>,
    }

    impl AsyncWrite for Narrow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let most = self.takes.pop_front().unwrap_or(usize::MAX);
            if most == 0 {
                return Poll::Pending;
            }
            let len = most.min(bytes.len());
            self.taken.extend_from_slice(&bytes[..len]);
            Poll::Ready(Ok(len))
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            parts: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let all: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
            self.poll_write(cx, &all)
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// A request in chunks of these lengths, as it comes through a connection.
    fn sent(lens: &[usize], has_trailers: bool, takes: VecDeque<usize>) -> Vec<u8> {
        let data = |(nth, len): (usize, &usize)| {
            Frame::data(Bytes::from(vec![b'a' + (nth % 26) as u8; *len]))
        };
        let mut frames: Vec<_> = lens.iter().enumerate().map(data).collect();
        let mut request = Request::post("/").body(Outbound::Empty).unwrap();
        if has_trailers {
            let sum = HeaderMap::from_iter([("x-sum".parse().unwrap(), HeaderValue::from(7))]);
            frames.push(Frame::trailers(sum));
            let announced = HeaderValue::from_static("x-sum");
            request.headers_mut().insert("trailer", announced);
        }
        let frames = frames.into_iter().map(Ok::<_, io::Error>);
        *request.body_mut() = Outbound::passed(StreamBody::new(stream::iter(frames)));

        let (mut io, cx) = (
            Narrow {
                takes,
                ..Narrow::default()
            },
            &mut Context::from_waker(Waker::noop()),
        );
        let mut left = Sending::begin(&mut request, Framing::Chunked, &mut io, cx).unwrap();
        while let Some(sending) = &mut left {
            if sending.poll(&mut io, cx).map(Result::unwrap).is_ready() {
                left = None;
            }
        }
        io.taken
    }

    /// Lengths on both sides of what is copied.
    fn lens() -> impl Strategy<Value = Vec<usize>> {
        let len = prop_oneof![
            1..4_usize,
            Outgoing::COPIED_MAX - 60..Outgoing::COPIED_MAX + 4,
            Just(20_000)
        ];
        prop::collection::vec(len, 0..6)
    }

    proptest! {
        #[test]
        fn a_request_is_the_same_however_little_is_taken_of_it(
            lens in lens(),
            has_trailers: bool,
            takes in prop::collection::vec(prop_oneof![Just(0), 1..9_usize, Just(20_000)], 0..60),
        ) {
            let narrow = sent(&lens, has_trailers, takes.into());
            prop_assert!(narrow == sent(&lens, has_trailers, VecDeque::new()));
        }
    }

    #[test]
    fn nothing_is_put_behind_a_piece_whose_tail_was_not_taken() {
        let wide = sent(&[20_000, 3], false, VecDeque::new());
        let head = wide
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap()
            + 4;
        // The size of the chunk, and the chunk.
        let first = head + b"4e20\r\n".len() + 20_000;
        for more in 0..=2 {
            let takes = VecDeque::from([first + more, 0, 0]);
            assert!(sent(&[20_000, 3], false, takes) == wide, "{more}");
        }
    }
}
