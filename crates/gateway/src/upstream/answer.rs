//! Heads of answers: what the service says before the body, and how the body ends.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode, Version};
use httparse::{Header, ParserConfig, Status};
use hyper::ext::ReasonPhrase;

use super::decoder::Decoder;
use super::error::Cause;

/// The head of a final answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) head: Response<Decoder>,
    /// Whether the service lets the connection stay open.
    pub(super) keeps_alive: bool,
}

/// What bytes begin with.
#[derive(Debug)]
pub(super) enum Parsed {
    /// A part of a head.
    Partial,
    /// A head of so many bytes that says something in advance.
    Informational(usize),
    /// The head of the answer, of so many bytes.
    Final(Answer, usize),
}

/// What the fields of a head say about its body and its connection.
#[derive(Default)]
struct Said {
    length: Option<Length>,
    /// Whether the last of the codings is `chunked`.
    is_chunked: Option<bool>,
    closes: bool,
}

/// What `Content-Length` says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Of(u64),
    /// Something else, or several things.
    Invalid,
}

/// The most fields of a head, or of trailers.
pub(super) const FIELDS_MAX: usize = 100;

/// The longest head, in bytes.
pub(super) const HEAD_MAX: usize = 408 << 10;

/// Reads the head that `read` begins with: of the answer to a HEAD if `to_head`.
pub(super) fn parse(read: &[u8], to_head: bool) -> Result<Parsed, Cause> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut []);
    let len = match ParserConfig::default()
        .parse_response_with_uninit_headers(&mut head, read, &mut fields)
        .map_err(garbled)?
    {
        Status::Partial if read.len() >= HEAD_MAX => {
            return Err(Cause::Garbled("its head is too long"));
        }
        Status::Partial => return Ok(Parsed::Partial),
        Status::Complete(len) => len,
    };
    let status = head.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(Cause::Garbled("there is no such status"))?;
    if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(Parsed::Informational(len));
    }
    let version = match head.version {
        Some(1) => Version::HTTP_11,
        _ => Version::HTTP_10,
    };
    let reason = head.reason;
    let mut said = Said::default();
    let mut headers = headers(&read[..len], head.headers, |name, value| {
        said.hear(name, value);
    })?;
    let has_body = !to_head
        && !status.is_informational()
        && status != StatusCode::NO_CONTENT
        && status != StatusCode::NOT_MODIFIED;
    let body = match has_body {
        true => said.body(version)?,
        false => Decoder::Done,
    };
    // A coding overrides a length. Whoever reads on goes by what is left, and must not find one
    // that cuts the body short.
    let is_ambiguous = said.is_chunked.is_some() && said.length.is_some();
    if has_body && is_ambiguous {
        headers.remove(header::CONTENT_LENGTH);
    }
    let mut head = Response::new(body);
    *head.status_mut() = status;
    *head.version_mut() = version;
    *head.headers_mut() = headers;
    // A phrase of the service's own goes on to callers that speak HTTP/1.
    if let Some(phrase) = own_phrase(status, reason) {
        head.extensions_mut().insert(phrase);
    }
    let keeps_alive = version == Version::HTTP_11 && !said.closes && !is_ambiguous;
    Ok(Parsed::Final(Answer { head, keeps_alive }, len))
}

/// What the service says of a status, if that is not what everybody says.
fn own_phrase(status: StatusCode, reason: Option<&str>) -> Option<ReasonPhrase> {
    let reason = reason.filter(|said| !said.is_empty() && Some(*said) != status.canonical_reason());
    ReasonPhrase::try_from(reason?.as_bytes()).ok()
}

/// Returns the fields that were found in `read` as slices of one copy of it.
pub(super) fn headers(
    read: &[u8],
    fields: &[Header<'_>],
    mut hear: impl FnMut(&HeaderName, &[u8]),
) -> Result<HeaderMap, Cause> {
    let copy = Bytes::copy_from_slice(read);
    let mut headers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let name = name.map_err(|_| Cause::Garbled("a field has no name"))?;
        hear(&name, field.value);
        let value = HeaderValue::from_maybe_shared(same_part(&copy, read, field.value));
        let value = value.map_err(|_| Cause::Garbled("a field has no valid value"))?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// Returns of `copy` what `part` is of `whole`.
fn same_part(copy: &Bytes, whole: &[u8], part: &[u8]) -> Bytes {
    if part.is_empty() {
        return Bytes::new();
    }
    let at = part.as_ptr().addr() - whole.as_ptr().addr();
    copy.slice(at..at + part.len())
}

/// What is wrong with a head.
pub(super) fn garbled(error: httparse::Error) -> Cause {
    Cause::Garbled(match error {
        httparse::Error::HeaderName => "a field has no valid name",
        httparse::Error::HeaderValue => "a field has no valid value",
        httparse::Error::NewLine => "a line has no valid end",
        httparse::Error::Status => "there is no valid status",
        httparse::Error::Token => "there is no valid token",
        httparse::Error::TooManyHeaders => "it has too many fields",
        httparse::Error::Version => "it is not HTTP/1.1",
    })
}

// === impl Said ===

impl Said {
    fn hear(&mut self, name: &HeaderName, value: &[u8]) {
        match *name {
            header::CONTENT_LENGTH => {
                for said in list(value) {
                    self.length = Some(Length::both(self.length, said));
                }
            }
            header::TRANSFER_ENCODING => {
                let last = list(value).next_back();
                self.is_chunked = last.map(|last| last.eq_ignore_ascii_case(b"chunked"));
            }
            header::CONNECTION => {
                self.closes |= list(value).any(|option| option.eq_ignore_ascii_case(b"close"));
            }
            _ => {}
        }
    }

    /// How the body ends, if there may be one.
    fn body(&self, version: Version) -> Result<Decoder, Cause> {
        match (self.is_chunked, self.length) {
            (Some(_), _) if version != Version::HTTP_11 => {
                Err(Cause::Garbled("HTTP/1.0 has no transfer codings"))
            }
            (Some(true), _) => Ok(Decoder::chunked()),
            (Some(false), _) | (None, None) => Ok(Decoder::UntilClose),
            (None, Some(Length::Of(length))) => Ok(Decoder::length(length)),
            (None, Some(Length::Invalid)) => Err(Cause::Garbled("its length is ambiguous")),
        }
    }
}

// === impl Length ===

impl Length {
    /// Returns what `said` says, if it agrees with all that was said `before`.
    fn both(before: Option<Self>, said: &[u8]) -> Self {
        let number = said.iter().try_fold(0_u64, |number, digit| {
            let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
            number.checked_mul(10)?.checked_add(digit)
        });
        // One that a signed number does not hold is negative to somebody.
        let number = number.filter(|number| i64::try_from(*number).is_ok());
        match number.filter(|_| !said.is_empty()).map(Self::Of) {
            Some(length) if before.is_none_or(|before| before == length) => length,
            _ => Self::Invalid,
        }
    }
}

/// The members of a list, without the space around them.
fn list(value: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn final_of(text: &str) -> Answer {
        match parse(text.as_bytes(), false).unwrap() {
            Parsed::Final(answer, len) if len == text.len() => answer,
            other => panic!("{other:?}"),
        }
    }

    fn body_of(fields: &str) -> Result<Decoder, Cause> {
        let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        match parse(text.as_bytes(), false)? {
            Parsed::Final(answer, _) => Ok(answer.head.into_body()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn fields_keep_their_bytes_and_their_order() {
        let answer = final_of("HTTP/1.1 404 Away\r\nX-B: 1\r\nx-a:\r\nx-b:  a b \r\n\r\n");
        assert_eq!(answer.head.status(), StatusCode::NOT_FOUND);
        assert_eq!(answer.head.version(), Version::HTTP_11);
        let headers = answer.head.headers();
        let all: Vec<_> = headers.get_all("x-b").iter().collect();
        assert_eq!(all, ["1", "a b"]);
        assert_eq!(headers["x-a"], "");
        assert!(answer.keeps_alive);
    }

    #[test]
    fn a_length_beside_a_coding_goes_and_ends_the_connection() {
        for length in ["5", "0", "abc"] {
            let fields = format!("transfer-encoding: chunked\r\ncontent-length: {length}\r\n");
            let answer = final_of(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
            assert!(!answer.head.headers().contains_key(header::CONTENT_LENGTH));
            assert_eq!(*answer.head.body(), Decoder::chunked());
            assert!(!answer.keeps_alive);
        }
    }

    #[test]
    fn a_phrase_of_its_own_goes_on_with_the_status() {
        for (line, phrase) in [
            ("404 Gone Fishing", Some(&b"Gone Fishing"[..])),
            ("404 Not Found", None),
            ("404 ", None),
        ] {
            let answer = final_of(&format!("HTTP/1.1 {line}\r\n\r\n"));
            let said = answer.head.extensions().get::<ReasonPhrase>();
            assert_eq!(said.map(ReasonPhrase::as_bytes), phrase, "{line}");
        }
    }

    #[test]
    fn the_body_ends_where_the_fields_say() {
        for (fields, expected) in [
            ("content-length: 7\r\n", Decoder::length(7)),
            (
                "content-length: 7\r\ncontent-length: 7, 7\r\n",
                Decoder::length(7),
            ),
            ("content-length: 0\r\n", Decoder::Done),
            ("transfer-encoding: Chunked\r\n", Decoder::chunked()),
            ("transfer-encoding: gzip, chunked\r\n", Decoder::chunked()),
            (
                "content-length: 7\r\ntransfer-encoding: chunked\r\n",
                Decoder::chunked(),
            ),
            ("transfer-encoding: gzip\r\n", Decoder::UntilClose),
            ("transfer-encoding: chunked, gzip\r\n", Decoder::UntilClose),
            ("", Decoder::UntilClose),
        ] {
            assert_eq!(body_of(fields).unwrap(), expected, "{fields}");
        }
    }

    #[test]
    fn a_length_that_is_none_or_contradicts_itself_is_refused() {
        for length in [
            "",
            "-1",
            "+1",
            "1 2",
            "0x1",
            "1,",
            "1, 2",
            "18446744073709551616",
        ] {
            let fields = format!("content-length: {length}\r\n");
            assert!(body_of(&fields).is_err(), "{length}");
        }
        assert!(body_of("content-length: 2\r\ncontent-length: 1\r\n").is_err());
        assert!(body_of("content-length: x\r\ncontent-length: 1\r\n").is_err());
    }

    #[test]
    fn some_answers_have_no_body_whatever_they_say() {
        let fields = "content-length: 7\r\n\r\n";
        for status in [101, 204, 304] {
            let answer = final_of(&format!("HTTP/1.1 {status} X\r\n{fields}"));
            assert_eq!(*answer.head.body(), Decoder::Done);
        }
        let text = format!("HTTP/1.1 200 OK\r\n{fields}");
        let Parsed::Final(answer, _) = parse(text.as_bytes(), true).unwrap() else {
            panic!("it is whole");
        };
        assert_eq!(*answer.head.body(), Decoder::Done);
    }

    #[test]
    fn a_close_in_any_line_counts_and_http_1_0_always_closes() {
        for (head, keeps_alive) in [
            ("HTTP/1.1 200 OK\r\nconnection: keep-alive\r\n\r\n", true),
            (
                "HTTP/1.1 200 OK\r\nconnection: x, Close\r\nconnection: keep-alive\r\n\r\n",
                false,
            ),
            ("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n\r\n", false),
        ] {
            assert_eq!(final_of(head).keeps_alive, keeps_alive, "{head}");
        }
        assert_eq!(
            final_of("HTTP/1.0 200 OK\r\n\r\n").head.version(),
            Version::HTTP_10
        );
        let coded = "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        assert!(parse(coded.as_bytes(), false).is_err());
    }

    #[test]
    fn a_head_has_a_hundred_fields_and_so_many_bytes_at_most() {
        let of = |fields: usize| format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(fields));
        assert!(parse(of(FIELDS_MAX).as_bytes(), false).is_ok());
        assert!(parse(of(FIELDS_MAX + 1).as_bytes(), false).is_err());

        let endless = format!("HTTP/1.1 200 OK\r\na: {}", "b".repeat(HEAD_MAX));
        let partial = parse(&endless.as_bytes()[..HEAD_MAX - 1], false).unwrap();
        assert!(matches!(partial, Parsed::Partial));
        assert!(parse(endless.as_bytes(), false).is_err());
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for text in [
            "SSH-2.0-OpenSSH_9.6\r\n",
            "HTTP/2 200 OK\r\n\r\n",
            "HTTP/1.1 999999 OK\r\n\r\n",
            "HTTP/1.1 099 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\na b: c\r\n\r\n",
            "HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n",
            "HTTP/1.1 200 OK\r\na: b\0\r\n\r\n",
        ] {
            assert!(parse(text.as_bytes(), false).is_err(), "{text}");
        }
    }

    #[test]
    fn an_informational_head_is_only_counted() {
        let text = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1";
        let parsed = parse(text, false).unwrap();
        assert!(matches!(parsed, Parsed::Informational(len) if len == text.len() - 8));
    }
}
