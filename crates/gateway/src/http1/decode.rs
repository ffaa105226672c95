//! Decoding: the body of a message, taken out of its framing.
//!
//! One reading and no mercy: what two readers of chunks could take for two things is an error.

use http::HeaderMap;

use super::Limits;
use super::encode::LAST_CHUNK_BEHIND_ANOTHER;
use super::lines::Source;

/// How the end of a body is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Length {
    /// After so many bytes, of which there may be none.
    Sized(u64),
    Chunked,
}

/// Takes one body out of its framing.
#[derive(PartialEq, Debug)]
pub(crate) struct Decoder {
    at: At,
    limits: Limits,
    /// Bytes of extensions so far, and of the blanks that may stand there.
    extensions: usize,
    /// The trailers so far, and how many lines they are.
    trailers: Vec<u8>,
    lines: usize,
}

/// What was found next in a body.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Piece {
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
pub(crate) struct Malformed(pub(crate) &'static str);

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

    /// The most bytes of all extensions together. Nobody reads them, and without a limit they could
    /// go on for ever.
    const EXTENSIONS_MAX: usize = 16 * 1024;

    pub(crate) fn new(length: Length, limits: Limits) -> Self {
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
    pub(crate) fn is_at_end(&self) -> bool {
        // Lines that were no trailers are no end.
        self.at == At::End && self.lines == 0
    }

    /// How many bytes of content are left, if that is known.
    pub(crate) fn left(&self) -> Option<u64> {
        match self.at {
            At::Sized { left } => Some(left),
            At::End => Some(0),
            _ => None,
        }
    }

    /// Looks for the next piece in `bytes`, and says how many of them were used.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> Result<(usize, Piece), Malformed> {
        let mut used = 0;
        while used < bytes.len() || self.at == At::End {
            let rest = &bytes[used..];
            let (len, left) = match self.at {
                At::End => return Ok((used, self.end()?)),
                At::Sized { left } | At::Data { left } => within(left, rest),
                _ => {
                    self.step(rest[0])?;
                    used += 1;
                    continue;
                }
            };
            self.at = match (self.at, left) {
                (At::Sized { .. }, 0) => At::End,
                (At::Sized { .. }, left) => At::Sized { left },
                (_, 0) => At::DataCr,
                (_, left) => At::Data { left },
            };
            return Ok((used + len, Piece::Data(len)));
        }
        Ok((used, Piece::Nothing))
    }

    /// Looks whether `bytes`, which stand right behind a piece of content, begin with the usual
    /// end of the whole, and returns how many of them that took. Readers who learn of the end with
    /// the last byte need not ask for more.
    pub(crate) fn end_at_hand(&mut self, bytes: &[u8]) -> usize {
        if self.at != At::DataCr || !bytes.starts_with(LAST_CHUNK_BEHIND_ANOTHER) {
            return 0;
        }
        self.at = At::End;
        LAST_CHUNK_BEHIND_ANOTHER.len()
    }

    /// Takes one byte of the framing.
    fn step(&mut self, byte: u8) -> Result<(), Malformed> {
        self.at = match (self.at, byte) {
            (At::Size { digits, size }, _) if byte.is_ascii_hexdigit() => {
                add_digit(digits, size, byte)?
            }
            (At::Size { digits: 0, .. }, _) => return Err(Malformed("a chunk has no size")),
            (At::Size { size, .. } | At::Blank { size }, b' ' | b'\t') => {
                self.count_extension()?;
                At::Blank { size }
            }
            (At::Size { size, .. } | At::Blank { size }, b';') => {
                self.count_extension()?;
                At::Extension { size }
            }
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
        self.trailers.extend_from_slice(b"\r\n");
        let trailers = trailers(&self.trailers, self.lines)?;
        (self.trailers, self.lines) = (Vec::new(), 0);
        Ok(Piece::Trailers(trailers))
    }
}

fn trailers(text: &[u8], count: usize) -> Result<HeaderMap, Malformed> {
    const MALFORMED: Malformed = Malformed("a trailer is no header");
    let mut room = vec![httparse::EMPTY_HEADER; count];
    let Ok(httparse::Status::Complete((_, lines))) = httparse::parse_headers(text, &mut room)
    else {
        return Err(MALFORMED);
    };
    let trailers = Source::new(text).headers(lines, |_, _| {});
    trailers.map_err(|_| MALFORMED)
}

/// How many of `bytes` are of the `left` ones, and how many are left behind them.
fn within(left: u64, bytes: &[u8]) -> (usize, u64) {
    let len = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
    (len, left - len as u64)
}

fn add_digit(digits: u32, size: u64, byte: u8) -> Result<At, Malformed> {
    let digit = char::from(byte).to_digit(16);
    let digit = digit.expect("whoever calls this has seen that it is a digit");
    // A size that a signed number does not hold is negative to somebody.
    let size = (size << 4) | u64::from(digit);
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
mod tests;
