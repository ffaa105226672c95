//! Links: connections to the upstream that nobody drives but their user.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;

use super::deadline::{Deadline, Spare};
use super::gauge::{Gate, Gauge};
use super::inbound::Upgraded;
use super::io::Io;
use super::outbound::Outbound;
use super::pool::Origin;

/// One HTTP/1.1 connection. Whoever holds it drives it from the task it is in; a link at rest is
/// not driven, and dropping a link closes it with all that was not written yet.
pub(super) struct Link {
    gate: Gate,
    wire: Wire,
    spare: Spare,
    origin: Origin,
}

/// The halves of a connection that move only when they are polled together.
struct Wire {
    sender: SendRequest<Outbound>,
    connection: Option<Connection<TokioIo<Io>, Outbound>>,
    is_over: bool,
}

/// How an exchange ended, up to the head of its answer.
pub(super) enum Exchange {
    Answered(Response<Incoming>),
    Failed {
        error: hyper::Error,
        /// The request, if the connection did not even begin with it.
        request: Option<Box<Request<Outbound>>>,
    },
    TimedOut,
}

// === impl Link ===

impl Link {
    pub(super) async fn new(io: Io, gauge: Arc<Gauge>, origin: Origin) -> Box<Self> {
        // This handshake exchanges nothing: it only sets the connection up. A small body that is
        // copied behind its head costs less than a vectored write.
        let (sender, connection) = http1::Builder::new()
            .writev(false)
            .handshake(TokioIo::new(io))
            .await
            .expect("setting up HTTP/1.1 does no I/O");
        Box::new(Self {
            gate: Gate::new(gauge),
            wire: Wire {
                sender,
                connection: Some(connection),
                is_over: false,
            },
            spare: Spare::default(),
            origin,
        })
    }

    /// Where it was made.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// How many bytes the kernel took.
    pub(super) fn written(&self) -> u64 {
        self.gate.gauge().written()
    }

    /// Closes the connection and returns how many bytes the kernel took, which is final then.
    pub(super) fn close(self: Box<Self>) -> u64 {
        let gauge = Arc::clone(self.gate.gauge());
        drop(self);
        gauge.written()
    }

    /// Sends the request and drives the connection until the head of the answer is there, or the
    /// deadline is.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Outbound>,
        deadline: &mut Deadline,
    ) -> Exchange {
        let Self {
            gate, wire, spare, ..
        } = self;
        let mut answer = pin!(wire.sender.try_send_request(request));
        poll_fn(|cx| {
            let answered = gate.poll(cx, |cx| {
                let driven = wire.drive(cx);
                match answer.as_mut().poll(cx) {
                    // The connection is over and holds the answer's sender: with it dropped, the
                    // answer is an error, and the request comes back if it was not begun with.
                    Poll::Pending if driven.is_ready() => {
                        wire.connection = None;
                        answer.as_mut().poll(cx)
                    }
                    answered => answered,
                }
            });
            match answered {
                Poll::Ready(Ok(response)) => Poll::Ready(Exchange::Answered(response)),
                Poll::Ready(Err(mut failed)) => Poll::Ready(Exchange::Failed {
                    request: failed.take_message().map(Box::new),
                    error: failed.into_error(),
                }),
                Poll::Pending => deadline.poll(cx, spare).map(|()| Exchange::TimedOut),
            }
        })
        .await
    }

    /// Keeps the timer of an exchange that is over for the next one.
    pub(super) fn keep(&mut self, deadline: Deadline) {
        deadline.spare(&mut self.spare);
    }

    /// Drives the connection for the next frame of an answer's body.
    pub(super) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut Incoming,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { gate, wire, .. } = self;
        gate.poll(cx, |cx| {
            let driven = wire.drive(cx);
            match Pin::new(&mut *body).poll_frame(cx) {
                // Whatever was read is in the body by now; without its sender it can end.
                Poll::Pending if driven.is_ready() => {
                    wire.connection = None;
                    Pin::new(&mut *body).poll_frame(cx)
                }
                frame => frame,
            }
        })
    }

    /// Drives the connection until the upstream's protocol takes over, and returns what is below
    /// HTTP. Returns `None` if the deadline comes first, or the connection breaks.
    pub(super) async fn upgrade(mut self: Box<Self>, mut deadline: Deadline) -> Option<Upgraded> {
        let Self {
            gate, wire, spare, ..
        } = &mut *self;
        poll_fn(|cx| match gate.poll(cx, |cx| wire.drive(cx)) {
            Poll::Ready(driven) => Poll::Ready(driven.ok()),
            Poll::Pending => deadline.poll(cx, spare).map(|()| None),
        })
        .await?;
        let parts = self.wire.connection.take()?.into_parts();
        Some(Upgraded::new(parts.io.into_inner(), parts.read_buf))
    }

    /// Whether the exchange is over on both sides and the connection is open for another: the
    /// request is completely written, the answer completely read, and nothing came after it.
    pub(super) fn is_at_rest(&mut self) -> bool {
        let Self { gate, wire, .. } = self;
        gate.poll_at_rest(|cx| wire.drive(cx)).is_pending()
            && wire.sender.is_ready()
            && gate.gauge().is_flushed()
    }

    /// Drives the connection until it is over.
    #[cfg(test)]
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self { gate, wire, .. } = self;
        gate.poll(cx, |cx| wire.drive(cx)).map(drop)
    }

    /// Whether a connection that rested is still open, by the kernel's own word, and silent.
    pub(super) fn is_sound(&mut self) -> bool {
        self.gate.gauge().look_closely();
        self.is_at_rest() && self.gate.gauge().has_looked()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("written", &self.written())
            .field("is_over", &self.wire.is_over)
            .finish_non_exhaustive()
    }
}

// === impl Wire ===

impl Wire {
    /// Moves the connection as far as it goes. Ready once it is over.
    ///
    /// Never shuts the socket down in an orderly way: that could write what was left unwritten,
    /// and a dropped socket is closed all the same.
    fn drive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ()>> {
        match &mut self.connection {
            Some(connection) if !self.is_over => {
                let driven = connection.poll_without_shutdown(cx);
                self.is_over = driven.is_ready();
                driven.map_err(drop)
            }
            _ => Poll::Ready(Ok(())),
        }
    }
}
