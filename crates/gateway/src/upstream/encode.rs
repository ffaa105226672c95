//! Encoding: how requests look on the wire.

use http::{Request, Uri, header};

use super::outbound::Framing;
use crate::http1::encode::{chunked, content_length, line};

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
        Framing::Length(length) => content_length(out, length),
        Framing::Chunked => chunked(out),
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes the path and the query, or the asterisk.
fn target(out: &mut Vec<u8>, uri: &Uri) {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    if !target.starts_with(['/', '*']) {
        out.push(b'/');
    }
    out.extend_from_slice(target.as_bytes());
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
}
