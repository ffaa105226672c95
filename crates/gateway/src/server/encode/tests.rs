use bytes::Bytes;
use http::{HeaderValue, Response};

use super::*;

const CALLER: Caller = Caller {
    is_http11: true,
    is_head: false,
    keeps: true,
    takes_trailers: true,
};

fn parts(status: u16, lines: &[(&'static str, &'static str)]) -> Parts {
    let mut parts = Response::new(()).into_parts().0;
    parts.status = StatusCode::from_u16(status).unwrap();
    for (name, value) in lines {
        let value = HeaderValue::from_static(value);
        parts.headers.append(HeaderName::from_static(name), value);
    }
    parts
}

/// The head as text, without its date, and the plan.
fn written(parts: &Parts, length: Option<u64>, caller: Caller) -> (String, Plan) {
    let mut out = Vec::new();
    let plan = head(&mut out, parts, length, caller, false).unwrap();
    let text = String::from_utf8(out).unwrap();
    let dates = text.matches("date: ").count();
    assert_eq!(dates, 1, "{text}");
    let lines = text.lines().filter(|line| !line.starts_with("date: "));
    (lines.collect::<Vec<_>>().join("|"), plan)
}

fn kept(framing: Framing) -> Plan {
    Plan {
        framing,
        closes: false,
    }
}

fn closed(framing: Framing) -> Plan {
    Plan {
        framing,
        closes: true,
    }
}

#[test]
fn an_answer_whose_length_is_known_says_it() {
    let (text, plan) = written(&parts(200, &[("x", "y")]), Some(5), CALLER);
    assert_eq!(text, "HTTP/1.1 200 OK|x: y|content-length: 5|");
    assert_eq!(plan, kept(Framing::Sized(5)));
    let (text, plan) = written(&parts(404, &[]), Some(0), CALLER);
    assert_eq!(text, "HTTP/1.1 404 Not Found|content-length: 0|");
    assert_eq!(plan, kept(Framing::Nothing));
    // What the content is counts more than what is said of it.
    let said = parts(200, &[("content-length", "7")]);
    let (text, _) = written(&said, Some(18_446_744_073_709_551_615), CALLER);
    assert!(
        text.contains("content-length: 18446744073709551615|"),
        "{text}"
    );
    let (text, plan) = written(&said, None, CALLER);
    assert_eq!(text, "HTTP/1.1 200 OK|content-length: 7|");
    assert_eq!(plan, kept(Framing::Sized(7)));
}

#[test]
fn an_answer_whose_length_is_not_known_comes_in_chunks_or_until_the_end() {
    let (text, plan) = written(&parts(200, &[("transfer-encoding", "gzip")]), None, CALLER);
    assert_eq!(text, "HTTP/1.1 200 OK|transfer-encoding: chunked|");
    assert_eq!(plan, kept(Framing::Chunked(Vec::new())));
    let old = Caller {
        is_http11: false,
        ..CALLER
    };
    let (text, plan) = written(&parts(200, &[("trailer", "x")]), None, old);
    assert_eq!(text, "HTTP/1.0 200 OK|");
    assert_eq!(plan, closed(Framing::UntilClose));
}

#[test]
fn what_has_no_content_says_no_length_that_it_does_not_have() {
    for status in [204, 304] {
        let (text, plan) = written(&parts(status, &[("content-length", "7")]), Some(7), CALLER);
        assert!(!text.contains("content-length"), "{text}");
        assert_eq!(plan, kept(Framing::Nothing));
    }
    let to_head = Caller {
        is_head: true,
        ..CALLER
    };
    let said = parts(200, &[("content-length", "7")]);
    for (parts, length, line) in [
        (&said, Some(0), "content-length: 7|"),
        (&said, None, "content-length: 7|"),
        (&parts(200, &[]), Some(9), "content-length: 9|"),
        (&parts(200, &[]), Some(0), ""),
        (&parts(200, &[]), None, ""),
    ] {
        let (text, plan) = written(parts, length, to_head);
        assert_eq!(text, format!("HTTP/1.1 200 OK|{line}"));
        assert_eq!(plan, kept(Framing::Nothing));
    }
}

#[test]
fn what_becomes_of_the_connection_is_said_where_it_is_not_understood() {
    let (leaves, old) = (
        Caller {
            keeps: false,
            ..CALLER
        },
        Caller {
            is_http11: false,
            ..CALLER
        },
    );
    let gone = Caller {
        keeps: false,
        ..old
    };
    let silent = parts(200, &[]);
    let close = parts(200, &[("connection", "x"), ("connection", "close")]);
    for (parts, caller, line, closes) in [
        (&silent, CALLER, "", false),
        (&silent, leaves, "connection: close|", true),
        (&silent, old, "connection: keep-alive|", false),
        (&silent, gone, "", true),
        (&close, CALLER, "connection: x, close|", true),
    ] {
        let (text, plan) = written(parts, Some(0), caller);
        let version = if caller.is_http11 { "1.1" } else { "1.0" };
        let wanted = format!("HTTP/{version} 200 OK|content-length: 0|{line}");
        assert_eq!((text, plan.closes), (wanted, closes));
    }
}

#[test]
fn a_switch_is_the_last_answer_and_has_no_framing() {
    let lines = [("connection", "upgrade"), ("upgrade", "x")];
    let (text, plan) = written(&parts(101, &lines), Some(0), CALLER);
    assert_eq!(
        text,
        "HTTP/1.1 101 Switching Protocols|upgrade: x|connection: upgrade|"
    );
    assert_eq!(plan, closed(Framing::Nothing));
}

#[test]
fn what_cannot_be_an_answer_is_none() {
    let mut out = Vec::new();
    let length = parts(200, &[("content-length", "7"), ("content-length", "8")]);
    assert!(head(&mut out, &length, None, CALLER, false).is_err());
    for status in [100, 103] {
        assert!(head(&mut out, &parts(status, &[]), Some(0), CALLER, false).is_err());
    }
}

#[test]
fn a_date_and_a_reason_that_are_given_are_kept() {
    let mut parts = parts(200, &[("date", "yesterday")]);
    let reason = ReasonPhrase::try_from(Bytes::from_static(b"Fine")).unwrap();
    parts.extensions.insert(reason);
    let mut out = Vec::new();
    head(&mut out, &parts, Some(0), CALLER, false).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(
        text,
        "HTTP/1.1 200 Fine\r\ndate: yesterday\r\ncontent-length: 0\r\n\r\n"
    );
}

#[test]
fn trailers_are_announced_to_everybody_and_sent_to_whoever_takes_them() {
    let lines = [("trailer", "X-Sum, Host"), ("trailer", "y")];
    let (text, plan) = written(&parts(200, &lines), None, CALLER);
    assert!(text.contains("trailer: X-Sum, Host|trailer: y|"), "{text}");
    let names = ["x-sum", "host", "y"].map(HeaderName::from_static);
    assert_eq!(plan, kept(Framing::Chunked(names.to_vec())));

    let deaf = Caller {
        takes_trailers: false,
        ..CALLER
    };
    let (text, plan) = written(&parts(200, &lines), None, deaf);
    assert!(text.contains("trailer: X-Sum, Host|trailer: y|"), "{text}");
    assert_eq!(plan, kept(Framing::Chunked(Vec::new())));
}
