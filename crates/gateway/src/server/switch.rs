//! Switches: connections on which another protocol takes over.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use super::caps::Permit;
use super::deadline::Deadline;
use crate::net::Socket;

/// The caller's connection, once it has switched protocols.
///
/// It is in the extensions of an HTTP/1.1 request that offers another protocol. Who takes the
/// offer answers 101, and gets the connection as soon as the answer is sent.
///
/// Clones wait for the same connection: one waiter gets it, and one alone is woken for it. All
/// others are told [`NotSwitched`].
#[derive(Clone, Debug)]
pub struct Switch(Arc<Mutex<Option<oneshot::Receiver<Switched>>>>);

/// The request was answered in another way than by switching, its connection broke, or another
/// clone of the [`Switch`] has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the connection did not switch protocols")]
pub struct NotSwitched;

/// A connection that speaks another protocol.
///
/// A caller that takes none of the bytes that wait for it loses the connection, as in HTTP.
pub struct Switched {
    io: Box<dyn Socket + Send>,
    /// Bytes that were read behind the request.
    ahead: Vec<u8>,
    given: usize,
    writing: Deadline,
    idle: Duration,
    // The connection still takes its place under the caps.
    _permit: Permit,
}

/// The server's end of a switch.
#[derive(Debug)]
pub(super) struct Lever(oneshot::Sender<Switched>);

/// Makes both ends.
pub(super) fn pair() -> (Lever, Switch) {
    let (lever, switch) = oneshot::channel();
    (Lever(lever), Switch(Arc::new(Mutex::new(Some(switch)))))
}

// === impl Lever ===

impl Lever {
    /// Hands the connection over; if nobody wants it, it is closed.
    pub(super) fn pull(self, switched: Switched) {
        drop(self.0.send(switched));
    }
}

// === impl Switch ===

impl Future for Switch {
    type Output = Result<Switched, NotSwitched>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut waiting = self.0.lock();
        let Some(switch) = &mut *waiting else {
            return Poll::Ready(Err(NotSwitched));
        };
        let switched = ready!(Pin::new(switch).poll(cx));
        *waiting = None;
        Poll::Ready(switched.map_err(|_| NotSwitched))
    }
}

// === impl Switched ===

impl Switched {
    pub(super) fn new<T>(io: T, ahead: Vec<u8>, idle: Duration, permit: Permit) -> Self
    where
        T: Socket + Send + 'static,
    {
        Self {
            io: Box::new(io),
            ahead,
            given: 0,
            writing: Deadline::default(),
            idle,
            _permit: permit,
        }
    }

    /// Passes on what came of writing, with a limit where that has to wait and nothing was taken
    /// since there were so many bytes `before`.
    fn wrote<R>(
        &mut self,
        cx: &mut Context<'_>,
        before: u64,
        result: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if self.io.taken() != before {
            self.writing.disarm();
        }
        self.writing.watch(cx, self.idle, result)
    }
}

impl AsyncRead for Switched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.given == this.ahead.len() {
            return Pin::new(&mut this.io).poll_read(cx, buf);
        }
        let rest = &this.ahead[this.given..];
        let count = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..count]);
        this.given += count;
        if this.given == this.ahead.len() {
            (this.ahead, this.given) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Switched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let before = self.io.taken();
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.wrote(cx, before, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let before = self.io.taken();
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.wrote(cx, before, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let before = self.io.taken();
        let shut = Pin::new(&mut self.io).poll_shutdown(cx);
        self.wrote(cx, before, shut)
    }
}

impl fmt::Debug for Switched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switched").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::duplex;

    use super::*;
    use crate::server::Settings;
    use crate::server::caps::Caps;

    #[tokio::test]
    async fn one_waiter_gets_the_connection_and_the_others_are_told() {
        let (lever, switch) = pair();
        let permit = Caps::new(&Settings::default()).admit(Ipv4Addr::LOCALHOST.into());
        let (io, _caller) = duplex(8);
        lever.pull(Switched::new(
            io,
            Vec::new(),
            Duration::ZERO,
            permit.unwrap(),
        ));
        switch.clone().await.unwrap();
        for _ in 0..2 {
            assert_eq!(switch.clone().await.unwrap_err(), NotSwitched);
        }
    }
}
