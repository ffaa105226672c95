//! Decoding: the body of a request, taken out of its framing.
//!
//! One reading and no mercy: what two readers of chunks could take for two things is an error.

use std::mem;

use http::{HeaderMap, HeaderValue};

use super::framing::Length;
use super::head::Limits;
use super::names;

/// Takes one body out of its framing.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    at: At,
    limits: Limits,
    /// Bytes of extensions so far.
    extensions: usize,
    /// The trailers so far, and how many lines they are.
    trailers: Vec<u8>,
    lines: usize,
}

/// What was found next in a body.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// Nothing; the rest has not come yet.
    Nothing,
    /// So many bytes of content, the last of those that were used.
    Data(usize),
    Trailers(HeaderMap),
    End,
}

/// The body breaks the rules of its framing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Malformed(&'static str);

/// What the next byte belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Sized {
        left: u64,
    },
    Size {
        digits: u32,
        size: u64,
    },
    /// Blanks behind the size.
    Blank {
        size: u64,
    },
    Extension {
        size: u64,
    },
    SizeEnd {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataCr,
    DataLf,
    /// The beginning of a line behind the last chunk.
    Line,
    Trailer,
    TrailerLf,
    LastLf,
    End,
}

// === impl Decoder ===

impl Decoder {
    /// The longest size of a chunk, in digits. More are zeros or too many.
    const DIGITS_MAX: u32 = 16;

    /// The most bytes of all extensions together. Nobody reads them.
    const EXTENSIONS_MAX: usize = 16 * 1024;

    pub(super) fn new(length: Length, limits: Limits) -> Self {
        let at = match length {
            Length::Sized(0) => At::End,
            Length::Sized(left) => At::Sized { left },
            Length::Chunked => At::SIZE,
        };
        Self {
            at,
            limits,
            extensions: 0,
            trailers: Vec::new(),
            lines: 0,
        }
    }

    /// Whether there is nothing left to find.
    pub(super) fn is_at_end(&self) -> bool {
        self.at == At::End
    }

    /// How many bytes of content are left, if that is known.
    pub(super) fn left(&self) -> Option<u64> {
        match self.at {
            At::Sized { left } => Some(left),
            At::End => Some(0),
            _ => None,
        }
    }

    /// Looks for the next piece in `bytes`, and says how many of them were used.
    pub(super) fn decode(&mut self, bytes: &[u8]) -> Result<(usize, Piece), Malformed> {
        let mut used = 0;
        while used < bytes.len() || self.at == At::End {
            let rest = &bytes[used..];
            match self.at {
                At::End => return Ok((used, self.end()?)),
                At::Sized { left } => {
                    let len = within(left, rest);
                    let left = left - len as u64;
                    self.at = if left == 0 {
                        At::End
                    } else {
                        At::Sized { left }
                    };
                    return Ok((used + len, Piece::Data(len)));
                }
                At::Data { left } => {
                    let len = within(left, rest);
                    let left = left - len as u64;
                    self.at = if left == 0 {
                        At::DataCr
                    } else {
                        At::Data { left }
                    };
                    return Ok((used + len, Piece::Data(len)));
                }
                _ => self.step(rest[0])?,
            }
            used += 1;
        }
        Ok((used, Piece::Nothing))
    }

    /// Takes one byte of the framing.
    fn step(&mut self, byte: u8) -> Result<(), Malformed> {
        self.at = match (self.at, byte) {
            (At::Size { digits, size }, _) if byte.is_ascii_hexdigit() => {
                add_digit(digits, size, byte)?
            }
            (At::Size { digits: 0, .. }, _) => return Err(Malformed("a chunk has no size")),
            (At::Size { size, .. } | At::Blank { size }, b' ' | b'\t') => At::Blank { size },
            (At::Size { size, .. } | At::Blank { size }, b';') => At::Extension { size },
            (At::Size { size, .. } | At::Blank { size } | At::Extension { size }, b'\r') => {
                At::SizeEnd { size }
            }
            (At::Extension { size }, b'\t' | b' '..=b'~' | 0x80..) => {
                self.count_extension()?;
                At::Extension { size }
            }
            (At::SizeEnd { size: 0 }, b'\n') => At::Line,
            (At::SizeEnd { size }, b'\n') => At::Data { left: size },
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => At::SIZE,
            (At::Line, b'\r') => At::LastLf,
            (At::LastLf, b'\n') => At::End,
            (At::Trailer, b'\r') => At::TrailerLf,
            (At::Line | At::Trailer, b'\t' | b' '..=b'~' | 0x80..) => {
                self.keep_trailer(byte)?;
                At::Trailer
            }
            (At::TrailerLf, b'\n') => {
                self.end_trailer()?;
                At::Line
            }
            (At::DataCr | At::DataLf, _) => {
                return Err(Malformed("a chunk is not as long as it says"));
            }
            (At::Line | At::Trailer | At::TrailerLf | At::LastLf, _) => {
                return Err(Malformed("a trailer is no line"));
            }
            _ => return Err(Malformed("the size of a chunk is no number")),
        };
        Ok(())
    }

    fn count_extension(&mut self) -> Result<(), Malformed> {
        self.extensions += 1;
        match self.extensions >= Self::EXTENSIONS_MAX {
            true => Err(Malformed("the extensions of chunks are too long")),
            false => Ok(()),
        }
    }

    fn keep_trailer(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.trailers.len() >= self.limits.bytes {
            return Err(Malformed("the trailers are too long"));
        }
        self.trailers.push(byte);
        Ok(())
    }

    fn end_trailer(&mut self) -> Result<(), Malformed> {
        if self.lines >= self.limits.lines {
            return Err(Malformed("there are too many trailers"));
        }
        self.lines += 1;
        self.trailers.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// The end, or the trailers before it.
    fn end(&mut self) -> Result<Piece, Malformed> {
        if self.lines == 0 {
            return Ok(Piece::End);
        }
        let (mut text, count) = (mem::take(&mut self.trailers), mem::take(&mut self.lines));
        text.extend_from_slice(b"\r\n");
        trailers(&text, count).map(Piece::Trailers)
    }
}

fn trailers(text: &[u8], count: usize) -> Result<HeaderMap, Malformed> {
    const MALFORMED: Malformed = Malformed("a trailer is no header");
    let mut room = vec![httparse::EMPTY_HEADER; count];
    let Ok(httparse::Status::Complete((_, lines))) = httparse::parse_headers(text, &mut room)
    else {
        return Err(MALFORMED);
    };
    let mut trailers = HeaderMap::with_capacity(count);
    for line in lines {
        let name = names::name(line.name).ok_or(MALFORMED)?;
        let value = HeaderValue::from_bytes(line.value).map_err(|_| MALFORMED)?;
        trailers.try_append(name, value).map_err(|_| MALFORMED)?;
    }
    Ok(trailers)
}

fn within(left: u64, bytes: &[u8]) -> usize {
    usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()))
}

fn add_digit(digits: u32, size: u64, byte: u8) -> Result<At, Malformed> {
    let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
    // A size that a signed number does not hold is negative to somebody.
    let size = (size << 4) | digit;
    if digits >= Decoder::DIGITS_MAX || i64::try_from(size).is_err() {
        return Err(Malformed("a chunk is too long"));
    }
    Ok(At::Size {
        digits: digits + 1,
        size,
    })
}

// === impl At ===

impl At {
    const SIZE: Self = Self::Size { digits: 0, size: 0 };
}

#[cfg(test)]
mod tests {
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
        let extension = "x".repeat(Decoder::EXTENSIONS_MAX);
        let long = format!("1;{extension}\r\na\r\n0\r\n\r\n");
        assert!(read(Length::Chunked, long.as_bytes(), usize::MAX).is_err());
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
}
