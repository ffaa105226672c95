//! The wire: an HTTP/2 connection's bytes with their deadlines.
//!
//! hyper keeps no time until its preface is there, nor while a peer takes nothing of what is
//! written. Here each of the two has a deadline. A connection keeps its timers, and one that never
//! waits makes none.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{io, mem};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Settings;
use super::caps::Permit;
use super::deadline::Deadline;
use super::streams::Streams;
use crate::net::Socket;

/// A connection under watch.
///
/// It holds the connection's place under the caps, for it lives as long as the socket does.
#[derive(Debug)]
pub(super) struct Wire<T> {
    io: T,
    /// Bytes that were read to tell the protocol.
    ahead: Ahead,
    /// How many bytes of the preface are missing.
    missing: usize,
    streams: Streams,
    /// Whether no byte has come yet.
    is_silent: bool,
    /// The deadline of the preface.
    reading: Deadline,
    /// The deadline of what is to be written now.
    writing: Deadline,
    limits: Limits,
    _permit: Permit,
}

/// Bytes that were taken off the socket before the connection began.
#[derive(Default, Debug)]
pub(super) struct Ahead {
    bytes: [u8; Ahead::LEN_MAX],
    len: usize,
    given: usize,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    first_byte: Duration,
    headers: Duration,
    /// How long the peer may take none of the bytes that wait for it.
    idle: Duration,
}

// === impl Ahead ===

impl Ahead {
    /// As long as the preface of HTTP/2.
    pub(super) const LEN_MAX: usize = 24;

    /// The room that is left.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.len..]
    }

    /// Says that `count` bytes were put into the room.
    pub(super) fn add(&mut self, count: usize) {
        self.len += count;
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.given..self.len]
    }

    fn give(&mut self, buf: &mut ReadBuf<'_>) {
        let count = self.as_slice().len().min(buf.remaining());
        buf.put_slice(&self.as_slice()[..count]);
        self.given += count;
    }
}

// === impl Wire ===

impl<T> Wire<T> {
    pub(super) fn new(
        io: T,
        ahead: Ahead,
        settings: &Settings,
        streams: Streams,
        permit: Permit,
    ) -> Self {
        Self {
            io,
            ahead,
            missing: Ahead::LEN_MAX,
            streams,
            is_silent: true,
            reading: Deadline::default(),
            writing: Deadline::default(),
            limits: Limits {
                first_byte: settings.first_byte,
                headers: settings.headers,
                idle: settings.idle,
            },
            _permit: permit,
        }
    }

    /// Takes note of `count` bytes that were read.
    fn note(&mut self, count: usize) {
        let is_first = mem::take(&mut self.is_silent);
        self.missing = self.missing.saturating_sub(count);
        if is_first || self.missing == 0 {
            self.reading.disarm();
        }
    }

    /// Waits on for the preface; fails when that takes too long. Behind it others keep the time.
    fn poll_limit(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        match (self.is_silent, self.missing) {
            (true, _) => self.reading.poll(cx, self.limits.first_byte),
            (false, 1..) => self.reading.poll(cx, self.limits.headers),
            (false, 0) => Poll::Pending,
        }
    }

    /// Passes on how many bytes were written, with a limit where that has to wait.
    fn wrote(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = &result {
            self.streams.wrote(*count);
        }
        self.writing.watch(cx, self.limits.idle, result)
    }
}

impl<T: Socket> Wire<T> {
    /// Lets `act` write, and takes note if anything was taken.
    fn with_io<R>(&mut self, act: impl FnOnce(Pin<&mut T>) -> R) -> R {
        let before = self.io.taken();
        let result = act(Pin::new(&mut self.io));
        if self.io.taken() != before {
            self.writing.disarm();
        }
        result
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Wire<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let read = if this.ahead.as_slice().is_empty() {
            Pin::new(&mut this.io).poll_read(cx, buf)
        } else {
            this.ahead.give(buf);
            Poll::Ready(Ok(()))
        };
        match read {
            Poll::Ready(Ok(())) => {
                this.note(buf.filled().len() - before);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => this.poll_limit(cx).map(Err),
        }
    }
}

impl<T: Socket> AsyncWrite for Wire<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = this.with_io(|io| io.poll_write(cx, buf));
        this.wrote(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = this.with_io(|io| io.poll_write_vectored(cx, bufs));
        this.wrote(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = this.with_io(|io| io.poll_flush(cx));
        this.writing.watch(cx, this.limits.idle, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = this.with_io(|io| io.poll_shutdown(cx));
        this.writing.watch(cx, this.limits.idle, shut)
    }
}
