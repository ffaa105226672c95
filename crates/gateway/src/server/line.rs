//! The line: the bytes of an HTTP/1 connection, with their deadlines.
//!
//! What is read is parsed where the thread keeps room for it, and what is written is put together
//! there as well: a connection holds only what is not whole yet, or not taken. It makes a timer
//! when it has to wait for the first time, and keeps it for the next.

use std::future::{Future as _, poll_fn};
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use tokio::io::ReadBuf;
use tokio::task::yield_now;

use super::caps::Permit;
use super::deadline::Deadline;
use super::encode::Plan;
use super::feed::Feed;
use super::input::{Input, Next};
use super::output::Output;
use super::stop::Given;
use super::switch::Switched;
use super::wire::Ahead;
use super::{BoxError, Settings};
use crate::http1::Limits;
use crate::net::Socket;
use crate::scratch;

/// A connection that speaks HTTP/1.
///
/// It holds the connection's place under the caps, for it lives as long as the socket does.
#[derive(Debug)]
pub(super) struct Line<T> {
    io: T,
    input: Input,
    pub(super) output: Output,
    /// Whether no byte has come yet.
    is_silent: bool,
    /// Whether it is known that no more come.
    is_mute: bool,
    /// The deadline of what is to be read now.
    reading: Deadline,
    /// The deadline of what is to be written now.
    writing: Deadline,
    /// Whether the last answer had to wait for the peer.
    was_held_up: bool,
    /// Whether nobody waited for anything since the last answer.
    is_behind_answer: bool,
    waits: Waits,
    permit: Permit,
}

#[derive(Clone, Copy, Debug)]
struct Waits {
    first_byte: Duration,
    headers: Duration,
    /// Between two requests, and how long the peer may take none of the bytes that wait for it.
    idle: Duration,
}

// === impl Line ===

impl<T: Socket> Line<T> {
    /// How long what the caller still sends is taken in after the last answer.
    const LINGER: Duration = Duration::from_secs(2);

    /// The most of a body that is taken in while its answer waits to be taken: as much as a body
    /// with a key may be, unless the operator says otherwise.
    const DRAINED_MAX: usize = 8 << 20;

    pub(super) fn new(io: T, ahead: &Ahead, settings: &Settings, permit: Permit) -> Self {
        Self {
            io,
            input: Input::new(ahead.as_slice(), Limits::of(settings)),
            output: Output::default(),
            is_silent: ahead.as_slice().is_empty(),
            is_mute: false,
            reading: Deadline::default(),
            writing: Deadline::default(),
            was_held_up: false,
            is_behind_answer: false,
            waits: Waits {
                first_byte: settings.first_byte,
                headers: settings.headers,
                idle: settings.idle,
            },
            permit,
        }
    }

    /// Whether the caller may be about to say something, as far as is known here: it said
    /// something already, or was answered just now.
    pub(super) fn is_in_talk(&self) -> bool {
        self.is_behind_answer || !self.input.is_empty()
    }

    /// Lets a close of the connection be a reset, or an orderly end again.
    pub(super) fn close_by_reset(&self, resets: bool) -> io::Result<()> {
        self.io.close_by_reset(resets)
    }

    /// Waits for the next request. Where no more are to begin, only what has come already counts:
    /// its caller was told that the connection stays. Fails when a head takes too long.
    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        closing: Pin<&mut Given<'_>>,
    ) -> Poll<io::Result<Next>> {
        let is_closing = closing.poll(cx).is_ready();
        if !self.input.is_empty()
            && let Some(next) = self.input.next(&[])
        {
            return Poll::Ready(Ok(next));
        }
        loop {
            let was_in_head = self.input.is_in_head();
            let Poll::Ready(read) = self.poll_read(cx, |input, bytes, _| input.next(bytes)) else {
                if is_closing {
                    return Poll::Ready(Ok(Next::Ended));
                }
                self.is_behind_answer = false;
                return self.poll_limit(cx);
            };
            match read? {
                Some(Some(next)) => {
                    self.is_silent = false;
                    self.was_held_up = false;
                    self.reading.disarm();
                    return Poll::Ready(Ok(next));
                }
                None if was_in_head => {
                    return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                }
                None => return Poll::Ready(Ok(Next::Ended)),
                // The time of a head runs from its first byte, that of a wait from its beginning;
                // more bytes of the head, or empty lines before it, give no more of it.
                Some(None) => {
                    if mem::take(&mut self.is_silent) || was_in_head != self.input.is_in_head() {
                        self.reading.disarm();
                    }
                }
            }
        }
    }

    /// Fetches the next piece of a body, if it is asked for. Says whether one was handed on, so
    /// that whoever asked may go on. Fails where a caller cannot be told to go on.
    pub(super) fn fetch(&mut self, cx: &mut Context<'_>, feed: &mut Feed) -> io::Result<bool> {
        let is_wanted = feed.is_wanted(cx);
        if is_wanted && mem::take(&mut feed.owes_word) {
            let word = b"HTTP/1.1 100 Continue\r\n\r\n";
            self.output.room().extend_from_slice(word);
        }
        if !self.output.is_done()
            && let Poll::Ready(Err(error)) = self.poll_send(cx)
        {
            return Err(error);
        }
        if !is_wanted {
            return Ok(false);
        }
        if self.input.hand_on(cx, feed, &[]) {
            return Ok(true);
        }
        loop {
            let read = self.poll_read(cx, |input, bytes, cx| input.hand_on(cx, feed, bytes));
            match read {
                Poll::Ready(Ok(Some(true))) => return Ok(true),
                Poll::Ready(Ok(Some(false))) => {}
                Poll::Ready(Ok(None)) => {
                    feed.fail(cx, "the caller sends no more");
                    return Ok(true);
                }
                Poll::Ready(Err(error)) => {
                    feed.fail(cx, error);
                    return Ok(true);
                }
                Poll::Pending => return Ok(false),
            }
        }
    }

    /// Takes in the rest of a body that nobody wants, if it is there. Says whether the body is
    /// behind us, so that what follows is the next request.
    pub(super) fn settle(&mut self, cx: &mut Context<'_>, feed: &mut Feed) -> bool {
        if !feed.is_over() && feed.is_idle() {
            self.input.drain(cx, feed, &[]);
        }
        if !feed.is_over() && feed.is_idle() {
            let _ = self.poll_read(cx, |input, bytes, cx| input.drain(cx, feed, bytes));
        }
        feed.is_over()
    }

    /// Sends an answer's content behind its head, while the body of its request may go on.
    pub(super) fn poll_deliver<B>(
        &mut self,
        cx: &mut Context<'_>,
        mut body: Pin<&mut B>,
        plan: &mut Plan,
        mut feed: Option<&mut Feed>,
    ) -> Poll<io::Result<()>>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>>,
    {
        loop {
            let filled = self.output.poll_fill(cx, body.as_mut(), plan);
            let sent = self.poll_send(cx);
            // What there is of the answer went out before, for one that is cut says more than none.
            let (filled, sent) = (filled?, sent?);
            if sent.is_ready() && plan.is_done() {
                self.is_behind_answer = true;
                return Poll::Ready(Ok(()));
            }
            let fetched = match feed.as_deref_mut() {
                Some(feed) if sent.is_pending() && feed.is_idle() => {
                    self.drain(cx, feed);
                    false
                }
                Some(feed) => self.fetch(cx, feed)?,
                None => false,
            };
            if fetched || !(filled.is_pending() || sent.is_pending()) {
                continue;
            }
            if sent.is_ready() && feed.as_ref().is_none_or(|feed| feed.is_over()) {
                return self.poll_hang_up(cx).map(Err);
            }
            return Poll::Pending;
        }
    }

    /// Watches a caller to whom there is nothing to say for now: who has gone would be noticed only
    /// when there is. Fails where nothing was said for the idle time to a caller who says no more.
    /// One who only closed its side may wait for the rest, and cannot be told from that.
    fn poll_hang_up(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        while !self.is_mute && self.input.is_empty() {
            // What it asks meanwhile waits for its turn.
            match ready!(self.poll_read(cx, |input, bytes, _| input.keep(bytes))) {
                Ok(Some(())) => {}
                Ok(None) => self.is_mute = true,
                Err(error) => return Poll::Ready(error),
            }
        }
        match self.is_mute {
            true => self.reading.poll(cx, self.waits.idle),
            false => Poll::Pending,
        }
    }

    /// Takes in what is there of a body that nobody wants. Some callers take nothing of an answer
    /// before they have sent everything.
    fn drain(&mut self, cx: &mut Context<'_>, feed: &mut Feed) {
        while !feed.is_over() && feed.is_idle() && feed.drained < Self::DRAINED_MAX {
            let read = self.poll_read(cx, |input, bytes, cx| {
                input.drain(cx, feed, bytes);
                feed.drained += bytes.len();
            });
            if !matches!(read, Poll::Ready(Ok(Some(())))) {
                return;
            }
        }
    }

    /// Sends what is to be written; fails when the caller takes none of it for too long.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let before = self.io.taken();
        let sent = self.output.poll_send(cx, Pin::new(&mut self.io));
        if sent.progress || self.io.taken() != before {
            self.writing.disarm();
            if self.is_mute {
                self.reading.disarm();
            }
        }
        self.was_held_up |= sent.result.is_pending();
        self.writing.watch(cx, self.waits.idle, sent.result)
    }

    /// Says that no more comes. What the peer may still be sending is taken in for a while, until it
    /// closes as well: a socket closed on unread bytes is reset, and the reset overtakes the answer.
    pub(super) async fn end(&mut self, lingers: bool) -> io::Result<()> {
        poll_fn(|cx| {
            let shut = Pin::new(&mut self.io).poll_shutdown(cx);
            self.writing.watch(cx, self.waits.idle, shut)
        })
        .await?;
        if lingers || self.is_spoken_to().await {
            self.reading.disarm();
            poll_fn(|cx| self.poll_linger(cx)).await;
        }
        Ok(())
    }

    /// Whether something comes from a peer that was silent: it may have spoken in the moment in
    /// which it was told the end.
    async fn is_spoken_to(&mut self) -> bool {
        // The runtime knows of what has come only after it has looked.
        yield_now().await;
        let speaks = |read| matches!(read, Poll::Ready(Ok(Some(()))));
        poll_fn(|cx| Poll::Ready(speaks(self.poll_read(cx, |_, _, _| ())))).await
    }

    /// Reads and forgets, until the peer closes or the time is over.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.reading.poll(cx, Self::LINGER).is_ready() {
                return Poll::Ready(());
            }
            match ready!(self.poll_read(cx, |_, _, _| ())) {
                Ok(Some(())) => {}
                Ok(None) | Err(_) => return Poll::Ready(()),
            }
        }
    }

    /// Reads some bytes and lets them be taken; `None` where no more come.
    fn poll_read<R>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&mut Input, &[u8], &Context<'_>) -> R,
    ) -> Poll<io::Result<Option<R>>> {
        scratch::reading(|room| {
            let mut buf = ReadBuf::new(room);
            ready!(Pin::new(&mut self.io).poll_read(cx, &mut buf))?;
            Poll::Ready(Ok(match buf.filled() {
                [] => None,
                bytes => Some(take(&mut self.input, bytes, cx)),
            }))
        })
    }

    /// Waits on for something to read. A head that takes too long is an error; who says nothing
    /// just leaves.
    fn poll_limit(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Next>> {
        if self.input.is_in_head() {
            return self.reading.poll(cx, self.waits.headers).map(Err);
        }
        let span = match self.is_silent {
            true => self.waits.first_byte,
            false => self.waits.idle,
        };
        loop {
            ready!(self.reading.poll(cx, span));
            // The end of an answer may lie where nobody sees it, and a peer that takes it slowly
            // is not idle: the time runs once more.
            if !mem::take(&mut self.was_held_up) {
                return Poll::Ready(Ok(Next::Ended));
            }
            self.reading.disarm();
        }
    }
}

impl<T: Socket + Send + 'static> Line<T> {
    /// Hands the connection on to another protocol.
    pub(super) fn switch(self) -> Switched {
        let ahead = self.input.into_bytes();
        Switched::new(self.io, ahead, self.waits.idle, self.permit)
    }
}
