//! Answers on their way in.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use onceward::BoxError;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Upstream;
use super::decoder::Decoder;
use super::error::Cause;
use super::io::Io;
use super::link::Link;

/// The body of an answer.
///
/// It drives its connection while it is polled. At its end the connection goes back to rest, if
/// it may be used again; an answer dropped before its end closes it.
pub struct Inbound {
    body: Decoder,
    link: Option<Box<Link>>,
    home: Option<Home>,
    upgraded: Option<Box<Upgraded>>,
}

/// Where a connection goes when its answer is read.
pub(super) struct Home {
    pub(super) upstream: Upstream,
    pub(super) good_for: Duration,
}

/// A connection on which another protocol took over.
pub struct Upgraded {
    /// What the upstream said right after its answer.
    read: Bytes,
    io: Io,
}

// === impl Inbound ===

impl Inbound {
    /// Returns the body of an answer that came on `link`, which goes `home` after it.
    pub(super) fn new(body: Decoder, link: Box<Link>, home: Option<Home>) -> Self {
        let mut inbound = Self {
            body,
            link: Some(link),
            home,
            upgraded: None,
        };
        // Nobody needs to poll a body that is empty.
        if inbound.body.is_done() {
            inbound.settle();
        }
        inbound
    }

    /// Returns the body of an answer that switched protocols: it has none.
    pub(super) fn switched(upgraded: Upgraded) -> Self {
        Self {
            body: Decoder::done(),
            link: None,
            home: None,
            upgraded: Some(Box::new(upgraded)),
        }
    }

    /// Returns the connection, if the answer switched protocols (status 101), and leaves the body.
    pub fn take_upgraded(&mut self) -> Option<Upgraded> {
        self.upgraded.take().map(|upgraded| *upgraded)
    }

    /// Lets go of the connection: to rest if it is fit for another request, else closed.
    fn settle(&mut self) {
        if let (Some(mut link), Some(home)) = (self.link.take(), self.home.take())
            && link.come_to_rest()
        {
            home.upstream.rest(link, home.good_for);
        }
    }
}

impl Body for Inbound {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let Some(link) = &mut this.link else {
            // Who asks again after an error must not take the part for the whole.
            let cut = || Err(Cause::Cut.into());
            return Poll::Ready((!this.body.is_done()).then(cut));
        };
        let frame = ready!(link.poll_body(cx, &mut this.body));
        match &frame {
            Some(Err(_)) => this.link = None,
            // Readers stop at the last frame, without asking whether there is another.
            _ if this.body.is_done() => this.settle(),
            _ => {}
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_done()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl fmt::Debug for Inbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbound")
            .field("size", &self.body.size_hint())
            .field("link", &self.link)
            .field("is_upgraded", &self.upgraded.is_some())
            .finish_non_exhaustive()
    }
}

// === impl Upgraded ===

impl Upgraded {
    pub(super) fn new(io: Io, read: Bytes) -> Self {
        Self { read, io }
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let len = self.read.len().min(buf.remaining());
        buf.put_slice(&self.read[..len]);
        self.read.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgraded")
            .field("read", &self.read.len())
            .finish_non_exhaustive()
    }
}
