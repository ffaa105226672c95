//! Heads of answers: what the service says before the body, and how the body ends.

use std::mem::MaybeUninit;

use http::header::{self, HeaderName};
use http::{Response, StatusCode, Version};
use httparse::{ParserConfig, Status};
use hyper::ext::ReasonPhrase;

use super::decoder::Decoder;
use super::error::Cause;
use crate::http1::lengths::Lengths;
use crate::http1::lines::{BadLine, Source, has_word, list};

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
    lengths: Lengths,
    closes: bool,
}

/// The most fields of a head, or of trailers.
pub(super) const FIELDS_MAX: usize = 100;

/// The longest head, in bytes. What services say in many cookies and policies is far less: nginx
/// takes 4 or 8 KiB of them by default. All of it is held while it comes.
pub(super) const HEAD_MAX: usize = 64 << 10;

/// Reads the head that `read` begins with: of the answer to a HEAD if `to_head`.
pub(super) fn parse(read: &[u8], to_head: bool) -> Result<Parsed, Cause> {
    // The parser would pass over empty lines, and over all of them again for every byte behind.
    if matches!(read, [b'\r' | b'\n', ..]) {
        return Err(Cause::Garbled("an empty line stands before it"));
    }
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut []);
    let len = match ParserConfig::default()
        .parse_response_with_uninit_headers(&mut head, read, &mut fields)
        .map_err(garbled)?
    {
        Status::Complete(len) if len <= HEAD_MAX => len,
        Status::Partial if read.len() < HEAD_MAX => return Ok(Parsed::Partial),
        _ => return Err(Cause::Garbled("its head is too long")),
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
    let source = Source::new(&read[..len]);
    let mut headers = source.headers(head.headers, |name, value| said.hear(name, value))?;
    let has_body = !to_head
        && !status.is_informational()
        && status != StatusCode::NO_CONTENT
        && status != StatusCode::NOT_MODIFIED;
    let body = match has_body {
        true => said.body(version)?,
        false => Decoder::done(),
    };
    // A coding overrides a length. Whoever reads on goes by what is left, and must not find one
    // that cuts the body short.
    if has_body && said.lengths.codings > 0 {
        headers.remove(header::CONTENT_LENGTH);
    }
    let keeps_alive = version == Version::HTTP_11 && !said.closes && !said.is_ambiguous(status);
    let mut head = Response::new(body);
    *head.status_mut() = status;
    *head.version_mut() = version;
    *head.headers_mut() = headers;
    // A phrase of the service's own goes on to callers that speak HTTP/1.
    if let Some(phrase) = own_phrase(status, reason) {
        head.extensions_mut().insert(phrase);
    }
    Ok(Parsed::Final(Answer { head, keeps_alive }, len))
}

/// What the service says of a status, if that is not what everybody says.
fn own_phrase(status: StatusCode, reason: Option<&str>) -> Option<ReasonPhrase> {
    let reason = reason.filter(|said| !said.is_empty() && Some(*said) != status.canonical_reason());
    ReasonPhrase::try_from(reason?.as_bytes()).ok()
}

/// What is wrong with a head.
fn garbled(error: httparse::Error) -> Cause {
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

impl From<BadLine> for Cause {
    fn from(line: BadLine) -> Self {
        Self::Garbled(match line {
            BadLine::Name => "a field has no valid name",
            BadLine::Value => "a field has no valid value",
            BadLine::TooMany => "it has too many fields",
        })
    }
}

// === impl Said ===

impl Said {
    fn hear(&mut self, name: &HeaderName, value: &[u8]) {
        match *name {
            // What repeats itself in one line is as good as several lines.
            header::CONTENT_LENGTH => list(value).for_each(|one| self.lengths.note_length(one)),
            header::TRANSFER_ENCODING => self.lengths.note_coding(value),
            header::CONNECTION => self.closes |= has_word(value, b"close"),
            _ => {}
        }
    }

    /// How the body ends, if there may be one.
    fn body(&self, version: Version) -> Result<Decoder, Cause> {
        let said = &self.lengths;
        match (said.codings, said.lengths) {
            (0, 0) => Ok(Decoder::UntilClose),
            (0, _) => {
                let length = said.length.map(Decoder::length);
                length.ok_or(Cause::Garbled("its length is ambiguous"))
            }
            _ if version != Version::HTTP_11 => {
                Err(Cause::Garbled("HTTP/1.0 has no transfer codings"))
            }
            (1, _) if said.is_chunked => Ok(Decoder::chunked()),
            // Nobody asked for another one, and whoever passes it on would have to undo it.
            _ => Err(Cause::Garbled("its transfer coding is not one chunked")),
        }
    }

    /// Whether two readers could disagree on where the answer ends: what comes next on the
    /// connection may not be the next answer to both.
    fn is_ambiguous(&self, status: StatusCode) -> bool {
        let said = &self.lengths;
        let says_body = said.codings > 0 || said.lengths > 0 && said.length != Some(0);
        let is_odd = said.codings > 0 && !said.is_chunked;
        let is_contradicted = status == StatusCode::NO_CONTENT && says_body;
        said.lengths + said.codings > 1 || is_odd || is_contradicted
    }
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
            ("content-length: 0\r\n", Decoder::done()),
            ("transfer-encoding: Chunked\r\n", Decoder::chunked()),
            (
                "content-length: 7\r\ntransfer-encoding: chunked\r\n",
                Decoder::chunked(),
            ),
            ("", Decoder::UntilClose),
        ] {
            assert_eq!(body_of(fields).unwrap(), expected, "{fields}");
        }
    }

    #[test]
    fn a_coding_is_one_chunked_and_nothing_else() {
        for fields in [
            "transfer-encoding: gzip\r\n",
            "transfer-encoding: gzip, chunked\r\n",
            "transfer-encoding: chunked, gzip\r\n",
            "transfer-encoding: chunked, chunked\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: identity\r\n",
            "transfer-encoding:\r\n",
            "transfer-encoding: gzip\r\ncontent-length: 7\r\n",
        ] {
            let error = body_of(fields).unwrap_err();
            assert!(error.to_string().contains("coding"), "{fields}: {error}");
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
            assert_eq!(*answer.head.body(), Decoder::done());
        }
        let text = format!("HTTP/1.1 200 OK\r\n{fields}");
        let Parsed::Final(answer, _) = parse(text.as_bytes(), true).unwrap() else {
            panic!("it is whole");
        };
        assert_eq!(*answer.head.body(), Decoder::done());
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
        let whole = |len: usize| format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "b".repeat(len - 24));
        assert!(parse(whole(HEAD_MAX).as_bytes(), false).is_ok());
        assert!(parse(whole(HEAD_MAX + 1).as_bytes(), false).is_err());
    }

    #[test]
    fn an_answer_whose_end_others_could_see_elsewhere_ends_the_connection() {
        for (status, fields, keeps_alive) in [
            (200, "content-length: 3\r\n", true),
            (200, "transfer-encoding: Chunked\r\n", true),
            (200, "content-length: 3\r\ncontent-length: 3\r\n", false),
            (200, "content-length: 3, 3\r\n", false),
            (304, "content-length: 3\r\n", true),
            (304, "transfer-encoding: gzip\r\n", false),
            (204, "content-length: 0\r\n", true),
            (204, "content-length: 2\r\n", false),
            (204, "transfer-encoding: chunked\r\n", false),
        ] {
            let answer = final_of(&format!("HTTP/1.1 {status} X\r\n{fields}\r\n"));
            assert_eq!(answer.keeps_alive, keeps_alive, "{status} {fields}");
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for text in [
            "SSH-2.0-OpenSSH_9.6\r\n",
            "\r\nHTTP/1.1 200 OK\r\n\r\n",
            "\n",
            "\r",
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
