//! Framing: where a request's body ends, and what could be read in two ways.
//!
//! A server behind us may read an unclear request in another way than we do, and then one request
//! becomes two. So nothing is guessed here: a request that could be read in two ways is marked
//! with a [`Conflict`], and what is no request at all is refused.

use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::uri::Authority;
use http::{Method, Version};
use onceward_http::problem::Problem;

use crate::http1::decode::Length;
use crate::http1::lengths::Lengths;

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

    /// A target that is no path, which one reads as nothing and another as `/`.
    #[error("the target must be a path")]
    NoPath,

    /// `CONNECT`, which makes a tunnel of the connection.
    #[error("CONNECT is not served")]
    Connect,

    /// The head has other lines than the ones that were found in it.
    #[error("the framing of the request is unclear")]
    Unclear,
}

/// Why something is no request that anybody could be asked to answer. The server answers it by
/// itself, and closes the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// It is not the head of a request, or nobody could find the end of the body.
    Malformed,
    HeadTooLarge,
    TargetTooLong,
}

/// Where the lines of a head end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lines {
    count: usize,
    has_bare_line_feed: bool,
}

/// Says in what way an HTTP/2 request could be misread, if it could.
pub(super) fn conflict(parts: &Parts) -> Option<Conflict> {
    if parts.method == Method::CONNECT {
        return Some(Conflict::Connect);
    }
    if parts.headers.get_all(CONTENT_LENGTH).iter().count() > 1 {
        return Some(Conflict::RepeatedLength);
    }
    target_conflict(parts).or_else(|| host_conflict(parts))
}

/// Says in what way an HTTP/1 request could be misread, if it could. `found` is how many header
/// lines were found in its `lines`.
pub(super) fn conflict_of_lines(
    parts: &Parts,
    lengths: &Lengths,
    lines: Lines,
    found: usize,
) -> Option<Conflict> {
    if parts.method == Method::CONNECT {
        return Some(Conflict::Connect);
    }
    // Beside them are the request line and the empty one.
    length_conflict(lengths)
        .or((lines.count != found + 2).then_some(Conflict::Unclear))
        .or(lines.has_bare_line_feed.then_some(Conflict::BareLineFeed))
        .or_else(|| target_conflict(parts))
        .or_else(|| host_conflict(parts))
}

/// How the end of the body is found, unless nobody could find it. Where there is a conflict as
/// well, nobody is to look for it.
pub(super) fn length(said: &Lengths, version: Version) -> Result<Length, Refusal> {
    match (said.codings, said.lengths) {
        (0, 0) => Ok(Length::Sized(0)),
        (0, _) => said.length.map(Length::Sized).ok_or(Refusal::Malformed),
        // HTTP/1.0 knows no codings, and behind one that is not the last nobody finds an end.
        _ if version == Version::HTTP_11 && said.ends_chunked => Ok(Length::Chunked),
        _ => Err(Refusal::Malformed),
    }
}

fn length_conflict(said: &Lengths) -> Option<Conflict> {
    match (said.codings, said.lengths) {
        (1.., 1..) => Some(Conflict::BothLengths),
        (0, 2..) => Some(Conflict::RepeatedLength),
        (1, 0) if said.is_chunked => None,
        (1.., 0) => Some(Conflict::Coding),
        (0, 0..=1) => None,
    }
}

/// Only `OPTIONS` may ask for everything, and only `CONNECT` for a host without a path.
fn target_conflict(parts: &Parts) -> Option<Conflict> {
    let path = parts.uri.path();
    let is_path = path.starts_with('/') || (path == "*" && parts.method == Method::OPTIONS);
    (!is_path).then_some(Conflict::NoPath)
}

fn host_conflict(parts: &Parts) -> Option<Conflict> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host,
        (None, _) => return (parts.version == Version::HTTP_11).then_some(Conflict::Host),
        (Some(_), Some(_)) => return Some(Conflict::Host),
    };
    let target = parts.uri.authority();
    if target.is_none() && is_plain_host(host.as_bytes()) {
        return None;
    }
    let host = Authority::try_from(host.as_bytes()).ok();
    let Some(host) = host.filter(is_host_and_port) else {
        return Some(Conflict::Host);
    };
    match target {
        Some(target) if *target != host => Some(Conflict::Target),
        _ => None,
    }
}

/// Whether `text` is a host at the first look, as nearly every one is: a name or an IPv4 address,
/// and perhaps a port. What is not is looked at closely.
fn is_plain_host(text: &[u8]) -> bool {
    let name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let len = text.iter().take_while(|byte| name(byte)).count();
    match text.split_at(len) {
        ([], _) => false,
        (_, []) => true,
        (_, [b':', port @ ..]) => {
            (1..=4).contains(&port.len()) && port.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    }
}

/// Whether nothing but a host and a number stands there: no user, no port in words.
fn is_host_and_port(authority: &Authority) -> bool {
    let (host, text) = (authority.host(), authority.as_str());
    let has_port = authority.port_u16().is_some() && !text.contains('@');
    !host.is_empty() && (text == host || has_port)
}

// === impl Refusal ===

impl Refusal {
    /// What the caller is told.
    pub(super) fn problem(self) -> Problem {
        match self {
            Self::Malformed => Problem::InvalidRequest("This is no HTTP request.".into()),
            Self::HeadTooLarge => Problem::HeadTooLarge,
            Self::TargetTooLong => Problem::TargetTooLong,
        }
    }
}

// === impl Lines ===

impl Lines {
    /// Counts the lines of a whole head.
    pub(super) fn of(head: &[u8]) -> Self {
        let (mut count, mut has_bare_line_feed) = (0, false);
        for end in memchr::memchr_iter(b'\n', head) {
            count += 1;
            has_bare_line_feed |= end == 0 || head[end - 1] != b'\r';
        }
        Self {
            count,
            has_bare_line_feed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(lengths: &[&str], codings: &[&str]) -> Lengths {
        let mut noted = Lengths::default();
        lengths
            .iter()
            .for_each(|it| noted.note_length(it.as_bytes()));
        codings
            .iter()
            .for_each(|it| noted.note_coding(it.as_bytes()));
        noted
    }

    fn read(noted: &Lengths) -> Option<(Length, Option<Conflict>)> {
        let length = length(noted, Version::HTTP_11).ok()?;
        Some((length, length_conflict(noted)))
    }

    #[test]
    fn a_length_is_a_number_and_stands_there_once() {
        assert_eq!(read(&lengths(&[], &[])), Some((Length::Sized(0), None)));
        assert_eq!(
            read(&lengths(&["005"], &[])),
            Some((Length::Sized(5), None))
        );
        let twice = Some((Length::Sized(5), Some(Conflict::RepeatedLength)));
        assert_eq!(read(&lengths(&["5", "5"], &[])), twice);
        for wrong in [
            "",
            "+5",
            "-5",
            "5, 5",
            "0x5",
            "5 5",
            "9223372036854775808",
            "99999999999999999999",
        ] {
            assert_eq!(read(&lengths(&[wrong], &[])), None, "{wrong}");
            assert_eq!(read(&lengths(&["5", wrong], &[])), None, "{wrong}");
            assert_eq!(read(&lengths(&[wrong, "5"], &[])), None, "{wrong}");
        }
        assert_eq!(read(&lengths(&["5", "6", "5"], &[])), None);
    }

    #[test]
    fn a_coding_is_chunked_and_nothing_else() {
        assert_eq!(
            read(&lengths(&[], &["CHUNKED"])),
            Some((Length::Chunked, None))
        );
        let coding = Some((Length::Chunked, Some(Conflict::Coding)));
        for unclear in [
            &["gzip, chunked"][..],
            &["chunked", "chunked"],
            &[",chunked"],
        ] {
            assert_eq!(read(&lengths(&[], unclear)), coding, "{unclear:?}");
        }
        for endless in [
            &["gzip"][..],
            &["chunked,"],
            &["chunked", "identity"],
            &["x"],
        ] {
            assert_eq!(read(&lengths(&[], endless)), None, "{endless:?}");
        }
        let old = length(&lengths(&[], &["chunked"]), Version::HTTP_10);
        assert_eq!(old, Err(Refusal::Malformed));
    }

    #[test]
    fn a_length_beside_a_coding_is_a_conflict_whatever_it_says() {
        for length in ["5", "0", "x"] {
            let both = Some((Length::Chunked, Some(Conflict::BothLengths)));
            assert_eq!(read(&lengths(&[length], &["chunked"])), both);
        }
    }

    #[test]
    fn a_line_feed_needs_its_carriage_return() {
        let lines = Lines::of(b"a\r\nb\r\n\r\n");
        assert_eq!((lines.count, lines.has_bare_line_feed), (3, false));
        for bare in ["\n", "a\nb\r\n", "a\r\n\n", "a\r\n \n"] {
            assert!(Lines::of(bare.as_bytes()).has_bare_line_feed, "{bare:?}");
        }
    }

    #[test]
    fn lines_that_were_not_found_are_unclear() {
        let request = http::Request::get("/")
            .header("host", "a")
            .body(())
            .unwrap();
        let (parts, ()) = request.into_parts();
        let lines = Lines::of(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let read = |found| conflict_of_lines(&parts, &Lengths::default(), lines, found);
        assert_eq!(read(1), None);
        assert_eq!(read(0), Some(Conflict::Unclear));
        assert_eq!(read(2), Some(Conflict::Unclear));
    }

    #[test]
    fn a_host_at_the_first_look_is_one_at_the_second() {
        for host in ["a", "a.b-c:1", "127.0.0.1:8080", "A:0", "-", "."] {
            assert!(is_plain_host(host.as_bytes()), "{host}");
            let authority = Authority::try_from(host).unwrap();
            assert!(is_host_and_port(&authority), "{host}");
        }
        for host in [
            "", "a:", ":1", "u@a", "a/b", "a b", "a:x", "[::1]", "a:99999",
        ] {
            assert!(!is_plain_host(host.as_bytes()), "{host}");
        }
    }

    fn http2(request: http::request::Builder) -> Option<Conflict> {
        let (parts, ()) = request
            .version(Version::HTTP_2)
            .body(())
            .unwrap()
            .into_parts();
        conflict(&parts)
    }

    #[test]
    fn http2_has_its_own_ways_to_be_read_twice() {
        let post = || http::Request::post("https://a/");
        assert_eq!(http2(post().header("content-length", "5")), None);
        assert_eq!(http2(post().header("host", "a")), None);
        let twice = post()
            .header("content-length", "5")
            .header("content-length", "5");
        assert_eq!(http2(twice), Some(Conflict::RepeatedLength));
        assert_eq!(http2(post().header("host", "b")), Some(Conflict::Target));
        let hosts = post().header("host", "a").header("host", "a");
        assert_eq!(http2(hosts), Some(Conflict::Host));
        let nothing = http::Uri::from_parts(http::uri::Parts::default()).unwrap();
        for nowhere in [nothing, "a".parse().unwrap(), "*".parse().unwrap()] {
            let request = http::Request::post(nowhere).header("host", "a");
            assert_eq!(http2(request), Some(Conflict::NoPath));
        }
        let connect = http::Request::builder()
            .method(Method::CONNECT)
            .uri("a:443");
        assert_eq!(http2(connect), Some(Conflict::Connect));
    }
}
