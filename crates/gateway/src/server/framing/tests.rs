use proptest::prelude::*;

use super::*;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// The heads found in `bytes` when they come in pieces of `step`.
fn heads(bytes: &[u8], step: usize) -> Vec<Head> {
    let (mut scanner, mut heads) = (Scanner::new(), Vec::new());
    for piece in bytes.chunks(step) {
        scanner.feed(piece, |head| heads.push(head));
    }
    heads
}

#[test]
fn a_body_is_never_read_as_a_head() {
    let inner = "x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n";
    let sized = format!(
        "POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{inner}",
        inner.len()
    );
    let chunked = format!(
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{:x};ext=1\r\n{inner}\r\n0\r\nContent-Length: 9\r\n\r\n",
        inner.len()
    );
    let all = [sized.as_bytes(), chunked.as_bytes(), GET].concat();
    for step in 1..all.len() {
        let heads = heads(&all, step);
        assert_eq!(heads.len(), 3, "in steps of {step}");
        assert_eq!((heads[0].lengths, heads[0].codings), (1, 0));
        assert_eq!((heads[1].lengths, heads[1].codings), (0, 1));
        assert_eq!((heads[2].lengths, heads[2].codings), (0, 0));
    }
}

#[test]
fn lines_are_counted_whatever_their_case_and_wherever_they_are_cut() {
    let head = b"\r\n\r\nPOST / HTTP/1.1\r\ncOntent-Length: 3\r\nX: content-length: 1\r\nCONTENT-LENGTH:\t3 \r\nTransfer-encoding: chunked\n\r\n";
    for step in 1..head.len() {
        let heads = heads(head, step);
        assert_eq!((heads[0].lengths, heads[0].codings), (2, 1));
        assert_eq!(heads[0].length, Some(3));
        assert!(heads[0].bare_line_feed);
    }
}

#[test]
fn a_length_that_is_hidden_in_a_very_long_line_is_not_believed() {
    let blanks = " ".repeat(Line::KEPT);
    let head = format!("POST / HTTP/1.1\r\nContent-Length:{blanks}5\r\n\r\n");
    let (mut scanner, mut heads) = (Scanner::new(), 0);
    head.as_bytes()
        .chunks(7)
        .for_each(|piece| scanner.feed(piece, |_| heads += 1));
    assert_eq!(scanner.at, At::Lost);
    scanner.feed(GET, |_| heads += 1);
    assert_eq!(heads, 1);
}

#[test]
fn a_chunk_size_beyond_counting_ends_the_reading() {
    for size in ["ffffffffffffffff", "10000000000000000", "-1", "", ";x", "g"] {
        assert_eq!(after_chunk_size(size.as_bytes(), true), At::Lost, "{size}");
    }
    assert_eq!(after_chunk_size(b"000;last", true), At::Trailer);
}

#[test]
fn a_chunk_size_behind_more_zeros_than_are_kept_ends_the_reading() {
    let hidden = "\r\n\r\nPOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0";
    let zeros = "0".repeat(2 * Line::KEPT);
    let size = hidden.len();
    let all = format!(
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{zeros}{size:x}\r\n{hidden}\r\n0\r\n\r\n"
    );
    for step in 1..all.len() {
        assert_eq!(heads(all.as_bytes(), step).len(), 1, "in steps of {step}");
    }
}

#[test]
fn a_line_without_cr_behind_the_head_ends_the_reading() {
    let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    for rest in [
        "0\n\r\n",
        "0\r\n\n",
        "0\r\na: b\n\r\n",
        "0\r\na: b\n\n",
        "1\n",
    ] {
        let all = [head.as_bytes(), rest.as_bytes(), GET].concat();
        assert_eq!(heads(&all, all.len()).len(), 1, "{rest:?}");
    }
}

#[test]
fn a_head_is_under_way_from_its_first_byte_to_its_empty_line() {
    let mut scanner = Scanner::new();
    scanner.feed(b"\r\n", drop);
    assert!(scanner.is_between() && !scanner.is_in_head());
    scanner.feed(b"G", drop);
    assert!(scanner.is_in_head() && !scanner.is_between());
    scanner.feed(&GET[1..], drop);
    assert!(scanner.is_between() && !scanner.is_in_head());
}

fn http2(request: http::request::Builder) -> Option<Conflict> {
    let (parts, ()) = request
        .version(Version::HTTP_2)
        .body(())
        .unwrap()
        .into_parts();
    conflict(&parts, None)
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
    let connect = http::Request::builder()
        .method(Method::CONNECT)
        .uri("a:443");
    assert_eq!(http2(connect), Some(Conflict::Connect));
}

#[test]
fn a_request_that_only_one_reader_found_is_unclear() {
    let request = http::Request::post("/")
        .header("host", "a")
        .header("content-length", "5");
    let (parts, ()) = request.body(()).unwrap().into_parts();
    assert_eq!(conflict(&parts, None), Some(Conflict::Unclear));
    assert_eq!(
        conflict(&parts, Some(Head::default().facts())),
        Some(Conflict::Unclear)
    );
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces_give_the_same_heads(
        bytes in proptest::collection::vec(
            prop_oneof![Just(b'\n'), Just(b'\r'), Just(b':'), Just(b'0'), Just(b'5'), any::<u8>()],
            0..400,
        ),
        step in 1_usize..40,
    ) {
        let lead = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let all = [lead.as_slice(), &bytes].concat();
        prop_assert_eq!(heads(&all, step), heads(&all, usize::MAX));
    }
}
