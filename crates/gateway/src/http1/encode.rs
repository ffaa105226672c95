//! Encoding: lines, numbers and chunks in bytes.
//!
//! Without the machinery of formatting, which costs more than all the rest of a head.

use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    COOKIE, FORWARDED, HOST, HeaderMap, HeaderName, MAX_FORWARDS, SET_COOKIE, TRAILER,
};
use onceward_http::headers::{strip_hop_by_hop, strip_ours};

/// What ends the data of a chunk.
pub(crate) const CHUNK_END: &[u8] = b"\r\n";

/// What ends the data of a chunk that is the last, if no trailers follow.
pub(crate) const LAST_CHUNK_BEHIND_ANOTHER: &[u8] = b"\r\n0\r\n\r\n";

/// Writes one header line.
pub(crate) fn line(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Writes the line that says how long the content is.
pub(crate) fn content_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"content-length: ");
    number::<10>(out, length);
    out.extend_from_slice(b"\r\n");
}

/// Writes the line that says that the content comes in chunks.
pub(crate) fn chunked(out: &mut Vec<u8>) {
    out.extend_from_slice(b"transfer-encoding: chunked\r\n");
}

/// Writes the size of a chunk that is `len` long.
pub(crate) fn chunk_size(out: &mut Vec<u8>, len: usize) {
    number::<16>(out, len as u64);
    out.extend_from_slice(b"\r\n");
}

/// Writes the end of what was sent in chunks, with those of the trailers that were announced and
/// that may stand there.
pub(crate) fn last_chunk(out: &mut Vec<u8>, trailers: Option<HeaderMap>, announced: &[HeaderName]) {
    out.extend_from_slice(b"0\r\n");
    if let Some(mut trailers) = trailers.filter(|_| !announced.is_empty()) {
        // Many peers merge them into the headers, so they go no further than headers do.
        strip_hop_by_hop(&mut trailers);
        strip_ours(&mut trailers);
        for (name, value) in &trailers {
            if announced.contains(name) && may_trail(name) {
                line(out, name, value.as_bytes());
            }
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The names of the trailers that a head announces. What is no name is none.
pub(crate) fn announced(headers: &HeaderMap) -> Vec<HeaderName> {
    let lines = headers.get_all(TRAILER).iter();
    let names = lines.flat_map(|line| super::lines::list(line.as_bytes()));
    names
        .filter_map(|name| HeaderName::from_bytes(name).ok())
        .collect()
}

/// Whether a field means something where it comes too late for framing, routing, credentials, for
/// keys, and for saying whom a request comes from. Fields of one connection are not asked about.
fn may_trail(name: &HeaderName) -> bool {
    let is_early = matches!(
        *name,
        AUTHORIZATION
            | CACHE_CONTROL
            | CONTENT_ENCODING
            | CONTENT_LENGTH
            | CONTENT_RANGE
            | CONTENT_TYPE
            | COOKIE
            | FORWARDED
            | HOST
            | MAX_FORWARDS
            | SET_COOKIE
    );
    let name = name.as_str();
    let is_key = matches!(name, "idempotency-key" | "x-idempotency-key" | "x-api-key");
    !is_early && !is_key && !name.starts_with("x-forwarded-")
}

/// Writes a number in decimal or in hex digits.
fn number<const RADIX: u64>(out: &mut Vec<u8>, mut number: u64) {
    let (mut digits, mut at) = ([0; 20], 20);
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdef"[(number % RADIX) as usize];
        number /= RADIX;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let lines = lines.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        lines.collect()
    }

    #[test]
    fn numbers_are_in_the_digits_that_everybody_reads() {
        for number in [0, 1, 9, 10, 15, 16, 255, 256, 0x1_2345, 1 << 31, u64::MAX] {
            let mut out = Vec::new();
            content_length(&mut out, number);
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text, format!("content-length: {number}\r\n"));
            let mut out = Vec::new();
            chunk_size(&mut out, number as usize);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{number:x}\r\n"));
        }
    }

    #[test]
    fn what_is_announced_are_names_whatever_else_stands_there() {
        let mut headers = headers(&[("trailer", "X-Sum, content-length,, a b")]);
        let odd = HeaderValue::from_bytes(b"\xff, y").unwrap();
        headers.append(TRAILER, odd);
        assert_eq!(announced(&headers), ["x-sum", "content-length", "y"]);
    }

    #[test]
    fn only_trailers_that_were_announced_and_may_be_there_are_sent() {
        let mut out = Vec::new();
        let trailers = headers(&[("x-sum", "1"), ("z", "3"), ("y", "2")]);
        let announced = ["x-sum", "y"].map(HeaderName::from_static);
        last_chunk(&mut out, Some(trailers.clone()), &announced);
        assert_eq!(out, b"0\r\nx-sum: 1\r\ny: 2\r\n\r\n");
        for none in [None, Some(trailers)] {
            out.clear();
            last_chunk(&mut out, none, &[]);
            assert_eq!(out, b"0\r\n\r\n");
        }
    }

    #[test]
    fn what_a_head_may_not_carry_on_does_not_trail_either() {
        for name in [
            "authorization",
            "connection",
            "content-length",
            "cookie",
            "forwarded",
            "host",
            "idempotency-attempt",
            "idempotency-fence",
            "idempotency-key",
            "idempotent-replayed",
            "keep-alive",
            "proxy-authorization",
            "set-cookie",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
            "x-api-key",
            "x-forwarded-for",
            "x-forwarded-host",
            "x-idempotency-key",
        ] {
            let mut out = Vec::new();
            let trailers = headers(&[(name, "7"), ("x-sum", "1")]);
            let announced = [name, "x-sum"].map(HeaderName::from_static);
            last_chunk(&mut out, Some(trailers), &announced);
            assert_eq!(out, b"0\r\nx-sum: 1\r\n\r\n", "{name}");
        }
    }
}
