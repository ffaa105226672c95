use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits {
    lines: 3,
    bytes: 100,
};

/// What a body turned out to be: its content, its trailers, and how many bytes it took.
type Read = Result<Option<(Vec<u8>, HeaderMap, usize)>, Malformed>;

/// Reads `bytes` in pieces of `step`.
fn read(length: Length, bytes: &[u8], step: usize) -> Read {
    let mut decoder = Decoder::new(length, LIMITS);
    let (mut content, mut found, mut used) = (Vec::new(), HeaderMap::new(), 0);
    let mut pieces = bytes.chunks(step);
    let mut piece: &[u8] = &[];
    loop {
        let (len, next) = decoder.decode(piece)?;
        match next {
            Piece::Nothing => {
                assert_eq!(len, piece.len());
                used += len;
                match pieces.next() {
                    Some(next) => piece = next,
                    None => return Ok(None),
                }
                continue;
            }
            Piece::Data(count) => content.extend_from_slice(&piece[len - count..len]),
            Piece::Trailers(trailers) => found = trailers,
            Piece::End => return Ok(Some((content, found, used + len))),
        }
        used += len;
        piece = &piece[len..];
    }
}

fn chunks(text: &str) -> Read {
    let whole = read(Length::Chunked, text.as_bytes(), usize::MAX);
    for step in 1..text.len() {
        assert_eq!(
            read(Length::Chunked, text.as_bytes(), step),
            whole,
            "{step}"
        );
    }
    whole
}

#[test]
fn a_body_ends_where_its_length_says() {
    for step in 1..8 {
        let (content, _, used) = read(Length::Sized(5), b"helloGET", step).unwrap().unwrap();
        assert_eq!((&content[..], used), (&b"hello"[..], 5));
    }
    assert_eq!(read(Length::Sized(5), b"hell", 9), Ok(None));
    let empty = read(Length::Sized(0), b"GET", 9).unwrap().unwrap();
    assert_eq!((empty.0.len(), empty.2), (0, 0));
}

#[test]
fn chunks_are_joined_and_nothing_behind_them_is_touched() {
    let text = "5;a=\"b\"\r\nhello\r\n0A \t\r\n, you all!\r\n00;x\r\n\r\n";
    let (content, trailers, used) = chunks(&format!("{text}GET /")).unwrap().unwrap();
    assert_eq!(content, b"hello, you all!");
    assert_eq!((trailers.len(), used), (0, text.len()));
}

#[test]
fn trailers_are_headers_behind_the_content() {
    let text = "1\r\na\r\n0\r\nX-Sum: 42\r\nx-sum:\r\n\r\n";
    let (content, trailers, used) = chunks(&format!("{text}0")).unwrap().unwrap();
    assert_eq!((&content[..], used), (&b"a"[..], text.len()));
    let values: Vec<_> = trailers.get_all("x-sum").iter().collect();
    assert_eq!(values, ["42", ""]);
}

#[test]
fn what_could_be_read_in_two_ways_is_malformed() {
    for text in [
        "+0\r\n\r\n",
        "0x0\r\n\r\n",
        "-1\r\n\r\n",
        " 0\r\n\r\n",
        "0 x\r\n\r\n",
        "0\n\n",
        "0\r\r\n\n",
        "\r\n0\r\n\r\n",
        "g\r\n",
        "ffffffffffffffff\r\n",
        "8000000000000000\r\n",
        "10000000000000000\r\n",
        "00000000000000000\r\n",
        "1\r\nab\r\n",
        "2\r\na\r\n0\r\n",
        "1\r\na\n",
        "1\r\na\rb",
        "1;x\ny\r\n",
        "1;x\ry\r\n",
        "1;\0\r\n",
        "0\r\nX: a\nY: b\r\n\r\n",
        "0\r\nX: a\rY: b\r\n\r\n",
        "0\r\n\n",
        "0\r\n\r\r",
        "0\r\nno colon\r\n\r\n",
        "0\r\n folded: a\r\n\r\n",
        "0\r\nX: a\r\n b\r\n\r\n",
        "0\r\nX : a\r\n\r\n",
    ] {
        assert!(chunks(text).is_err(), "{text:?}");
    }
}

#[test]
fn there_is_a_limit_to_what_nobody_wants() {
    let line = "X: y\r\n";
    assert!(
        chunks(&format!("0\r\n{}\r\n", line.repeat(3)))
            .unwrap()
            .is_some()
    );
    assert!(chunks(&format!("0\r\n{}\r\n", line.repeat(4))).is_err());
    assert!(chunks(&format!("0\r\nX: {}\r\n\r\n", "y".repeat(100))).is_err());
    let whole = |text: &str| read(Length::Chunked, text.as_bytes(), usize::MAX);
    for (lead, nothing) in [(";", "x"), ("", " "), ("", "\t"), (" ", " ")] {
        let nothings = |count: usize| nothing.repeat(count - lead.len());
        let chunk = |count| format!("1{lead}{}\r\na\r\n0\r\n\r\n", nothings(count));
        assert!(whole(&chunk(Decoder::EXTENSIONS_MAX - 1)).is_ok());
        assert!(whole(&chunk(Decoder::EXTENSIONS_MAX)).is_err());
    }
    // Many small ones are no better.
    assert!(whole(&"1;x\r\na\r\n".repeat(Decoder::EXTENSIONS_MAX / 2)).is_err());
    assert!(whole(&"1 \r\na\r\n".repeat(Decoder::EXTENSIONS_MAX)).is_err());
}

#[test]
fn the_usual_end_is_seen_right_behind_the_content_and_nowhere_else() {
    let mut decoder = Decoder::new(Length::Chunked, LIMITS);
    let text = b"2\r\nok\r\n0\r\n\r\nmore";
    assert_eq!(decoder.end_at_hand(LAST_CHUNK_BEHIND_ANOTHER), 0);
    let (used, piece) = decoder.decode(text).unwrap();
    assert_eq!((used, piece), (5, Piece::Data(2)));
    for other in [
        &b"\r\n0\r\n\r"[..],
        b"\r\n0\r\nx: y\r\n\r\n",
        b"\r\n00\r\n\r\n",
    ] {
        assert_eq!(decoder.end_at_hand(other), 0);
    }
    assert_eq!(decoder.end_at_hand(&text[used..]), 7);
    assert!(decoder.is_at_end());
}

#[test]
fn trailers_that_are_none_are_no_end() {
    let mut decoder = Decoder::new(Length::Chunked, LIMITS);
    assert!(decoder.decode(b"0\r\nno colon\r\n\r\n").is_err());
    assert!(!decoder.is_at_end());
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces_are_the_same_body(
        bytes in proptest::collection::vec(
            prop_oneof![
                Just(b'\n'), Just(b'\r'), Just(b':'), Just(b'0'), Just(b'1'), Just(b';'),
                any::<u8>(),
            ],
            0..60,
        ),
        step in 1_usize..9,
    ) {
        for lead in ["", "1\r\na\r\n", "0\r\n", "0\r\nX: y\r\n"] {
            let all = [lead.as_bytes(), &bytes].concat();
            let whole = read(Length::Chunked, &all, usize::MAX);
            prop_assert_eq!(read(Length::Chunked, &all, step), whole);
        }
    }
}
