//! Frayed connections: those of callers that hang up at some byte.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::TcpStream;

/// A connection that breaks after so many bytes, each way.
#[derive(Debug)]
pub(crate) struct Frayed {
    pub(crate) stream: TcpStream,
    pub(crate) fray: Fray,
}

/// How a connection breaks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fray {
    /// After so many bytes were written.
    pub(crate) writes: usize,
    /// After so many bytes were read.
    pub(crate) reads: usize,
    /// Nothing is read: whoever hangs up on what came meanwhile resets the connection.
    pub(crate) deaf: bool,
    /// It is one of HTTP/2, whose callers can take a request back.
    pub(crate) http2: bool,
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the caller hung up")
}

// === impl Fray ===

impl Default for Fray {
    /// Not at all.
    fn default() -> Self {
        Self {
            writes: usize::MAX,
            reads: usize::MAX,
            deaf: false,
            http2: false,
        }
    }
}

impl AsyncRead for Frayed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.fray.deaf {
            // Whoever is deaf has a limit to its patience, and is woken by that.
            return Poll::Pending;
        }
        if self.fray.reads == 0 {
            return Poll::Ready(Err(broken()));
        }
        let mut part = buf.take(self.fray.reads);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut part))?;
        let count = part.filled().len();
        // What was read into the part is at the beginning of what `buf` has not filled.
        let read = part.filled().to_vec();
        buf.put_slice(&read);
        self.fray.reads -= count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Frayed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.fray.writes == 0 {
            return Poll::Ready(Err(broken()));
        }
        let part = &buf[..buf.len().min(self.fray.writes)];
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, part))?;
        self.fray.writes -= written;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
