//! The cases, by what they are about.

use super::Expected::{Marked, One, Refused};
use super::{Case, Conflict};

/// A request with these lines after `Host`, and what follows its head.
pub(super) fn post(lines: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n{body}")
}

fn chunked(body: &str) -> String {
    post("Transfer-Encoding: chunked\r\n", body)
}

/// A request with this line in place of `POST / HTTP/1.1`.
pub(super) fn line(line: &str) -> String {
    format!("{line}\r\nHost: a\r\n\r\n")
}

fn host(lines: &str) -> String {
    format!("GET / HTTP/1.1\r\n{lines}\r\n")
}

pub(super) fn lengths() -> Vec<Case> {
    const CHUNKS: &str = "5\r\nhello\r\n0\r\n\r\n";
    let both = Conflict::BothLengths;
    let repeated = Conflict::RepeatedLength;
    vec![
        (
            "plain",
            post("Content-Length: 5\r\n", "hello"),
            One("hello"),
        ),
        ("chunks", chunked(CHUNKS), One("hello")),
        (
            "CL then TE",
            post(
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                CHUNKS,
            ),
            Marked(both),
        ),
        (
            "TE then CL",
            post(
                "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                CHUNKS,
            ),
            Marked(both),
        ),
        (
            "TE then bad CL",
            post("Transfer-Encoding: chunked\r\ncontent-LENGTH:x\r\n", CHUNKS),
            Marked(both),
        ),
        (
            "CL 0 and TE",
            post(
                "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
                CHUNKS,
            ),
            Marked(both),
        ),
        (
            "equal CL twice",
            post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"),
            Marked(repeated),
        ),
        (
            "different CL",
            post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"),
            Refused,
        ),
        (
            "CL list",
            post("Content-Length: 5, 5\r\n", "hello"),
            Refused,
        ),
        (
            "CL with sign",
            post("Content-Length: +5\r\n", "hello"),
            Refused,
        ),
        (
            "CL negative",
            post("Content-Length: -5\r\n", "hello"),
            Refused,
        ),
        (
            "CL with blanks",
            post("Content-Length:   5  \r\n", "hello"),
            One("hello"),
        ),
        (
            "CL with zeros",
            post("Content-Length: 005\r\n", "hello"),
            One("hello"),
        ),
        (
            "CL in hex",
            post("Content-Length: 0x5\r\n", "hello"),
            Refused,
        ),
        ("CL empty", post("Content-Length:\r\n", "hello"), Refused),
        (
            "CL too large",
            post("Content-Length: 99999999999999999999\r\n", "hello"),
            Refused,
        ),
        (
            "CL that is negative to somebody",
            post("Content-Length: 9223372036854775808\r\n", "hello"),
            Refused,
        ),
        (
            "CL behind many blanks",
            post(&format!("Content-Length:{}5\r\n", " ".repeat(500)), "hello"),
            One("hello"),
        ),
        (
            "TE identity",
            post("Transfer-Encoding: identity\r\n", CHUNKS),
            Refused,
        ),
        (
            "TE gzip",
            post("Transfer-Encoding: gzip\r\n", CHUNKS),
            Refused,
        ),
        (
            "TE gzip, chunked",
            post("Transfer-Encoding: gzip, chunked\r\n", CHUNKS),
            Marked(Conflict::Coding),
        ),
        (
            "TE chunked, chunked",
            post("Transfer-Encoding: chunked, chunked\r\n", CHUNKS),
            Marked(Conflict::Coding),
        ),
        (
            "TE chunked twice",
            post(
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                CHUNKS,
            ),
            Marked(Conflict::Coding),
        ),
        (
            "TE gzip and chunked",
            post(
                "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
                CHUNKS,
            ),
            Marked(Conflict::Coding),
        ),
        (
            "TE chunked, identity",
            post("Transfer-Encoding: chunked, identity\r\n", CHUNKS),
            Refused,
        ),
        (
            "TE xchunked",
            post("Transfer-Encoding: xchunked\r\n", CHUNKS),
            Refused,
        ),
        (
            "TE with vertical tab",
            post("Transfer-Encoding: \x0bchunked\r\n", CHUNKS),
            Refused,
        ),
        (
            "TE in capitals",
            post("Transfer-Encoding: CHUNKED\r\n", CHUNKS),
            One("hello"),
        ),
        (
            "TE in 1.0",
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".into(),
            Refused,
        ),
    ]
}

pub(super) fn chunks() -> Vec<Case> {
    let trailing = post(
        "Transfer-Encoding: chunked\r\n",
        "5\r\nhello\r\n0\r\nContent-Length: 3\r\n\r\n",
    );
    vec![
        ("trailer", trailing, One("hello")),
        (
            "extension",
            chunked("5;a=b\r\nhello\r\n0;c\r\n\r\n"),
            One("hello"),
        ),
        (
            "blank after size",
            chunked("5 \r\nhello\r\n0\r\n\r\n"),
            One("hello"),
        ),
        (
            "size overflow",
            chunked("10000000000000005\r\nhello\r\n0\r\n\r\n"),
            Refused,
        ),
        (
            "size at the border",
            chunked("ffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
            Refused,
        ),
        (
            "size negative",
            chunked("-5\r\nhello\r\n0\r\n\r\n"),
            Refused,
        ),
        (
            "size with 0x",
            chunked("0x5\r\nhello\r\n0\r\n\r\n"),
            Refused,
        ),
        ("size empty", chunked("\r\nhello\r\n0\r\n\r\n"), Refused),
        (
            "garbage after size",
            chunked("5 x\r\nhello\r\n0\r\n\r\n"),
            Refused,
        ),
        (
            "bare LF after size",
            chunked("5\nhello\r\n0\r\n\r\n"),
            Refused,
        ),
        (
            "LF in extension",
            chunked("5;a\nhello\r\n0\r\n\r\n"),
            Refused,
        ),
        ("chunk without end", chunked("5\r\nhello0\r\n\r\n"), Refused),
        (
            "bare LF after chunk",
            chunked("5\r\nhello\n0\r\n\r\n"),
            Refused,
        ),
        ("no final line end", chunked("5\r\nhello\r\n0\r\n"), Refused),
        (
            "huge extension",
            chunked(&format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(70_000))),
            Refused,
        ),
    ]
}

pub(super) fn heads() -> Vec<Case> {
    let bare = Conflict::BareLineFeed;
    vec![
        (
            "space before colon",
            post("Content-Length : 5\r\n", "hello"),
            Refused,
        ),
        (
            "folded line",
            post("X: a\r\n b\r\nContent-Length: 5\r\n", "hello"),
            Refused,
        ),
        (
            "folded coding",
            post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"),
            Refused,
        ),
        (
            "line begins with blank",
            post(" Content-Length: 5\r\n", "hello"),
            Refused,
        ),
        (
            "bare LF",
            post("X: y\nContent-Length: 5\r\n", "hello"),
            Marked(bare),
        ),
        (
            "all bare LF",
            "GET / HTTP/1.1\nHost: a\n\n".into(),
            Marked(bare),
        ),
        (
            "bare LF at the end",
            "GET / HTTP/1.1\r\nHost: a\r\n\n".into(),
            Marked(bare),
        ),
        (
            "bare CR in value",
            post("X: a\rContent-Length: 5\r\n", "hello"),
            Refused,
        ),
        (
            "bare CR before LF",
            post("X: a\r\r\nContent-Length: 5\r\n", "hello"),
            Refused,
        ),
        ("NUL in value", post("X: a\0b\r\n", ""), Refused),
        ("control in name", post("X\x01: a\r\n", ""), Refused),
        (
            "NUL in name",
            post("Content-Length\0: 5\r\n", "hello"),
            Refused,
        ),
        ("no colon", post("Content-Length 5\r\n", "hello"), Refused),
        ("empty name", post(": 5\r\n", ""), Refused),
        (
            "underscore is another name",
            post("Content_Length: 5\r\n", ""),
            One(""),
        ),
        (
            "leading line ends",
            format!("\r\n\r\n{}", post("Content-Length: 5\r\n", "hello")),
            One("hello"),
        ),
        (
            "upgrade to h2c",
            post(
                "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n",
                "",
            ),
            One(""),
        ),
    ]
}

pub(super) fn targets() -> Vec<Case> {
    let no_host = Conflict::Host;
    vec![
        ("tabs", line("GET\t/\tHTTP/1.1"), Refused),
        ("two blanks", line("GET  / HTTP/1.1"), Refused),
        ("blank in target", line("GET /a b HTTP/1.1"), Refused),
        ("no version", line("GET /"), Refused),
        ("small method", line("get / HTTP/1.1"), One("")),
        ("1.2", line("GET / HTTP/1.2"), Refused),
        ("2.0", line("GET / HTTP/2.0"), Refused),
        ("0.9", "GET /\r\n\r\n".into(), Refused),
        (
            "half a preface",
            "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".into(),
            Refused,
        ),
        (
            "long line",
            line(&format!("GET /{} HTTP/1.1", "a".repeat(100_000))),
            Refused,
        ),
        ("control in target", line("GET /\x01 HTTP/1.1"), Refused),
        (
            "CONNECT",
            line("CONNECT a:443 HTTP/1.1"),
            Marked(Conflict::Connect),
        ),
        (
            "host in place of a path",
            line("GET a HTTP/1.1"),
            Marked(Conflict::NoPath),
        ),
        (
            "host and port in place of a path",
            line("POST a:80 HTTP/1.1"),
            Marked(Conflict::NoPath),
        ),
        (
            "everything, but not for OPTIONS",
            line("POST * HTTP/1.1"),
            Marked(Conflict::NoPath),
        ),
        ("everything", line("OPTIONS * HTTP/1.1"), One("")),
        (
            "absolute without a path",
            line("GET http://a?b HTTP/1.1"),
            One(""),
        ),
        (
            "absolute, same host",
            line("GET http://a/ HTTP/1.1"),
            One(""),
        ),
        (
            "absolute, same host in capitals",
            line("GET http://A/ HTTP/1.1"),
            One(""),
        ),
        (
            "absolute, other host",
            line("GET http://b/ HTTP/1.1"),
            Marked(Conflict::Target),
        ),
        (
            "absolute, other port",
            line("GET http://a:81/ HTTP/1.1"),
            Marked(Conflict::Target),
        ),
        ("two hosts", host("Host: a\r\nHost: b\r\n"), Marked(no_host)),
        (
            "same host twice",
            host("Host: a\r\nHost: a\r\n"),
            Marked(no_host),
        ),
        ("no host", host(""), Marked(no_host)),
        ("no host in 1.0", "GET / HTTP/1.0\r\n\r\n".into(), One("")),
        ("empty host", host("Host:\r\n"), Marked(no_host)),
        ("host with path", host("Host: a/b\r\n"), Marked(no_host)),
        ("host with user", host("Host: u@a\r\n"), Marked(no_host)),
        ("host with blank", host("Host: a b\r\n"), Marked(no_host)),
        ("host list", host("Host: a, b\r\n"), Marked(no_host)),
        ("host with bad port", host("Host: a:x\r\n"), Marked(no_host)),
    ]
}
