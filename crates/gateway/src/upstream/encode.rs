//! Encoding: how requests look on the wire.

use http::header::{self, HeaderName};
use http::{HeaderMap, Request, Uri};

use super::outbound::Framing;

/// What ends the data of a chunk.
pub(super) const CHUNK_END: &[u8] = b"\r\n";

/// What follows the last chunk if there are no trailers.
pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// What ends the data of a chunk that is the last, if there are no trailers.
pub(super) const LAST_CHUNK_END: &[u8] = b"\r\n0\r\n\r\n";

/// Writes the head of a request, whose body is framed by `framing` and by nothing else.
pub(super) fn head<B>(out: &mut Vec<u8>, request: &Request<B>, framing: Framing) {
    out.extend_from_slice(request.method().as_str().as_bytes());
    out.push(b' ');
    target(out, request.uri());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in request.headers() {
        if *name != header::CONTENT_LENGTH && *name != header::TRANSFER_ENCODING {
            line(out, name, value.as_bytes());
        }
    }
    match framing {
        Framing::Bodiless => {}
        Framing::Length(length) => {
            out.extend_from_slice(b"content-length: ");
            number(out, length, 10);
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes what comes before the data of a chunk.
pub(super) fn chunk_size(out: &mut Vec<u8>, len: usize) {
    number(out, len as u64, 16);
    out.extend_from_slice(b"\r\n");
}

/// Writes the end of a chunked body, with those trailers that were announced and may be any.
pub(super) fn trailers(out: &mut Vec<u8>, trailers: &HeaderMap, announced: &[HeaderName]) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in trailers {
        if announced.contains(name) && may_trail(name) {
            line(out, name, value.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The names of the trailers that a head announces.
pub(super) fn announced(headers: &HeaderMap) -> Vec<HeaderName> {
    let lines = headers.get_all(header::TRAILER).iter();
    lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .collect()
}

/// Whether a field means something where it comes too late for framing, routing or credentials.
fn may_trail(name: &HeaderName) -> bool {
    !matches!(
        *name,
        header::AUTHORIZATION
            | header::CACHE_CONTROL
            | header::CONTENT_ENCODING
            | header::CONTENT_LENGTH
            | header::CONTENT_RANGE
            | header::CONTENT_TYPE
            | header::HOST
            | header::MAX_FORWARDS
            | header::SET_COOKIE
            | header::TRAILER
            | header::TRANSFER_ENCODING
            | header::TE
    )
}

/// Writes the path and the query, or the asterisk.
fn target(out: &mut Vec<u8>, uri: &Uri) {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    if !target.starts_with(['/', '*']) {
        out.push(b'/');
    }
    out.extend_from_slice(target.as_bytes());
}

fn line(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Writes a number without the machinery of formatting, which costs more than all the rest.
fn number(out: &mut Vec<u8>, mut number: u64, radix: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b"0123456789ABCDEF"[(number % radix) as usize];
        number /= radix;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::uri::PathAndQuery;

    use super::*;

    fn encoded(request: &Request<()>, framing: Framing) -> String {
        let mut out = Vec::new();
        head(&mut out, request, framing);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_length_stands_once_whatever_the_request_says() {
        let request = Request::post("/pay?a=b")
            .header("host", "upstream")
            .header("content-length", "50")
            .header("transfer-encoding", "gzip")
            .header("x-a", "1")
            .header("x-a", "2")
            .body(())
            .unwrap();
        let lines = "POST /pay?a=b HTTP/1.1\r\nhost: upstream\r\nx-a: 1\r\nx-a: 2\r\n";
        for (framing, said) in [
            (Framing::Bodiless, ""),
            (Framing::Length(0), "content-length: 0\r\n"),
            (
                Framing::Length(u64::MAX),
                "content-length: 18446744073709551615\r\n",
            ),
            (Framing::Chunked, "transfer-encoding: chunked\r\n"),
        ] {
            assert_eq!(encoded(&request, framing), format!("{lines}{said}\r\n"));
        }
    }

    #[test]
    fn the_target_is_a_path_or_the_asterisk() {
        for (target, expected) in [("*", "*"), ("/", "/"), ("?b=c", "/?b=c"), ("/a?", "/a?")] {
            let uri = Uri::from(PathAndQuery::from_static(target));
            let request = Request::options(uri).body(()).unwrap();
            let said = encoded(&request, Framing::Bodiless);
            assert_eq!(said, format!("OPTIONS {expected} HTTP/1.1\r\n\r\n"));
        }
        assert!(encoded(&Request::new(()), Framing::Bodiless).starts_with("GET / "));
    }

    #[test]
    fn values_that_are_no_text_go_out_as_they_are() {
        let mut request = Request::new(());
        let value = HeaderValue::from_bytes(b"\xe4\xff").unwrap();
        request.headers_mut().insert("x-name", value);
        let mut out = Vec::new();
        head(&mut out, &request, Framing::Bodiless);
        assert_eq!(out, b"GET / HTTP/1.1\r\nx-name: \xe4\xff\r\n\r\n");
    }

    #[test]
    fn only_announced_trailers_go_out_and_none_that_frame() {
        let mut headers = HeaderMap::new();
        let names = HeaderValue::from_static("X-Sum, content-length,, x-not-there");
        headers.insert("trailer", names);
        let mut after = HeaderMap::new();
        for name in ["x-sum", "x-secret", "content-length"] {
            after.insert(name, HeaderValue::from_static("7"));
        }
        let mut out = Vec::new();
        trailers(&mut out, &after, &announced(&headers));
        assert_eq!(out, b"0\r\nx-sum: 7\r\n\r\n");
    }

    #[test]
    fn the_size_of_a_chunk_is_hexadecimal() {
        let mut out = Vec::new();
        chunk_size(&mut out, 0x2f0a);
        assert_eq!(out, b"2F0A\r\n");
    }
}
