//! Outgoing: bytes on their way to a socket.

use std::fmt;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::AsyncWrite;

use super::encode::{self, CHUNK_END, LAST_CHUNK_BEHIND_ANOTHER};
use crate::scratch;

/// What is to be written, in this order: small things put together, one large piece that stays
/// where it is, and what ends that.
///
/// Room for the small things is borrowed from the thread; what is not taken at once is copied out
/// of it, so that nothing is held for a peer that takes everything.
#[derive(Default)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    /// How many of the bytes were taken.
    sent: usize,
    /// Whether the room for the bytes is the thread's.
    is_lent: bool,
    large: Bytes,
    behind: &'static [u8],
    /// Whether some of what was taken may still be on its way, in a layer above the socket.
    is_unflushed: bool,
}

// === impl Outgoing ===

impl Outgoing {
    /// The largest piece of content that is copied behind what stands before it: that costs less
    /// than a slice of its own.
    pub(crate) const COPIED_MAX: usize = 16 * 1024;

    /// How much is put together before it is written.
    const FULL: usize = 64 * 1024;

    /// Whether everything was taken, and nothing waits in a layer above the socket.
    pub(crate) fn is_done(&self) -> bool {
        self.is_empty() && !self.is_unflushed
    }

    /// Whether more may be put behind what is there. Nothing is put behind a large piece before
    /// all of it was taken.
    pub(crate) fn has_room(&self) -> bool {
        self.large.is_empty() && self.behind.is_empty() && self.bytes.len() < Self::FULL
    }

    /// The room behind the bytes. Nobody asks for it while there is a large piece.
    pub(crate) fn room(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.large.is_empty() && self.behind.is_empty());
        if self.bytes.is_empty() && !self.is_lent {
            (self.bytes, self.sent) = (scratch::writing(), 0);
            self.is_lent = true;
        }
        &mut self.bytes
    }

    /// Puts a piece of content there.
    pub(crate) fn put(&mut self, data: Bytes) {
        self.put_before(data, b"");
    }

    /// Puts a piece of content there as a chunk.
    pub(crate) fn put_chunk(&mut self, data: Bytes) {
        encode::chunk_size(self.room(), data.len());
        self.put_before(data, CHUNK_END);
    }

    /// Puts the last chunk there, without trailers.
    pub(crate) fn put_last_chunk(&mut self) {
        match self.large.is_empty() {
            true => encode::last_chunk(self.room(), None, &[]),
            false => self.behind = LAST_CHUNK_BEHIND_ANOTHER,
        }
    }

    /// Writes everything, and says whether anything was taken; pending where no more is taken.
    pub(crate) fn poll_send<T>(&mut self, cx: &mut Context<'_>, io: Pin<&mut T>) -> Sent
    where
        T: AsyncWrite,
    {
        let mut progress = false;
        let result = self.poll_all(cx, io, &mut progress);
        self.return_room();
        Sent { progress, result }
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.large.is_empty() && self.behind.is_empty()
    }

    fn put_before(&mut self, data: Bytes, behind: &'static [u8]) {
        if data.len() > Self::COPIED_MAX {
            (self.large, self.behind) = (data, behind);
            return;
        }
        let room = self.room();
        room.extend_from_slice(&data);
        room.extend_from_slice(behind);
    }

    fn poll_all<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut io: Pin<&mut T>,
        progress: &mut bool,
    ) -> Poll<io::Result<()>>
    where
        T: AsyncWrite,
    {
        while !self.is_empty() {
            let taken = ready!(self.poll_write(cx, io.as_mut()))?;
            if taken == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            (*progress, self.is_unflushed) = (true, true);
            self.advance(taken);
        }
        ready!(io.poll_flush(cx))?;
        self.is_unflushed = false;
        Poll::Ready(Ok(()))
    }

    fn poll_write<T>(&self, cx: &mut Context<'_>, io: Pin<&mut T>) -> Poll<io::Result<usize>>
    where
        T: AsyncWrite,
    {
        let bytes = &self.bytes[self.sent..];
        match (bytes, &*self.large, self.behind) {
            (bytes, [], []) => io.poll_write(cx, bytes),
            ([], [], behind) => io.poll_write(cx, behind),
            // Who can take only one slice takes the first.
            (bytes, large, behind) => {
                io.poll_write_vectored(cx, &[bytes, large, behind].map(IoSlice::new))
            }
        }
    }

    /// Forgets what was taken.
    fn advance(&mut self, taken: usize) {
        let of_bytes = taken.min(self.bytes.len() - self.sent);
        self.sent += of_bytes;
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        }
        let of_large = (taken - of_bytes).min(self.large.len());
        if of_large == self.large.len() {
            // An empty rest would keep the whole alive.
            self.large = Bytes::new();
        } else {
            self.large.advance(of_large);
        }
        self.behind = &self.behind[taken - of_bytes - of_large..];
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
}

impl fmt::Debug for Outgoing {
    /// Shows no bytes: messages may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing")
            .field("bytes", &(self.bytes.len() - self.sent))
            .field("large", &self.large.len())
            .finish_non_exhaustive()
    }
}

/// How sending went on.
pub(crate) struct Sent {
    /// Whether the peer took anything.
    pub(crate) progress: bool,
    pub(crate) result: Poll<io::Result<()>>,
}
