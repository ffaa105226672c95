//! Framing: a request that reached the service without a [`Conflict`] is the one that every
//! reader of the same bytes finds there.

use bytes::Bytes;
use http::Uri;
use onceward_gateway::server::Conflict;
use onceward_gateway::server::rehearsal::{Heard, rehearse};

use super::Choices;

/// In which way a reader is wrong, or right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reader {
    /// As the standard says: a coding counts before a length, and lines end with CR LF.
    Strict,
    /// Lines may end without CR, also in chunks and trailers.
    Lenient,
    /// A length counts before a coding.
    LengthFirst,
}

/// A request as a reader finds it.
#[derive(PartialEq, Eq, Debug)]
struct Found {
    method: String,
    target: String,
    body: Vec<u8>,
    /// Where the next one begins.
    end: usize,
}

/// What the bytes from 0x80 on stand for: a change of one byte is then one of a line.
const PHRASES: [&[u8]; 26] = [
    b"GET / HTTP/1.1\r\n",
    b"POST /a HTTP/1.1\r\n",
    b"PUT /b HTTP/1.0\r\n",
    b"Host: a\r\n",
    b"Host: b\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: ",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: ",
    b"chunked",
    b"identity",
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\n\n",
    b"0\r\n\r\n",
    b"0\r\n",
    b"5\r\nhello\r\n",
    b"5;a=b\r\nhello\r\n",
    b"A: b\r\n",
    b"A: b\n",
    b" : ",
    b"\t",
    b"0000000000000000000000000000000000000000000000000000000000000000",
    b"Connection: close\r\n",
];

/// Takes two bytes of how the rest comes in pieces, and lets the real server read the rest.
///
/// # Panics
///
/// Panics if the server hands on a request, without a conflict, that some reader of the same bytes
/// reads in another way.
pub fn check(bytes: &[u8]) {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime starts");
    }
    let mut from = Choices(bytes);
    let steps = [from.byte(), from.byte()].map(|step| usize::from(step) + 1);
    let sent = &*spoken(from.rest());
    let pieces = pieces(sent, steps);
    let heard = RUNTIME.with(|runtime| runtime.block_on(rehearse(pieces)));
    for reader in [Reader::Strict, Reader::Lenient, Reader::LengthFirst] {
        let mut at = 0;
        for (number, request) in heard.iter().enumerate() {
            // Nothing behind a conflict is read, and what broke off has no end to compare.
            if request.conflict.is_some() || request.body.is_none() {
                let last = number + 1 == heard.len();
                assert!(last || request.conflict != Some(Conflict::Unclear));
                break;
            }
            match reader.read(sent, at) {
                Some(found) => {
                    agree(request, &found, reader, number);
                    at = found.end;
                }
                None => panic!("{reader:?} finds no request {number} at {at}: {request:?}"),
            }
        }
    }
}

/// The bytes with the phrases that some of them stand for.
fn spoken(bytes: &[u8]) -> Vec<u8> {
    let mut sent = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match PHRASES.get(usize::from(*byte).wrapping_sub(0x80)) {
            Some(phrase) => sent.extend_from_slice(phrase),
            None => sent.push(*byte),
        }
    }
    sent
}

/// The bytes in steps of these two lengths; 256 is all of them at once.
fn pieces(sent: &[u8], steps: [usize; 2]) -> Vec<Bytes> {
    let mut rest = Bytes::copy_from_slice(sent);
    let mut pieces = Vec::new();
    for step in steps.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let len = if *step == 256 {
            rest.len()
        } else {
            (*step).min(rest.len())
        };
        pieces.push(rest.split_to(len));
    }
    pieces
}

fn agree(heard: &Heard, found: &Found, reader: Reader, number: usize) {
    let (body, _) = heard
        .body
        .as_ref()
        .expect("only whole requests are compared");
    // What a target means is left to the one parser of URLs: here it has to be the same one.
    let target = found.target.parse::<Uri>();
    let same_target = target.is_ok_and(|target| target == heard.parts.uri);
    assert!(
        heard.parts.method.as_str() == found.method && same_target && **body == *found.body,
        "{reader:?} reads request {number} as {found:?}, not as {heard:?}"
    );
}

// === impl Reader ===

impl Reader {
    /// The request that begins at `at`, if there is a whole one.
    fn read(self, sent: &[u8], at: usize) -> Option<Found> {
        let mut headers = [httparse::EMPTY_HEADER; 128];
        let mut head = httparse::Request::new(&mut headers);
        let httparse::Status::Complete(len) = head.parse(&sent[at..]).ok()? else {
            return None;
        };
        let start = at + len;
        let lines = |name: &'static str| {
            let lines = head.headers.iter();
            lines.filter(move |it| it.name.eq_ignore_ascii_case(name))
        };
        let repeats = ["content-length", "transfer-encoding", "host"]
            .into_iter()
            .any(|name| lines(name).count() > 1);
        if self == Self::Strict && repeats {
            return None;
        }
        let value = |name| lines(name).next_back().map(|it| it.value);
        let length = match value("content-length") {
            None => None,
            Some(digits) => Some(str::from_utf8(digits).ok()?.trim().parse::<usize>().ok()?),
        };
        let chunked = value("transfer-encoding").is_some();
        let (body, end) = match (chunked, length) {
            (true, Some(_)) if self == Self::LengthFirst => of_length(sent, start, length)?,
            (true, _) => self.chunks(sent, start)?,
            (false, length) => of_length(sent, start, length)?,
        };
        Some(Found {
            method: head.method?.to_owned(),
            target: head.path?.to_owned(),
            body,
            end,
        })
    }

    fn chunks(self, sent: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
        let mut body = Vec::new();
        loop {
            let (line, next) = self.line(sent, at)?;
            let digits = line
                .iter()
                .take_while(|byte| byte.is_ascii_hexdigit())
                .count();
            let size = str::from_utf8(&line[..digits])
                .ok()?
                .trim_start_matches('0');
            let size = match (digits, size) {
                (0, _) => return None,
                (_, "") => 0,
                (_, size) => usize::from_str_radix(size, 16).ok()?,
            };
            at = next;
            if size == 0 {
                break;
            }
            body.extend_from_slice(sent.get(at..at.checked_add(size)?)?);
            let (rest, next) = self.line(sent, at + size)?;
            rest.is_empty().then_some(())?;
            at = next;
        }
        loop {
            let (line, next) = self.line(sent, at)?;
            at = next;
            if line.is_empty() {
                return Some((body, at));
            }
        }
    }

    /// The line at `at`, and where the next one begins.
    fn line(self, sent: &[u8], at: usize) -> Option<(&[u8], usize)> {
        let rest = sent.get(at..)?;
        let strict = self != Self::Lenient;
        let is_end = |place: &usize| {
            rest[*place] == b'\n' && (!strict || *place > 0 && rest[*place - 1] == b'\r')
        };
        let end = (0..rest.len()).find(is_end)?;
        let line = &rest[..end];
        Some((line.strip_suffix(b"\r").unwrap_or(line), at + end + 1))
    }
}

fn of_length(sent: &[u8], start: usize, length: Option<usize>) -> Option<(Vec<u8>, usize)> {
    let end = start.checked_add(length.unwrap_or(0))?;
    Some((sent.get(start..end)?.to_vec(), end))
}
