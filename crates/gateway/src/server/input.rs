//! Input: what was read from a connection, and the requests that are found in it.

use std::mem;
use std::task::Context;

use bytes::Bytes;
use http_body::Frame;

use super::content::Content;
use super::feed::{self, Feed};
use super::framing::Refusal;
use super::head::{self, Head};
use crate::http1::Limits;
use crate::http1::decode::{Decoder, Length, Piece};
use crate::http1::lines::{leading_line_ends, may_end_behind};

/// What was read and belongs to nothing yet.
#[derive(Debug)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// So many of them are used up.
    used: usize,
    /// So many of the others hold no end of a head.
    looked: usize,
    limits: Limits,
}

/// A request, and how the connection goes on with its body.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) head: Head,
    pub(super) content: Content,
    /// Where the body is still to come.
    pub(super) feed: Option<Feed>,
}

/// What comes next on a connection.
#[derive(Debug)]
pub(super) enum Next {
    Turn(Box<Turn>),
    /// Something that is no request.
    Refused(Refusal),
    /// Nothing more.
    Ended,
}

// === impl Input ===

impl Input {
    pub(super) fn new(bytes: &[u8], limits: Limits) -> Self {
        Self {
            bytes: bytes.to_vec(),
            used: 0,
            looked: 0,
            limits,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether a head has begun and not ended. Line ends do not begin one.
    pub(super) fn is_in_head(&self) -> bool {
        !self.is_empty() && self.bytes[self.used..] != *b"\r"
    }

    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.split_off(self.used)
    }

    /// Adds `fresh` bytes, and takes the next request out of them, if its head is whole.
    pub(super) fn next(&mut self, fresh: &[u8]) -> Option<Next> {
        let (limits, mut looked) = (self.limits, self.looked);
        let next = self.with(fresh, |bytes| {
            let lead = leading_line_ends(bytes);
            let (used, next) = find(&bytes[lead..], &mut looked, limits);
            (lead + used, next)
        });
        self.looked = looked;
        next
    }

    /// Adds `fresh` bytes, to be looked at later.
    pub(super) fn keep(&mut self, fresh: &[u8]) {
        self.with(fresh, |_| (0, ()));
    }

    /// Adds `fresh` bytes, and hands the next piece of a body in them on. Says whether there was
    /// one.
    pub(super) fn hand_on(&mut self, cx: &Context<'_>, feed: &mut Feed, fresh: &[u8]) -> bool {
        self.with(fresh, |bytes| match feed.decoder.decode(bytes) {
            Ok((used, piece)) => {
                let is_found = piece != Piece::Nothing;
                match piece {
                    Piece::Nothing => {}
                    Piece::Data(len) => {
                        let data = Bytes::copy_from_slice(&bytes[used - len..used]);
                        feed.give(cx, Frame::data(data));
                    }
                    Piece::Trailers(trailers) => feed.give(cx, Frame::trailers(trailers)),
                    Piece::End => feed.end(cx),
                }
                (used, is_found)
            }
            Err(error) => {
                feed.fail(cx, error);
                (bytes.len(), true)
            }
        })
    }

    /// Adds `fresh` bytes, and forgets what belongs to a body in them.
    pub(super) fn drain(&mut self, cx: &Context<'_>, feed: &mut Feed, fresh: &[u8]) {
        self.with(fresh, |bytes| {
            let mut used = 0;
            loop {
                match feed.decoder.decode(&bytes[used..]) {
                    Ok((len, Piece::Nothing | Piece::End)) => return (used + len, ()),
                    Ok((len, Piece::Data(_) | Piece::Trailers(_))) => used += len,
                    Err(error) => {
                        feed.fail(cx, error);
                        return (bytes.len(), ());
                    }
                }
            }
        });
    }

    /// Lets `read` see all bytes, the `fresh` ones at the end, and keeps those it did not use.
    fn with<R>(&mut self, fresh: &[u8], read: impl FnOnce(&[u8]) -> (usize, R)) -> R {
        if self.is_empty() {
            let (used, result) = read(fresh);
            self.bytes = fresh[used..].to_vec();
            return result;
        }
        if !fresh.is_empty() {
            self.bytes.drain(..mem::take(&mut self.used));
            self.bytes.extend_from_slice(fresh);
        }
        let (used, result) = read(&self.bytes[self.used..]);
        self.used += used;
        if self.used == self.bytes.len() {
            (self.bytes, self.used) = (Vec::new(), 0);
        }
        result
    }
}

/// Looks for a request at the beginning of `bytes`, and says how many of them it used.
fn find(bytes: &[u8], looked: &mut usize, limits: Limits) -> (usize, Option<Next>) {
    if bytes.is_empty() {
        return (0, None);
    }
    if *looked > 0 && !may_end_behind(bytes, *looked) {
        *looked = bytes.len();
        let refused = Next::Refused(Refusal::HeadTooLarge);
        return (0, (bytes.len() > limits.bytes).then_some(refused));
    }
    match head::parse(bytes, limits) {
        Ok(Some((head, len))) => {
            *looked = 0;
            let (used, turn) = Turn::begin(head, &bytes[len..], limits);
            (len + used, Some(Next::Turn(turn)))
        }
        Ok(None) => {
            *looked = bytes.len();
            (0, None)
        }
        Err(refusal) => (0, Some(Next::Refused(refusal))),
    }
}

// === impl Turn ===

impl Turn {
    /// Begins with the body in `bytes`, and says how many of them it took.
    fn begin(head: Head, bytes: &[u8], limits: Limits) -> (usize, Box<Self>) {
        let mut feed = None;
        let (content, used) = match head.length {
            // Where it ends nobody is to say, and nothing behind it is read.
            _ if head.conflict.is_some() => (Content::unclear(), 0),
            Length::Sized(0) => (Content::empty(), 0),
            length => {
                // Who waits for a word gets it, though it may be too late for it.
                let whole = match head.expects {
                    true => None,
                    false => Content::at_hand(length, bytes, limits),
                };
                whole.unwrap_or_else(|| {
                    let (near, far) = feed::pair(Decoder::new(length, limits), head.expects);
                    feed = Some(near);
                    (Content::fed(far), 0)
                })
            }
        };
        let turn = Self {
            head,
            content,
            feed,
        };
        // Boxed, because it is handed on more than once.
        (used, Box::new(turn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Settings;

    fn input() -> Input {
        Input::new(b"", Limits::of(&Settings::default()))
    }

    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    #[test]
    fn a_head_is_under_way_from_its_first_byte_to_its_empty_line() {
        let mut input = input();
        for line_end in [&b"\r\n"[..], b"\r", b"\n", b"\n"] {
            assert!(input.next(line_end).is_none());
            assert!(!input.is_in_head());
        }
        for byte in &GET[..GET.len() - 1] {
            assert!(input.next(&[*byte]).is_none());
            assert!(input.is_in_head());
        }
        assert!(matches!(
            input.next(&GET[GET.len() - 1..]),
            Some(Next::Turn(_))
        ));
        assert!(!input.is_in_head() && input.is_empty());
    }

    #[test]
    fn nothing_is_held_when_everything_is_used() {
        let mut input = input();
        let all = [GET, GET, &GET[..5]].concat();
        assert!(matches!(input.next(&all), Some(Next::Turn(_))));
        assert!(matches!(input.next(&[]), Some(Next::Turn(_))));
        assert!(input.next(&[]).is_none() && input.is_in_head());
        assert!(matches!(input.next(&GET[5..]), Some(Next::Turn(_))));
        assert_eq!(input.bytes.capacity(), 0);
    }

    #[test]
    fn a_head_without_an_end_is_refused_at_its_limit() {
        for step in [1, 7, 1 << 16] {
            let mut input = input();
            let head = [b"GET / HTTP/1.1\r\nX: ", &[b'x'; 40_000][..]].concat();
            let mut refused = None;
            for (number, piece) in head.chunks(step).enumerate() {
                if let Some(next) = input.next(piece) {
                    refused = Some((next, (number + 1) * step));
                    break;
                }
            }
            let (next, after) = refused.unwrap();
            assert!(matches!(next, Next::Refused(Refusal::HeadTooLarge)));
            assert!(after <= 32 * 1024 + step, "after {after}");
        }
    }

    #[test]
    fn a_body_of_which_a_part_is_missing_is_fed() {
        let mut input = input();
        let cx = &mut Context::from_waker(std::task::Waker::noop());
        let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel";
        let Some(Next::Turn(mut turn)) = input.next(head) else {
            panic!("a request is there");
        };
        let feed = turn.feed.as_mut().unwrap();
        assert!(input.hand_on(cx, feed, &[]) && !feed.is_over());
        assert!(!input.hand_on(cx, feed, &[]));
        assert!(input.hand_on(cx, feed, b"loGET") && feed.is_over());
        assert_eq!(input.into_bytes(), b"GET");
    }
}
