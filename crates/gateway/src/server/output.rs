//! Output: an answer on its way to the socket.

use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame};
use tokio::io::AsyncWrite;

use super::BoxError;
use super::encode::{self, Framing, Plan};
use crate::scratch;

/// What is to be written. Room for it is borrowed from the thread; what a caller does not take at
/// once is copied out of it.
#[derive(Default, Debug)]
pub(super) struct Output {
    bytes: Vec<u8>,
    sent: usize,
    /// Whether the room for the bytes is the thread's.
    is_lent: bool,
    /// A large piece of content behind the bytes, which is not copied.
    tail: Bytes,
    /// What stands behind the tail.
    behind: &'static [u8],
    /// Whether the caller takes no more for now.
    is_blocked: bool,
}

// === impl Output ===

impl Output {
    /// The largest piece of content that is copied behind what stands before it: that costs less
    /// than a second write.
    const COPIED_MAX: usize = 16 * 1024;

    /// How much is put together before it is written.
    const FULL: usize = 64 * 1024;

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.tail.is_empty()
    }

    /// The room behind what is to be written already.
    pub(super) fn room(&mut self) -> &mut Vec<u8> {
        if self.bytes.is_empty() && !self.is_lent {
            (self.bytes, self.sent) = (scratch::writing(), 0);
            self.is_lent = true;
        }
        &mut self.bytes
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
        while plan.framing != Framing::Nothing && self.has_room() {
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
    pub(super) fn poll_send<T>(&mut self, cx: &mut Context<'_>, mut io: Pin<&mut T>) -> Sent
    where
        T: AsyncWrite,
    {
        let (mut progress, mut result) = (false, Poll::Ready(Ok(())));
        while !self.is_empty() {
            match self.poll_write(cx, io.as_mut()) {
                Poll::Ready(Ok(0)) => result = Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    progress = true;
                    self.took(count);
                    continue;
                }
                Poll::Ready(Err(error)) => result = Poll::Ready(Err(error)),
                Poll::Pending => result = Poll::Pending,
            }
            break;
        }
        if matches!(result, Poll::Ready(Ok(()))) {
            result = io.poll_flush(cx);
        }
        self.is_blocked = result.is_pending();
        self.return_room();
        Sent { progress, result }
    }

    fn has_room(&self) -> bool {
        !self.is_blocked && self.tail.is_empty() && self.bytes.len() < Self::FULL
    }

    fn poll_write<T>(&self, cx: &mut Context<'_>, io: Pin<&mut T>) -> Poll<io::Result<usize>>
    where
        T: AsyncWrite,
    {
        let bytes = &self.bytes[self.sent..];
        match (bytes, &*self.tail) {
            (bytes, []) => io.poll_write(cx, bytes),
            ([], tail) => io.poll_write(cx, tail),
            (bytes, tail) if io.is_write_vectored() => {
                io.poll_write_vectored(cx, &[IoSlice::new(bytes), IoSlice::new(tail)])
            }
            (bytes, _) => io.poll_write(cx, bytes),
        }
    }

    fn took(&mut self, count: usize) {
        let of_bytes = count.min(self.bytes.len() - self.sent);
        self.sent += of_bytes;
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        }
        if count > of_bytes {
            self.tail.advance(count - of_bytes);
            if self.tail.is_empty() {
                self.tail = Bytes::new();
                self.bytes.extend_from_slice(mem::take(&mut self.behind));
            }
        }
    }

    /// Gives the thread its room back, and keeps what was not sent.
    fn return_room(&mut self) {
        if !mem::take(&mut self.is_lent) {
            if self.bytes.is_empty() {
                self.bytes = Vec::new();
            }
            return;
        }
        let rest = self.bytes[self.sent..].to_vec();
        self.sent = 0;
        scratch::give_back(mem::replace(&mut self.bytes, rest));
    }

    fn put(&mut self, frame: Frame<Bytes>, plan: &mut Plan) -> io::Result<()> {
        let data = match frame.into_data() {
            Ok(data) if data.is_empty() => return Ok(()),
            Ok(data) => data,
            Err(frame) => {
                let trailers = frame.into_trailers().ok();
                if let (Framing::Chunked(announced), Some(trailers)) = (&plan.framing, trailers) {
                    encode::last_chunk(self.room(), Some(&trailers), announced.as_deref());
                    plan.framing = Framing::Nothing;
                    return Ok(());
                }
                return self.put_end(plan);
            }
        };
        match &mut plan.framing {
            Framing::Nothing => {}
            Framing::UntilClose => self.put_data(data, b""),
            Framing::Chunked(_) => {
                encode::chunk_size(self.room(), data.len());
                self.put_data(data, b"\r\n");
            }
            Framing::Sized(left) => {
                // What is more than was said is not the answer's.
                let len = usize::try_from(*left).map_or(data.len(), |left| left.min(data.len()));
                *left -= len as u64;
                if *left == 0 {
                    plan.framing = Framing::Nothing;
                }
                self.put_data(data.slice(..len), b"");
            }
        }
        Ok(())
    }

    fn put_data(&mut self, data: Bytes, behind: &'static [u8]) {
        if data.len() > Self::COPIED_MAX {
            (self.tail, self.behind) = (data, behind);
            return;
        }
        let room = self.room();
        room.extend_from_slice(&data);
        room.extend_from_slice(behind);
    }

    fn put_end(&mut self, plan: &mut Plan) -> io::Result<()> {
        match mem::replace(&mut plan.framing, Framing::Nothing) {
            Framing::Sized(1..) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "an answer is shorter than it said",
            )),
            // Behind a large piece, which goes out after the bytes.
            Framing::Chunked(_) if !self.tail.is_empty() => {
                self.behind = encode::LAST_CHUNK_BEHIND_ANOTHER;
                Ok(())
            }
            Framing::Chunked(_) => {
                encode::last_chunk(self.room(), None, None);
                Ok(())
            }
            Framing::Sized(0) | Framing::Nothing | Framing::UntilClose => Ok(()),
        }
    }
}

/// How sending went on.
pub(super) struct Sent {
    /// Whether the caller took anything.
    pub(super) progress: bool,
    pub(super) result: Poll<io::Result<()>>,
}
