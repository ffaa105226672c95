//! The wire: a connection's bytes with their deadlines.
//!
//! hyper has one timer for the wait for a request and for the reading of its head, and makes it
//! anew for every request. Here each of the two has a deadline of its own: the second is armed
//! when the first byte of a head is there and the rest is not. So has a writer whose peer stopped
//! reading. A connection keeps its timers, and one that never waits makes none.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{io, mem};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Settings;
use super::caps::Permit;
use super::deadline::Deadline;
use super::exchange::Exchange;
use super::framing::Scanner;
use super::streams::Streams;

/// A connection under watch.
///
/// It holds the connection's place under the caps, for it lives as long as the socket does, also
/// where that is handed on after an upgrade.
#[derive(Debug)]
pub(super) struct Wire<T> {
    io: T,
    /// Bytes that were read to tell the protocol.
    ahead: Ahead,
    reads: Reads,
    /// Whether no byte has come yet.
    is_silent: bool,
    /// The deadline of what is to be read now.
    reading: Deadline,
    /// The deadline of what is to be written now.
    writing: Deadline,
    /// Whether a write had to wait for the peer since the last look at an idle connection.
    was_held_up: bool,
    lingering: Lingering,
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

/// What is read.
#[derive(Debug)]
enum Reads {
    /// HTTP/1, with the scanner that reads along and tells the service.
    Requests {
        scanner: Box<Scanner>,
        exchange: Arc<Exchange>,
    },
    /// HTTP/2, of which only the preface is waited for here: this many bytes are missing.
    Frames { missing: usize, streams: Streams },
}

/// What the wire waits for when there is nothing to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Awaited {
    FirstByte,
    /// The rest of a head.
    Head,
    /// The next request.
    Request,
    /// Something whose limit others keep.
    Other,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    first_byte: Duration,
    headers: Duration,
    /// Between two requests, and how long the peer may take none of the bytes that wait for it.
    idle: Duration,
}

/// How far the end of the connection has come.
#[derive(Debug)]
enum Lingering {
    NotYet,
    Reading,
    Done,
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
    /// How long the rest of an unread request is taken in after the answer.
    const LINGER: Duration = Duration::from_secs(2);

    /// Returns the wire of a connection that speaks HTTP/1.
    pub(super) fn requests(
        io: T,
        ahead: Ahead,
        settings: &Settings,
        exchange: Arc<Exchange>,
        permit: Permit,
    ) -> Self {
        let scanner = Box::new(Scanner::new());
        let reads = Reads::Requests { scanner, exchange };
        Self::new(io, ahead, settings, reads, permit)
    }

    /// Returns the wire of a connection that speaks HTTP/2.
    pub(super) fn frames(
        io: T,
        ahead: Ahead,
        settings: &Settings,
        streams: Streams,
        permit: Permit,
    ) -> Self {
        let missing = Ahead::LEN_MAX;
        let reads = Reads::Frames { missing, streams };
        Self::new(io, ahead, settings, reads, permit)
    }

    fn new(io: T, ahead: Ahead, settings: &Settings, reads: Reads, permit: Permit) -> Self {
        Self {
            io,
            ahead,
            reads,
            is_silent: true,
            reading: Deadline::default(),
            writing: Deadline::default(),
            was_held_up: false,
            lingering: Lingering::NotYet,
            limits: Limits {
                first_byte: settings.first_byte,
                headers: settings.headers,
                idle: settings.idle,
            },
            _permit: permit,
        }
    }

    /// Takes note of `bytes`, which were read.
    fn note(&mut self, bytes: &[u8]) {
        if mem::take(&mut self.is_silent) {
            self.reading.disarm();
        }
        match &mut self.reads {
            Reads::Requests { exchange, .. } if exchange.is_upgraded() => self.reading.disarm(),
            Reads::Requests { scanner, exchange } => {
                let (was_in_head, mut heads) = (scanner.is_in_head(), 0);
                scanner.feed(bytes, |head| {
                    exchange.put(head.facts());
                    heads += 1;
                });
                exchange.set_in_body(scanner.is_in_body());
                // The time of a head runs from its first byte, that of a wait from its beginning;
                // more bytes of the head, or empty lines before it, give no more of it.
                if heads > 0 || was_in_head != scanner.is_in_head() {
                    self.reading.disarm();
                    self.was_held_up = false;
                }
            }
            Reads::Frames { missing, .. } => {
                *missing = missing.saturating_sub(bytes.len());
                if *missing == 0 {
                    self.reading.disarm();
                }
            }
        }
    }

    fn awaited(&self) -> Awaited {
        match &self.reads {
            _ if self.is_silent => Awaited::FirstByte,
            Reads::Requests { exchange, .. } if exchange.is_upgraded() => Awaited::Other,
            Reads::Requests { scanner, .. } if scanner.is_in_head() => Awaited::Head,
            Reads::Requests { scanner, .. } if scanner.is_between() => Awaited::Request,
            Reads::Frames { missing: 1.., .. } => Awaited::Head,
            Reads::Requests { .. } | Reads::Frames { .. } => Awaited::Other,
        }
    }

    /// Waits on for something to read; fails when that takes too long.
    fn poll_limit(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        match self.awaited() {
            Awaited::FirstByte => self.reading.poll(cx, self.limits.first_byte),
            Awaited::Head => self.reading.poll(cx, self.limits.headers),
            Awaited::Request => self.poll_idle(cx),
            Awaited::Other => Poll::Pending,
        }
    }

    /// Waits on for the next request.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            let over = ready!(self.reading.poll(cx, self.limits.idle));
            // hyper may look for the next request while it still has the end of an answer, and it
            // may not look again: so the time runs, and begins anew where it should not have.
            if !mem::take(&mut self.was_held_up) && !self.is_under_way() {
                return Poll::Ready(over);
            }
            self.reading.disarm();
        }
    }

    fn is_under_way(&self) -> bool {
        match &self.reads {
            Reads::Requests { exchange, .. } => exchange.is_under_way(),
            Reads::Frames { .. } => false,
        }
    }

    /// Passes on how many bytes were written, with a limit where that has to wait.
    fn wrote(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let (Reads::Frames { streams, .. }, Poll::Ready(Ok(count))) = (&self.reads, &result) {
            streams.wrote(*count);
        }
        self.pushed(cx, result)
    }

    /// Passes on how it went with the writing, with a limit where it has to wait.
    fn pushed<R>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        self.was_held_up |= result.is_pending();
        self.writing.watch(cx, self.limits.idle, result)
    }

    /// Whether the peer may still be sending a request whose answer it has.
    fn is_unread(&self) -> bool {
        match &self.reads {
            Reads::Requests { scanner, exchange } => {
                !exchange.is_upgraded() && !scanner.is_between()
            }
            Reads::Frames { .. } => false,
        }
    }
}

impl<T: AsyncRead + Unpin> Wire<T> {
    /// Reads and forgets, until the peer closes or the time is over.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut scrap = [0; 4096];
        loop {
            if self.reading.poll(cx, Self::LINGER).is_ready() {
                return Poll::Ready(());
            }
            let mut buf = ReadBuf::new(&mut scrap);
            match ready!(Pin::new(&mut self.io).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => {}
                Ok(()) | Err(_) => return Poll::Ready(()),
            }
        }
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
                this.note(&buf.filled()[before..]);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => this.poll_limit(cx).map(Err),
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write(cx, buf);
        this.wrote(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write_vectored(cx, bufs);
        this.wrote(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.io).poll_flush(cx);
        this.pushed(cx, flushed)
    }

    /// Says that no more comes. Where the peer may still be sending, what it sends is taken in
    /// for a while: a socket closed on unread bytes is reset, and the reset overtakes the answer.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if matches!(this.lingering, Lingering::NotYet) {
            let shut = Pin::new(&mut this.io).poll_shutdown(cx);
            ready!(this.pushed(cx, shut))?;
            this.reading.disarm();
            this.lingering = if this.is_unread() {
                Lingering::Reading
            } else {
                Lingering::Done
            };
        }
        if matches!(this.lingering, Lingering::Reading) {
            ready!(this.poll_linger(cx));
            this.lingering = Lingering::Done;
        }
        Poll::Ready(Ok(()))
    }
}
