//! Sockets that keep count of what the kernel took.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

use crate::net::{self, Look, TcpStream};

/// A socket that knows how many bytes the kernel took.
///
/// It stands below TLS, because what counts is what left, not what was encrypted.
#[derive(Debug)]
pub(super) struct Metered {
    socket: TcpStream,
    written: u64,
}

/// The way to the upstream, plain or encrypted.
#[derive(Debug)]
pub(super) enum Io {
    Plain(Metered),
    Tls(Box<TlsStream<Metered>>),
}

// === impl Metered ===

impl Metered {
    pub(super) fn new(socket: TcpStream) -> Self {
        Self { socket, written: 0 }
    }

    /// Asks the kernel whether the idle connection is still open; one that speaks is broken.
    ///
    /// A poll would ask the runtime, which learns of an end of file only when it next looks at
    /// its events; that may be after the request is written.
    fn is_silent(&mut self) -> bool {
        matches!(net::look(&mut self.socket), Ok(Look::Silent))
    }

    fn count(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.written += bytes as u64;
        }
        written
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

// === impl Io ===

impl Io {
    /// How many bytes the kernel took so far.
    pub(super) fn written(&self) -> u64 {
        match self {
            Self::Plain(io) => io.written,
            Self::Tls(io) => io.get_ref().0.written,
        }
    }

    /// Whether a connection that rested is still open, by the kernel's own word, and silent.
    pub(super) fn is_silent(&mut self) -> bool {
        match self {
            Self::Plain(io) => io.is_silent(),
            // What the kernel gave away already may still be said, or be a close of TLS.
            Self::Tls(io) => io.get_mut().0.is_silent() && is_quiet(io),
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
            Self::Tls(io) => is_quiet(io),
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
