//! Layers between a connection and its socket, as TLS is one.

use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::io::{DuplexStream, ReadBuf, duplex};
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use super::super::Settings;
use super::super::caps::{Caps, Permit};
use super::super::stop::Stop;
use super::super::streams::Streams;
use super::super::switch::Switched;
use super::super::wire::{Ahead, Wire};
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

/// A place for a connection.
pub(super) fn permit(settings: &Settings) -> Permit {
    let caps = Caps::new(settings);
    caps.admit(Ipv4Addr::LOCALHOST.into()).unwrap()
}

/// Asserts that a caller may take everything that waits in the layer, a little at a time.
async fn lets_its_caller_be_slow(mut io: impl AsyncWrite + Unpin, mut caller: DuplexStream) {
    const PIECE: usize = 1 << 10;
    // It is closed behind an error, so that nobody waits for more.
    let said = async move {
        io.write_all(&[b'x'; 16 * PIECE]).await?;
        io.flush().await
    };
    let heard = async {
        for _ in 0..16 {
            sleep(Settings::default().idle - Duration::from_secs(1)).await;
            caller.read_exact(&mut [0; PIECE]).await.unwrap();
        }
    };
    let (said, ()) = tokio::join!(said, heard);
    said.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_takes_what_waits_in_a_layer_slowly_is_not_cut_off() {
    let settings = Settings::default();
    let (caller, io) = duplex(1 << 10);
    let switched = Switched::new(
        Layer::over(io),
        Vec::new(),
        settings.idle,
        permit(&settings),
    );
    lets_its_caller_be_slow(switched, caller).await;

    let (caller, io) = duplex(1 << 10);
    let streams = Streams::new(TaskTracker::new(), Stop::default());
    let (ahead, permit) = (Ahead::default(), permit(&settings));
    let wire = Wire::new(Layer::over(io), ahead, &settings, streams, permit);
    lets_its_caller_be_slow(wire, caller).await;
}
