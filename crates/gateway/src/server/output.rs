//! Output: an answer on its way to the socket.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::io::AsyncWrite;

use super::BoxError;
use super::encode::{Framing, Plan};
use crate::http1::encode;
use crate::http1::outgoing::{Outgoing, Sent};

/// What is to be written of the answers to a connection's caller.
#[derive(Default, Debug)]
pub(super) struct Output {
    outgoing: Outgoing,
    /// Whether the caller takes no more for now.
    is_blocked: bool,
}

// === impl Output ===

impl Output {
    /// Whether the caller's socket has everything.
    pub(super) fn is_done(&self) -> bool {
        self.outgoing.is_done()
    }

    /// The room behind what is to be written already.
    pub(super) fn room(&mut self) -> &mut Vec<u8> {
        self.outgoing.room()
    }

    /// Takes what there is of an answer's content, as long as there is room for it. Pending where
    /// the content waits for something.
    pub(super) fn poll_fill<B>(
        &mut self,
        cx: &mut Context<'_>,
        mut body: Pin<&mut B>,
        plan: &mut Plan,
    ) -> Poll<io::Result<()>>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>>,
    {
        while plan.framing != Framing::Nothing && !self.is_blocked && self.outgoing.has_room() {
            match ready!(body.as_mut().poll_frame(cx)) {
                Some(Ok(frame)) => {
                    self.put(frame, plan)?;
                    if plan.framing != Framing::Nothing && body.is_end_stream() {
                        self.put_end(plan)?;
                    }
                }
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => self.put_end(plan)?,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Writes everything; pending where the caller takes no more of it.
    pub(super) fn poll_send<T>(&mut self, cx: &mut Context<'_>, io: Pin<&mut T>) -> Sent
    where
        T: AsyncWrite,
    {
        let sent = self.outgoing.poll_send(cx, io);
        self.is_blocked = sent.result.is_pending();
        sent
    }

    fn put(&mut self, frame: Frame<Bytes>, plan: &mut Plan) -> io::Result<()> {
        let data = match frame.into_data() {
            Ok(data) if data.is_empty() => return Ok(()),
            Ok(data) => data,
            Err(frame) => {
                let trailers = frame.into_trailers().ok();
                if let (Framing::Chunked(announced), Some(trailers)) = (&plan.framing, trailers) {
                    encode::last_chunk(self.room(), Some(trailers), announced);
                    plan.framing = Framing::Nothing;
                    return Ok(());
                }
                return self.put_end(plan);
            }
        };
        match &mut plan.framing {
            Framing::Nothing => {}
            Framing::UntilClose => self.outgoing.put(data),
            Framing::Chunked(_) => self.outgoing.put_chunk(data),
            Framing::Sized(left) => {
                // What is more than was said is not the answer's.
                let len = usize::try_from(*left).map_or(data.len(), |left| left.min(data.len()));
                *left -= len as u64;
                if *left == 0 {
                    plan.framing = Framing::Nothing;
                }
                self.outgoing.put(data.slice(..len));
            }
        }
        Ok(())
    }

    fn put_end(&mut self, plan: &mut Plan) -> io::Result<()> {
        match mem::replace(&mut plan.framing, Framing::Nothing) {
            Framing::Sized(1..) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "an answer is shorter than it said",
                ));
            }
            Framing::Chunked(_) => self.outgoing.put_last_chunk(),
            Framing::Sized(0) | Framing::Nothing | Framing::UntilClose => {}
        }
        Ok(())
    }
}
