//! The way to the upstream: a connection, encrypted or not.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

use crate::net::Metered;

/// The way to the upstream, plain or encrypted.
#[derive(Debug)]
pub(super) enum Io {
    Plain(Metered),
    Tls(Box<TlsStream<Metered>>),
}

// === impl Io ===

impl Io {
    /// How many bytes the kernel took so far.
    pub(super) fn written(&self) -> u64 {
        match self {
            Self::Plain(io) => io.written(),
            Self::Tls(io) => io.get_ref().0.written(),
        }
    }

    /// Whether a connection that rested is still open, by the kernel's own word, and silent.
    pub(super) fn is_silent(&mut self) -> bool {
        match self {
            Self::Plain(io) => io.is_silent(),
            // What the kernel gave away already may still be said, or be a close of TLS.
            Self::Tls(io) => io.get_mut().0.is_silent() && is_at_rest(io),
        }
    }

    /// Lets go of the task that read last, and says whether there is nothing more to read, as far
    /// as that shows.
    ///
    /// A plain socket that gave what it had keeps nobody. TLS reads until there is nothing, and so
    /// leaves the task's waker in the socket, and with it the task for as long as this rests.
    pub(super) fn let_go(&mut self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Tls(io) => is_at_rest(io),
        }
    }

    /// Reads into `scratch` and returns what came: nothing at the end of the connection.
    pub(super) fn poll_read_some<'a>(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &'a mut [u8],
    ) -> Poll<io::Result<&'a [u8]>> {
        let mut read = ReadBuf::new(scratch);
        ready!(Pin::new(self).poll_read(cx, &mut read))?;
        let len = read.filled().len();
        Poll::Ready(Ok(&scratch[..len]))
    }
}

/// Whether nothing more was read than what was handed on. The beginning of a record that is not
/// whole waits where nobody above sees it, and would be said behind the next request.
fn is_at_rest(io: &mut TlsStream<Metered>) -> bool {
    is_quiet(io) && io.get_ref().0.is_whole()
}

/// Whether there is nothing to read, not even an end. Nobody is woken when there is.
fn is_quiet(io: &mut (impl AsyncRead + Unpin)) -> bool {
    let mut byte = [0];
    let mut nobody = Context::from_waker(Waker::noop());
    let read = Pin::new(io).poll_read(&mut nobody, &mut ReadBuf::new(&mut byte));
    read.is_pending()
}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_read(cx, buf),
            Self::Tls(io) => Pin::new(io).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_write(cx, buf),
            Self::Tls(io) => Pin::new(io).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_write_vectored(cx, bufs),
            Self::Tls(io) => Pin::new(io).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(io) => io.is_write_vectored(),
            Self::Tls(io) => io.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_flush(cx),
            Self::Tls(io) => Pin::new(io).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_shutdown(cx),
            Self::Tls(io) => Pin::new(io).poll_shutdown(cx),
        }
    }
}
