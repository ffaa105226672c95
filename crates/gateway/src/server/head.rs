//! Heads: from the bytes of a request's head to the request.

use std::mem::MaybeUninit;

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HeaderName, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{Method, Request, Uri, Version};

use super::Settings;
use super::framing::{self, Conflict, Lines, Refusal};
use crate::http1::Limits;
use crate::http1::decode::Length;
use crate::http1::lengths::Lengths;
use crate::http1::lines::{BadLine, Source, has_word};

/// The head of a request.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) parts: Parts,
    /// How the end of the body is found, unless there is a conflict.
    pub(super) length: Length,
    pub(super) conflict: Option<Conflict>,
    /// Whether the caller waits for a word before it sends the body.
    pub(super) expects: bool,
    /// Whether the caller offers to go on with another protocol.
    pub(super) upgrades: bool,
    /// How it wants to be answered.
    pub(super) caller: Caller,
}

/// What a request says about its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) is_http11: bool,
    pub(super) is_head: bool,
    /// Whether the connection may be kept for the next request.
    pub(super) keeps: bool,
    pub(super) takes_trailers: bool,
}

/// The lines of a head for which there is room without asking for it.
const LINES: usize = 100;

/// The longest target that can be told apart.
const TARGET_MAX: usize = u16::MAX as usize - 1;

type Line<'a> = MaybeUninit<httparse::Header<'a>>;

/// Reads the head that `bytes` begin with, and says how long it is; `None` if it is not whole.
/// No line ends stand before it.
pub(super) fn parse(bytes: &[u8], limits: Limits) -> Result<Option<(Head, usize)>, Refusal> {
    if limits.lines > LINES {
        // A line needs a place from its first byte on, and the request line gives one more.
        let lines = memchr::memchr_iter(b'\n', bytes).count();
        let mut room = vec![Line::uninit(); lines.min(limits.lines)];
        return parse_into(&mut room, bytes, limits);
    }
    let mut room = [const { Line::uninit() }; LINES];
    parse_into(&mut room[..limits.lines], bytes, limits)
}

fn parse_into<'b>(
    room: &mut [Line<'b>],
    bytes: &'b [u8],
    limits: Limits,
) -> Result<Option<(Head, usize)>, Refusal> {
    let mut request = httparse::Request::new(&mut []);
    let len = match request.parse_with_uninit_headers(bytes, room) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if bytes.len() > limits.bytes => {
            return Err(Refusal::HeadTooLarge);
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal::HeadTooLarge),
        Err(_) => return Err(Refusal::Malformed),
    };
    if len > limits.bytes {
        return Err(Refusal::HeadTooLarge);
    }
    let lines = Lines::of(&bytes[..len]);
    let source = Source::new(&bytes[..len]);
    read(&request, &source, lines).map(|head| Some((head, len)))
}

fn read(
    request: &httparse::Request<'_, '_>,
    source: &Source<'_>,
    lines: Lines,
) -> Result<Head, Refusal> {
    let method = request.method.expect("the head is whole");
    let target = request.path.expect("the head is whole");
    let is_http11 = request.version == Some(1);
    if target.len() > TARGET_MAX {
        return Err(Refusal::TargetTooLong);
    }
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = Method::from_bytes(method.as_bytes()).map_err(|_| Refusal::Malformed)?;
    parts.uri =
        Uri::from_maybe_shared(source.share(target.as_bytes())).map_err(|_| Refusal::Malformed)?;
    parts.version = match is_http11 {
        true => Version::HTTP_11,
        false => Version::HTTP_10,
    };
    let mut habits = Habits::default();
    parts.headers = source.headers(request.headers, |name, value| habits.note(name, value))?;
    let length = framing::length(&habits.lengths, parts.version)?;
    let conflict =
        framing::conflict_of_lines(&parts, &habits.lengths, lines, request.headers.len());
    let is_head = parts.method == Method::HEAD;
    Ok(Head {
        parts,
        length,
        conflict,
        expects: habits.expects && is_http11 && length != Length::Sized(0),
        upgrades: habits.upgrades && is_http11,
        caller: Caller {
            is_http11,
            is_head,
            keeps: !habits.closes && (is_http11 || habits.keeps),
            takes_trailers: habits.takes_trailers,
        },
    })
}

/// What the lines say that are about the connection.
#[derive(Default, Debug)]
struct Habits {
    lengths: Lengths,
    closes: bool,
    keeps: bool,
    expects: bool,
    upgrades: bool,
    takes_trailers: bool,
}

// === impl Habits ===

impl Habits {
    fn note(&mut self, name: &HeaderName, value: &[u8]) {
        match *name {
            CONTENT_LENGTH => self.lengths.note_length(value),
            TRANSFER_ENCODING => self.lengths.note_coding(value),
            CONNECTION => {
                self.closes |= has_word(value, b"close");
                self.keeps |= has_word(value, b"keep-alive");
            }
            EXPECT => self.expects = value.eq_ignore_ascii_case(b"100-continue"),
            UPGRADE => self.upgrades = true,
            TE => self.takes_trailers |= has_word(value, b"trailers"),
            _ => {}
        }
    }
}

impl From<BadLine> for Refusal {
    fn from(line: BadLine) -> Self {
        match line {
            BadLine::Name | BadLine::Value => Self::Malformed,
            BadLine::TooMany => Self::HeadTooLarge,
        }
    }
}

// === impl Caller ===

impl Caller {
    /// Somebody of whom nothing could be read.
    pub(super) const STRANGER: Self = Self {
        is_http11: true,
        is_head: false,
        keeps: false,
        takes_trailers: false,
    };
}

// === impl Limits ===

impl Limits {
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            lines: settings.headers_max,
            bytes: settings.head_bytes_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        lines: 100,
        bytes: 32 * 1024,
    };

    fn whole(text: &str) -> Head {
        let (head, len) = parse(text.as_bytes(), LIMITS).unwrap().unwrap();
        assert_eq!(len, text.len());
        head
    }

    fn with(lines: &str) -> Head {
        whole(&format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"))
    }

    #[test]
    fn a_head_is_what_stands_there() {
        let head = whole("POST /a?b HTTP/1.1\r\nHost: a\r\nX-Y:  z z \r\nEmpty:\r\nx-y: 2\r\n\r\n");
        assert_eq!(head.parts.method, Method::POST);
        assert_eq!(head.parts.uri, "/a?b");
        assert_eq!(head.parts.version, Version::HTTP_11);
        let values: Vec<_> = head.parts.headers.get_all("x-y").iter().collect();
        assert_eq!(values, ["z z", "2"]);
        assert_eq!(head.parts.headers["empty"], "");
        assert_eq!(head.parts.headers.len(), 4);
        assert_eq!((head.conflict, head.length), (None, Length::Sized(0)));
    }

    #[test]
    fn the_connection_is_kept_if_both_want_it() {
        assert!(with("").caller.keeps);
        assert!(!with("Connection: x, Close\r\n").caller.keeps);
        // A later word does not undo it.
        assert!(
            !with("Connection: close\r\nConnection: keep-alive\r\n")
                .caller
                .keeps
        );
        assert!(!whole("GET / HTTP/1.0\r\n\r\n").caller.keeps);
        assert!(
            whole("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")
                .caller
                .keeps
        );
    }

    #[test]
    fn a_word_is_expected_only_before_a_body() {
        let expect = "Expect: 100-Continue\r\n";
        assert!(!with(expect).expects);
        assert!(with(&format!("{expect}Content-Length: 1\r\n")).expects);
        assert!(with(&format!("{expect}Transfer-Encoding: chunked\r\n")).expects);
        assert!(!with("Expect: more\r\nContent-Length: 1\r\n").expects);
        let old = format!("GET / HTTP/1.0\r\n{expect}Content-Length: 1\r\nUpgrade: x\r\n\r\n");
        assert!(!whole(&old).expects && !whole(&old).upgrades);
        assert!(with("Upgrade: x\r\n").upgrades);
        assert!(with("TE: a, Trailers\r\n").caller.takes_trailers);
    }

    #[test]
    fn a_head_that_is_not_whole_is_waited_for_up_to_its_limit() {
        let text = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        for len in 0..text.len() {
            assert!(parse(&text.as_bytes()[..len], LIMITS).unwrap().is_none());
        }
        let tight = |bytes| Limits { bytes, ..LIMITS };
        let len = text.len();
        let found = parse(text.as_bytes(), tight(len)).unwrap();
        assert_eq!(found.unwrap().1, len);
        let over = parse(text.as_bytes(), tight(len - 1)).unwrap_err();
        assert_eq!(over, Refusal::HeadTooLarge);
        let over = parse(&text.as_bytes()[..len - 1], tight(len - 2)).unwrap_err();
        assert_eq!(over, Refusal::HeadTooLarge);
    }

    #[test]
    fn there_may_be_as_many_lines_as_the_limit_and_no_more() {
        for lines in [3, 100, 150] {
            let limits = Limits { lines, ..LIMITS };
            let head = |count| {
                format!(
                    "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
                    "X: y\r\n".repeat(count)
                )
            };
            let most = head(lines - 1);
            let (found, len) = parse(most.as_bytes(), limits).unwrap().unwrap();
            assert_eq!((found.parts.headers.len(), len), (lines, most.len()));
            let over = parse(head(lines).as_bytes(), limits).unwrap_err();
            assert_eq!(over, Refusal::HeadTooLarge);
        }
    }
}
