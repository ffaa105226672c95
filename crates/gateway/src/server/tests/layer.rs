//! Layers between a connection and its socket, as TLS is one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use crate::net::Socket;

/// Takes what is written, and hands it on where there is room.
pub(super) struct Layer {
    below: DuplexStream,
    held: Vec<u8>,
    taken: u64,
}

// === impl Layer ===

impl Layer {
    const HELD_MAX: usize = 64 << 10;

    pub(super) fn over(below: DuplexStream) -> Self {
        let (held, taken) = (Vec::new(), 0);
        Self { below, held, taken }
    }

    fn poll_hand_on(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            let count = ready!(Pin::new(&mut self.below).poll_write(cx, &self.held))?;
            self.held.drain(..count);
            self.taken += count as u64;
        }
        Poll::Ready(Ok(()))
    }
}

impl Socket for Layer {
    fn close_by_reset(&self, _resets: bool) -> io::Result<()> {
        Ok(())
    }

    fn taken(&self) -> u64 {
        self.taken
    }
}

impl AsyncRead for Layer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.below).poll_read(cx, buf)
    }
}

impl AsyncWrite for Layer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.held.len() == Self::HELD_MAX
            && let Poll::Ready(Err(error)) = self.poll_hand_on(cx)
        {
            return Poll::Ready(Err(error));
        }
        let count = buf.len().min(Self::HELD_MAX - self.held.len());
        if count == 0 {
            return Poll::Pending;
        }
        self.held.extend_from_slice(&buf[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_hand_on(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_hand_on(cx))?;
        Pin::new(&mut self.below).poll_shutdown(cx)
    }
}
