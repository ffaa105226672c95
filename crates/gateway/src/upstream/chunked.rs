//! Chunks: bodies whose length is said piece by piece.

use bytes::{Buf, Bytes};
use http::HeaderMap;
use httparse::{EMPTY_HEADER, Status};

use super::answer::{FIELDS_MAX, garbled, headers};
use super::decoder::take_up_to;
use super::error::Cause;

/// How far a chunked body was read.
#[derive(Default, PartialEq, Debug)]
pub(super) struct Chunked {
    stage: Stage,
    /// How much of the chunk is still to come.
    left: u64,
    /// How many bytes beside sizes and data there were.
    extensions: usize,
    /// What was read after the last chunk.
    trailers: Vec<u8>,
}

/// What came of reading on.
pub(super) enum Step {
    Data(Bytes),
    /// All that was read is used up.
    NeedsMore,
    End(Option<HeaderMap>),
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum Stage {
    #[default]
    FirstDigit,
    Digits,
    Space,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Trailers,
}

/// The most bytes of a body that say nothing to us. Without a limit they could go on for ever.
const EXTENSIONS_MAX: usize = 16 << 10;

/// The most bytes of trailers.
const TRAILERS_MAX: usize = 16 << 10;

// === impl Chunked ===

impl Chunked {
    /// Whether the last byte of a chunk was the last that was read.
    pub(super) fn is_between_chunks(&self) -> bool {
        self.stage == Stage::DataCr
    }

    /// Reads on, to the end of a chunk at most.
    pub(super) fn step(&mut self, read: &mut Bytes) -> Result<Step, Cause> {
        let mut used = 0;
        while self.stage != Stage::Data {
            let Some(&byte) = read.get(used) else {
                *read = Bytes::new();
                return Ok(Step::NeedsMore);
            };
            used += 1;
            if self.stage == Stage::Trailers {
                self.trailers.push(byte);
                let is_empty = self.trailers == b"\r\n";
                if is_empty || self.trailers.ends_with(b"\r\n\r\n") {
                    read.advance(used);
                    let trailers = (!is_empty).then(|| self.trailers());
                    return Ok(Step::End(trailers.transpose()?));
                }
                if self.trailers.len() >= TRAILERS_MAX {
                    return Err(Cause::Garbled("its trailers are too long"));
                }
            } else {
                self.stage = self.after(byte)?;
            }
        }
        read.advance(used);
        let data = take_up_to(self.left, read);
        self.left -= data.len() as u64;
        if self.left == 0 {
            self.stage = Stage::DataCr;
        }
        match data.is_empty() {
            true => Ok(Step::NeedsMore),
            false => Ok(Step::Data(data)),
        }
    }

    /// The stage that `byte` leads to.
    fn after(&mut self, byte: u8) -> Result<Stage, Cause> {
        match (self.stage, byte) {
            (Stage::FirstDigit | Stage::Digits, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.add_digit(byte)
            }
            (Stage::Digits | Stage::Space, b' ' | b'\t') => self.skip(Stage::Space),
            (Stage::Digits | Stage::Space, b';') => self.skip(Stage::Extension),
            (Stage::Digits | Stage::Space | Stage::Extension, b'\r') => Ok(Stage::SizeLf),
            (Stage::Extension, b'\n') => Err(Cause::Garbled("a chunk has no valid extension")),
            (Stage::Extension, _) => self.skip(Stage::Extension),
            (Stage::SizeLf, b'\n') if self.left == 0 => Ok(Stage::Trailers),
            (Stage::SizeLf, b'\n') => Ok(Stage::Data),
            (Stage::DataCr, b'\r') => Ok(Stage::DataLf),
            (Stage::DataLf, b'\n') => Ok(Stage::FirstDigit),
            (Stage::DataCr | Stage::DataLf, _) => {
                Err(Cause::Garbled("a chunk is longer than it said"))
            }
            _ => Err(Cause::Garbled("a chunk has no valid size")),
        }
    }

    fn add_digit(&mut self, digit: u8) -> Result<Stage, Cause> {
        // Zeros before a size could go on for ever.
        if self.stage == Stage::Digits && self.left == 0 {
            self.skip(Stage::Digits)?;
        }
        let digit = char::from(digit).to_digit(16).unwrap_or_default();
        let left = self.left.checked_mul(16);
        let left = left.and_then(|left| left.checked_add(u64::from(digit)));
        let left = left.filter(|left| i64::try_from(*left).is_ok());
        self.left = left.ok_or(Cause::Garbled("a chunk is too long"))?;
        Ok(Stage::Digits)
    }

    /// Passes over a byte that says nothing to us.
    fn skip(&mut self, to: Stage) -> Result<Stage, Cause> {
        self.extensions += 1;
        match self.extensions < EXTENSIONS_MAX {
            true => Ok(to),
            false => Err(Cause::Garbled("its chunks have too many extensions")),
        }
    }

    fn trailers(&self) -> Result<HeaderMap, Cause> {
        let read = &self.trailers[..];
        let mut fields = [EMPTY_HEADER; FIELDS_MAX];
        match httparse::parse_headers(read, &mut fields).map_err(garbled)? {
            Status::Complete((len, fields)) if len == read.len() => {
                headers(read, fields, |_, _| {})
            }
            _ => Err(Cause::Garbled("its trailers end before their end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all of it, and returns the data, and whether it came to the end.
    fn read(bytes: &[u8]) -> Result<(Vec<u8>, bool), Cause> {
        let (mut chunked, mut read) = (Chunked::default(), Bytes::copy_from_slice(bytes));
        let mut data = Vec::new();
        loop {
            match chunked.step(&mut read)? {
                Step::Data(part) => data.extend_from_slice(&part),
                Step::NeedsMore => return Ok((data, false)),
                Step::End(_) => return Ok((data, true)),
            }
        }
    }

    #[test]
    fn sizes_are_hexadecimal_and_may_be_followed_by_anything_of_no_consequence() {
        for size in ["b", "B", "00b", "b ", "b\t ;x=\"y\"", "b;x;y=z"] {
            let bytes = format!("{size}\r\nhello world\r\n0;z\r\n\r\n");
            let (data, is_ended) = read(bytes.as_bytes()).unwrap();
            assert_eq!((&data[..], is_ended), (&b"hello world"[..], true), "{size}");
        }
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for bytes in [
            "\r\n",
            "x\r\n",
            ";a\r\n",
            " 1\r\na\r\n",
            "1\na\r\n",
            "1 1\r\na\r\n",
            "-1\r\n",
            "0x1\r\n",
            "1;a\nb\r\n",
            "1\rx",
            "1\r\nab\r\n",
            "1\r\na\rb",
            "1\r\na\n",
            "10000000000000000\r\n",
            "8000000000000000\r\n",
            "0\r\n\nx: y\r\n\r\n",
            "0\r\nno field\r\n\r\n",
            "0\r\na: b\n\nc: d\r\n\r\n",
        ] {
            assert!(read(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn extensions_and_trailers_have_limits() {
        let extended = |len| format!("1;{}\r\na\r\n", "x".repeat(len));
        assert!(read(extended(EXTENSIONS_MAX - 2).as_bytes()).is_ok());
        assert!(read(extended(EXTENSIONS_MAX - 1).as_bytes()).is_err());
        let zeros = |len| format!("{}1\r\na\r\n", "0".repeat(len));
        assert!(read(zeros(EXTENSIONS_MAX - 1).as_bytes()).is_ok());
        assert!(read(zeros(EXTENSIONS_MAX).as_bytes()).is_err());
        // Many small ones are no better.
        assert!(read("1;x\r\na\r\n".repeat(EXTENSIONS_MAX / 2).as_bytes()).is_err());

        let long = format!("0\r\nx: {}\r\n", "y".repeat(TRAILERS_MAX));
        assert!(read(long.as_bytes()).is_err());
        let many = format!("0\r\n{}\r\n", "x: y\r\n".repeat(FIELDS_MAX + 1));
        assert!(read(many.as_bytes()).is_err());
    }
}
