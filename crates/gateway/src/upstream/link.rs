//! Links: connections to the upstream that nobody drives but their user.

use std::fmt;
use std::mem;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Method, Request};
use http_body::Frame;

use super::answer::{self, Answer, Parsed};
use super::deadline::{Deadline, Spare};
use super::decoder::Decoder;
use super::error::Cause;
use super::inbound::Upgraded;
use super::io::Io;
use super::outbound::{Framing, Outbound};
use super::pool::Origin;
use super::sending::Sending;
use crate::http1::lines::may_end_behind;
use crate::scratch;

/// One HTTP/1.1 connection. Whoever holds it drives it from the task it is in; a link at rest is
/// not driven, and dropping a link closes it with all that was not written yet.
pub(super) struct Link {
    io: Io,
    /// What of the request is still to be written.
    sending: Option<Box<Sending>>,
    /// Why it could not be written.
    failure: Option<Cause>,
    /// The beginning of a head.
    partial: Vec<u8>,
    /// What came behind a head and was not taken for a body yet.
    read: Bytes,
    /// How many informational answers were passed over.
    passed_over: u16,
    /// Whether the other side said that no more comes.
    is_over: bool,
    spare: Spare,
    origin: Origin,
}

/// A request on its way, and the time that it has.
pub(super) struct Call<'a> {
    pub(super) request: &'a mut Request<Outbound>,
    pub(super) framing: Framing,
    pub(super) deadline: &'a mut Deadline,
    pub(super) is_begun: bool,
}

/// How an exchange ended, up to the head of its answer.
pub(super) enum Exchange {
    Answered(Answer),
    Failed(Cause),
    /// The connection did not even begin with the request, which is as it was.
    NotBegun(Cause),
}

/// The most informational answers to one request. Services give one or two.
const PASSED_OVER_MAX: u16 = 100;

// === impl Link ===

impl Link {
    pub(super) fn new(io: Io, origin: Origin) -> Box<Self> {
        Box::new(Self {
            io,
            sending: None,
            failure: None,
            partial: Vec::new(),
            read: Bytes::new(),
            passed_over: 0,
            is_over: false,
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
        self.io.written()
    }

    /// Closes the connection and returns how many bytes the kernel took, which is final then: all
    /// writing is done by polls of the connection, and no layer of it writes when it is dropped.
    pub(super) fn close(self) -> u64 {
        self.io.written()
    }

    /// Sends the request and drives the connection until the head of the answer is there, or the
    /// deadline is.
    pub(super) fn poll_exchange(
        &mut self,
        cx: &mut Context<'_>,
        call: &mut Call<'_>,
    ) -> Poll<Exchange> {
        let exchanged = if mem::replace(&mut call.is_begun, true) {
            self.write_on(cx);
            let to_head = call.request.method() == Method::HEAD;
            self.poll_head(cx, to_head).map(|head| match head {
                Ok(answer) => Exchange::Answered(answer),
                // What failed first is the reason.
                Err(cause) => Exchange::Failed(self.failure.take().unwrap_or(cause)),
            })
        } else {
            self.poll_begin(cx, call)
        };
        match exchanged {
            Poll::Pending => {
                let over = call.deadline.poll(cx, &mut self.spare);
                over.map(|()| Exchange::Failed(Cause::TimedOut(call.deadline.within())))
            }
            Poll::Ready(_) => exchanged,
        }
    }

    /// Begins with the request. Ready if that fails.
    fn poll_begin(&mut self, cx: &mut Context<'_>, call: &mut Call<'_>) -> Poll<Exchange> {
        // This also makes the task that polls the one to be woken by the answer, so that there is
        // no need to look for it right after writing, when it cannot be there.
        if let Poll::Ready(spoke) = self.poll_read(cx) {
            return Poll::Ready(Exchange::NotBegun(match spoke {
                Ok(()) if self.is_over => Cause::Closed,
                Ok(()) => Cause::Spoke,
                Err(cause) => cause,
            }));
        }
        let before = self.written();
        match Sending::begin(call.request, call.framing, &mut self.io, cx) {
            Ok(left) => {
                self.sending = left;
                Poll::Pending
            }
            // It took some of the request, and may have answered.
            Err(cause) if cause.is_hang_up() && self.written() > before => {
                self.failure = Some(cause);
                Poll::Pending
            }
            Err(cause) => Poll::Ready(Exchange::Failed(cause)),
        }
    }

    /// Keeps the timer of an exchange that is over for the next one.
    pub(super) fn keep(&mut self, deadline: Deadline) {
        deadline.spare(&mut self.spare);
    }

    /// Writes on, if there is anything left. A failure counts only once there is nothing to read:
    /// a service may answer and close without reading a request to its end.
    fn write_on(&mut self, cx: &mut Context<'_>) {
        if let Some(sending) = &mut self.sending
            && let Poll::Ready(written) = sending.poll(&mut self.io, cx)
        {
            self.sending = None;
            self.failure = written.err();
        }
    }

    /// Drives the connection for the head of the answer.
    fn poll_head(&mut self, cx: &mut Context<'_>, to_head: bool) -> Poll<Result<Answer, Cause>> {
        loop {
            let heard = scratch::reading(|scratch| match self.io.poll_read_some(cx, scratch) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Err(error)) => Poll::Ready(Err(Cause::Io(error))),
                Poll::Ready(Ok([])) => Poll::Ready(Err(Cause::Cut)),
                Poll::Ready(Ok(read)) => Poll::Ready(self.hear_head(read, to_head)),
            });
            match heard {
                Poll::Pending => return self.wait(),
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Ok(Some(answer))) => return Poll::Ready(Ok(answer)),
                Poll::Ready(Err(cause)) => return Poll::Ready(Err(cause)),
            }
        }
    }

    /// Hears more of the head. What is behind it is kept.
    fn hear_head(&mut self, read: &[u8], to_head: bool) -> Result<Option<Answer>, Cause> {
        if self.partial.is_empty() {
            let (used, answer) = self.find_head(read, to_head)?;
            match answer {
                Some(_) => self.read = Bytes::copy_from_slice(&read[used..]),
                None => self.partial = read[used..].to_vec(),
            }
            return Ok(answer);
        }
        let mut partial = mem::take(&mut self.partial);
        let known = partial.len();
        partial.extend_from_slice(read);
        if partial.len() < answer::HEAD_MAX && !may_end_behind(&partial, known) {
            self.partial = partial;
            return Ok(None);
        }
        let (used, answer) = self.find_head(&partial, to_head)?;
        partial.drain(..used);
        match answer {
            Some(_) => self.read = partial.into(),
            None => self.partial = partial,
        }
        Ok(answer)
    }

    /// Returns the head of the final answer, and how many bytes are not needed any more.
    fn find_head(&mut self, read: &[u8], to_head: bool) -> Result<(usize, Option<Answer>), Cause> {
        let mut used = 0;
        while used < read.len() {
            match answer::parse(&read[used..], to_head)? {
                Parsed::Partial => break,
                Parsed::Final(answer, len) => {
                    self.passed_over = 0;
                    return Ok((used + len, Some(answer)));
                }
                Parsed::Informational(len) => used += len,
            }
            self.passed_over += 1;
            if self.passed_over > PASSED_OVER_MAX {
                return Err(Cause::Garbled("there are too many in advance of it"));
            }
        }
        Ok((used, None))
    }

    /// Drives the connection for the next frame of an answer's body.
    pub(super) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut Decoder,
    ) -> Poll<Option<Result<Frame<Bytes>, Cause>>> {
        self.write_on(cx);
        loop {
            if !self.read.is_empty()
                && let Some(frame) = body.take(&mut self.read).transpose()
            {
                return Poll::Ready(Some(frame));
            }
            if body.is_done() {
                return Poll::Ready(None);
            }
            match self.poll_read(cx) {
                Poll::Pending => return self.wait().map(Some),
                Poll::Ready(Err(cause)) => return Poll::Ready(Some(Err(cause))),
                Poll::Ready(Ok(())) if self.is_over => {
                    // A reset is told once, and was told when the request was written: to whoever
                    // reads after that it looks like an end, which must not complete an answer.
                    let ended = match self.failure.take() {
                        Some(cause) => Err(cause),
                        None => body.end(),
                    };
                    return Poll::Ready(ended.err().map(Err));
                }
                Poll::Ready(Ok(())) => {}
            }
        }
    }

    /// Reads some bytes, or an end.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        let Self { io, .. } = self;
        let read = scratch::reading(|scratch| {
            let read = ready!(io.poll_read_some(cx, scratch));
            Poll::Ready(read.map(Bytes::copy_from_slice))
        });
        self.read = ready!(read).map_err(Cause::Io)?;
        self.is_over = self.read.is_empty();
        Poll::Ready(Ok(()))
    }

    /// Ready if there is nothing to wait for, because the request could not be written.
    ///
    /// A connection that was hung up can be read from as soon as the runtime knows, and an answer
    /// may stand before its end.
    fn wait<T>(&mut self) -> Poll<Result<T, Cause>> {
        match self.failure.take_if(|cause| !cause.is_hang_up()) {
            Some(cause) => Poll::Ready(Err(cause)),
            None => Poll::Pending,
        }
    }

    /// Returns what is below HTTP, once the upstream's protocol took over; `None` if the request
    /// was not written to its end.
    pub(super) fn upgrade(self: Box<Self>) -> Option<Upgraded> {
        let is_written = self.sending.is_none() && self.failure.is_none();
        is_written.then(|| Upgraded::new(self.io, self.read))
    }

    /// Whether the exchange is over on both sides, as far as is known: the request is completely
    /// written, the answer completely read, and nothing came with it.
    ///
    /// The kernel is not asked. It is before the next request, by [`is_sound`](Self::is_sound).
    fn is_at_rest(&self) -> bool {
        self.sending.is_none() && self.failure.is_none() && self.read.is_empty() && !self.is_over
    }

    /// Lets go of the task that drove the connection. Says whether it may rest now.
    pub(super) fn come_to_rest(&mut self) -> bool {
        self.is_at_rest() && self.io.let_go()
    }

    /// Drives the connection until it is over.
    #[cfg(test)]
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_read(cx).map(drop)
    }

    /// Whether a connection that rested is still open, by the kernel's own word, and silent.
    pub(super) fn is_sound(&mut self) -> bool {
        self.is_at_rest() && self.io.is_silent()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("written", &self.written())
            .field("sending", &self.sending)
            .field("is_over", &self.is_over)
            .finish_non_exhaustive()
    }
}
