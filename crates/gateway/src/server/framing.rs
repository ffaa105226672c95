//! Framing: where a request ends, read a second time.
//!
//! hyper takes a request that carries both `Content-Length` and `Transfer-Encoding`, drops the
//! length and says nothing; equal lengths it folds into one. A server behind us may read such a
//! request in another way, and then one request becomes two. So the bytes of an HTTP/1
//! connection are scanned once more on their way in, and a request that could be read in two
//! ways is marked with a [`Conflict`].

use std::num::NonZeroU8;

use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::Authority;
use http::{Method, Version};

/// Why a request could be read in more than one way.
///
/// It is put into the extensions of such a request. The service must look for it and refuse the
/// request with 400; on HTTP/1 the server then closes the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Conflict {
    /// `Content-Length` and `Transfer-Encoding` together.
    #[error("Content-Length and Transfer-Encoding exclude each other")]
    BothLengths,

    /// More than one `Content-Length`, be they equal or not.
    #[error("more than one Content-Length")]
    RepeatedLength,

    /// A `Transfer-Encoding` that is not exactly one `chunked`.
    #[error("Transfer-Encoding must be chunked, once")]
    Coding,

    /// A line that ends without a carriage return.
    #[error("a line of the head ends without CR")]
    BareLineFeed,

    /// No `Host` in HTTP/1.1, more than one, or one that is no host.
    #[error("exactly one valid Host is needed")]
    Host,

    /// A target that names another host than `Host` does.
    #[error("the target and Host name different hosts")]
    Target,

    /// `CONNECT`, which makes a tunnel of the connection.
    #[error("CONNECT is not served")]
    Connect,

    /// The second reading did not find the request that the first one found.
    #[error("the framing of the request is unclear")]
    Unclear,
}

/// What the scanner noted in one head, as far as it tells readers apart.
///
/// A set of bits that is never empty, so that it fits into an atomic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Facts(NonZeroU8);

/// What the scanner noted in one head.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Head {
    /// Lines so far, the request line included.
    lines: u32,
    /// How many `Content-Length` lines there are.
    lengths: u32,
    /// What the last of them says, if it is a number.
    length: Option<u64>,
    /// How many `Transfer-Encoding` lines there are.
    codings: u32,
    bare_line_feed: bool,
}

/// Finds the heads in the bytes of one direction of an HTTP/1 connection.
#[derive(Debug)]
pub(super) struct Scanner {
    at: At,
    /// The beginning of a line whose end has not come yet.
    line: Line,
    head: Head,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Head,
    /// A body of known length, or one chunk with the line end behind it.
    Skip {
        left: u64,
        chunked: bool,
    },
    ChunkSize,
    Trailer,
    /// Nothing that hyper would accept. It has the last word; nothing more is noted.
    Lost,
}

/// A line that came in pieces. Only its beginning is kept: no line that matters is longer.
#[derive(Debug)]
struct Line {
    kept: [u8; Line::KEPT],
    len: usize,
    last: u8,
}

/// Says in what way the request could be misread, if it could. `facts` are what the scanner noted,
/// and are asked for in HTTP/1 only.
pub(super) fn conflict(parts: &Parts, facts: Option<Facts>) -> Option<Conflict> {
    if parts.method == Method::CONNECT {
        return Some(Conflict::Connect);
    }
    let framing = match parts.version {
        Version::HTTP_2 => (parts.headers.get_all(CONTENT_LENGTH).iter().count() > 1)
            .then_some(Conflict::RepeatedLength),
        _ => facts.map_or(Some(Conflict::Unclear), |facts| facts.conflict(parts)),
    };
    framing.or_else(|| host_conflict(parts))
}

fn host_conflict(parts: &Parts) -> Option<Conflict> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host,
        (None, _) => return (parts.version == Version::HTTP_11).then_some(Conflict::Host),
        (Some(_), Some(_)) => return Some(Conflict::Host),
    };
    let host = Authority::try_from(host.as_bytes()).ok();
    let Some(host) = host.filter(is_host_and_port) else {
        return Some(Conflict::Host);
    };
    match parts.uri.authority() {
        Some(target) if *target != host => Some(Conflict::Target),
        _ => None,
    }
}

/// Whether nothing but a host and a number stands there: no user, no port in words.
fn is_host_and_port(authority: &Authority) -> bool {
    let (host, text) = (authority.host(), authority.as_str());
    let has_port = authority.port_u16().is_some() && !text.contains('@');
    !host.is_empty() && (text == host || has_port)
}

// === impl Facts ===

impl Facts {
    // The lowest bit is set in all of them.
    const LENGTH: u8 = 1 << 1;
    /// More than one.
    const LENGTHS: u8 = 1 << 2;
    const CODING: u8 = 1 << 3;
    const BARE_LINE_FEED: u8 = 1 << 4;

    pub(super) fn to_bits(self) -> u8 {
        self.0.get()
    }

    pub(super) fn from_bits(bits: u8) -> Option<Self> {
        NonZeroU8::new(bits).map(Self)
    }

    fn has(self, bit: u8) -> bool {
        self.to_bits() & bit != 0
    }

    fn conflict(self, parts: &Parts) -> Option<Conflict> {
        let mut codings = parts.headers.get_all(TRANSFER_ENCODING).iter();
        let coding = codings.next();
        let lengths = parts.headers.get_all(CONTENT_LENGTH).iter().count();
        if self.has(Self::LENGTH) && self.has(Self::CODING) {
            return Some(Conflict::BothLengths);
        }
        if self.has(Self::LENGTHS) {
            return Some(Conflict::RepeatedLength);
        }
        // Two readers that differ in this are two readers of two different requests.
        let found = usize::from(self.has(Self::LENGTH));
        if coding.is_some() != self.has(Self::CODING) || lengths != found {
            return Some(Conflict::Unclear);
        }
        let chunked = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
        if coding.is_some_and(|coding| !chunked(coding)) || codings.next().is_some() {
            return Some(Conflict::Coding);
        }
        self.has(Self::BARE_LINE_FEED)
            .then_some(Conflict::BareLineFeed)
    }
}

// === impl Head ===

impl Head {
    pub(super) fn facts(&self) -> Facts {
        let bits = [
            (self.lengths > 0, Facts::LENGTH),
            (self.lengths > 1, Facts::LENGTHS),
            (self.codings > 0, Facts::CODING),
            (self.bare_line_feed, Facts::BARE_LINE_FEED),
        ];
        let set = bits.iter().filter(|(is_set, _)| *is_set);
        let bits = set.fold(0, |bits, (_, bit)| bits | bit);
        Facts(NonZeroU8::MIN | bits)
    }

    /// Notes one line behind the request line.
    fn note(&mut self, text: &[u8], whole: bool) {
        // Every line passes here; two names matter.
        if !matches!(text.first(), Some(b'c' | b'C' | b't' | b'T')) {
            return;
        }
        let Some(colon) = memchr::memchr(b':', text) else {
            return;
        };
        let (name, value) = (&text[..colon], &text[colon + 1..]);
        if name.eq_ignore_ascii_case(CONTENT_LENGTH.as_str().as_bytes()) {
            self.lengths += 1;
            self.length = whole.then(|| number(value.trim_ascii(), 10)).flatten();
        } else if name.eq_ignore_ascii_case(TRANSFER_ENCODING.as_str().as_bytes()) {
            self.codings += 1;
        }
    }

    /// What follows this head.
    fn body(&self) -> At {
        match (self.codings, self.lengths, self.length) {
            (1.., _, _) => At::ChunkSize,
            (0, 0, _) | (0, _, Some(0)) => At::Head,
            (0, _, Some(left)) => At::Skip {
                left,
                chunked: false,
            },
            (0, _, None) => At::Lost,
        }
    }
}

/// Reads digits and nothing but digits: `str::parse` would take a sign.
fn number(text: &[u8], radix: u32) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, byte| {
        let digit = char::from(*byte).to_digit(radix)?;
        sum.checked_mul(u64::from(radix))?
            .checked_add(u64::from(digit))
    })
}

// === impl Scanner ===

impl Scanner {
    pub(super) fn new() -> Self {
        Self {
            at: At::Head,
            line: Line {
                kept: [0; Line::KEPT],
                len: 0,
                last: 0,
            },
            head: Head::default(),
        }
    }

    /// Takes the next bytes of the connection, cut anywhere, and tells `found` of every head that
    /// ends in them.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut found: impl FnMut(Head)) {
        while !bytes.is_empty() {
            match self.at {
                At::Lost => return,
                At::Skip { left, chunked } => {
                    let step = usize::try_from(left).map_or(bytes.len(), |n| n.min(bytes.len()));
                    bytes = &bytes[step..];
                    self.at = match left - step as u64 {
                        0 if chunked => At::ChunkSize,
                        0 => At::Head,
                        left => At::Skip { left, chunked },
                    };
                }
                At::Head | At::ChunkSize | At::Trailer => {
                    let Some(end) = memchr::memchr(b'\n', bytes) else {
                        self.line.push(bytes);
                        return;
                    };
                    let (line, rest) = bytes.split_at(end);
                    bytes = rest.get(1..).unwrap_or_default();
                    if let Some(head) = self.end_line(line) {
                        found(head);
                    }
                }
            }
        }
    }

    /// Whether a head has begun and not ended.
    pub(super) fn is_in_head(&self) -> bool {
        self.at == At::Head && (self.head.lines > 0 || self.line.len > 0)
    }

    /// Whether a body has begun and not ended, as far as anybody can tell.
    pub(super) fn is_in_body(&self) -> bool {
        self.at != At::Head
    }

    /// Whether the connection is between two requests.
    pub(super) fn is_between(&self) -> bool {
        !self.is_in_body() && !self.is_in_head()
    }

    /// Ends a line, and returns the head that ends with it.
    fn end_line(&mut self, end: &[u8]) -> Option<Head> {
        if self.line.len == 0 {
            let ends_in_cr = end.last() == Some(&b'\r');
            let text = &end[..end.len() - usize::from(ends_in_cr)];
            return self.on_line(text, true, ends_in_cr);
        }
        self.line.push(end);
        let ends_in_cr = self.line.last == b'\r';
        let (kept, len) = (self.line.kept, self.line.len);
        self.line.len = 0;
        let text = &kept[..Line::KEPT.min(len - usize::from(ends_in_cr))];
        self.on_line(text, len <= Line::KEPT, ends_in_cr)
    }

    fn on_line(&mut self, text: &[u8], whole: bool, ends_in_cr: bool) -> Option<Head> {
        match self.at {
            At::Head if text.is_empty() && self.head.lines == 0 => {} // empty lines may lead
            At::Head if text.is_empty() => {
                self.head.bare_line_feed |= !ends_in_cr;
                self.at = self.head.body();
                return Some(std::mem::take(&mut self.head));
            }
            At::Head => {
                self.head.bare_line_feed |= !ends_in_cr;
                if self.head.lines > 0 {
                    self.head.note(text, whole);
                }
                self.head.lines += 1;
            }
            // To hyper such a line goes on, to others it ends: what follows has two readings.
            At::ChunkSize | At::Trailer if !ends_in_cr => self.at = At::Lost,
            At::ChunkSize => self.at = after_chunk_size(text, whole),
            At::Trailer if text.is_empty() => self.at = At::Head,
            At::Trailer | At::Skip { .. } | At::Lost => {}
        }
        None
    }
}

fn after_chunk_size(text: &[u8], whole: bool) -> At {
    let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit());
    let digits = digits.count();
    if digits == text.len() && !whole {
        // More of them follow than were kept: zeros may stand before the size.
        return At::Lost;
    }
    let size = number(&text[..digits], 16);
    match size.map(|size| (size, size.checked_add(2))) {
        Some((0, _)) => At::Trailer,
        Some((_, Some(left))) => At::Skip {
            left,
            chunked: true,
        },
        Some((_, None)) | None => At::Lost,
    }
}

// === impl Line ===

impl Line {
    /// Longer than any `Content-Length` line that is not an attack.
    const KEPT: usize = 128;

    fn push(&mut self, bytes: &[u8]) {
        if let Some(room) = self.kept.get_mut(self.len..) {
            let step = room.len().min(bytes.len());
            room[..step].copy_from_slice(&bytes[..step]);
        }
        self.len += bytes.len();
        self.last = bytes.last().copied().unwrap_or(self.last);
    }
}

#[cfg(test)]
mod tests;
