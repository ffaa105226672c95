//! Decoding: where the body of an answer ends, and what of its bytes is body.

use bytes::{Buf as _, Bytes};
use http_body::{Frame, SizeHint};

use super::answer::FIELDS_MAX;
use super::error::Cause;
use crate::http1::Limits;
use crate::http1::decode::{self, Length, Piece};

/// What is still to come of a body.
#[derive(PartialEq, Debug)]
pub(super) enum Decoder {
    /// What its framing says, of which there may be nothing.
    Framed(decode::Decoder),
    /// Whatever comes before the connection ends.
    UntilClose,
}

/// What may stand behind a body.
const TRAILERS: Limits = Limits {
    lines: FIELDS_MAX,
    bytes: 16 << 10,
};

// === impl Decoder ===

impl Decoder {
    /// Returns a body of which nothing is to come.
    pub(super) fn done() -> Self {
        Self::length(0)
    }

    pub(super) fn length(length: u64) -> Self {
        Self::Framed(decode::Decoder::new(Length::Sized(length), TRAILERS))
    }

    pub(super) fn chunked() -> Self {
        Self::Framed(decode::Decoder::new(Length::Chunked, TRAILERS))
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Framed(framed) if framed.is_at_end())
    }

    /// How long the rest is, where that is known.
    pub(super) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Framed(framed) => framed
                .left()
                .map_or_else(SizeHint::default, SizeHint::with_exact),
            Self::UntilClose => SizeHint::default(),
        }
    }

    /// Takes the next part of the body out of what was read. With `None` the body is done, or all
    /// of `read` was used up without making a part.
    pub(super) fn take(&mut self, read: &mut Bytes) -> Result<Option<Frame<Bytes>>, Cause> {
        let Self::Framed(framed) = self else {
            let data = std::mem::take(read);
            return Ok((!data.is_empty()).then(|| Frame::data(data)));
        };
        if framed.is_at_end() {
            return Ok(None);
        }
        let (used, piece) = framed.decode(read)?;
        let mut taken = read.split_to(used);
        Ok(match piece {
            Piece::Nothing | Piece::End => None,
            Piece::Trailers(trailers) => Some(Frame::trailers(trailers)),
            Piece::Data(len) => {
                read.advance(framed.end_at_hand(read));
                Some(Frame::data(taken.split_off(used - len)))
            }
        })
    }

    /// Hears that the connection has ended. That is an error unless it ends the body.
    pub(super) fn end(&mut self) -> Result<(), Cause> {
        match self {
            Self::UntilClose => *self = Self::done(),
            Self::Framed(framed) if framed.is_at_end() => {}
            Self::Framed(_) => return Err(Cause::Cut),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;

    use super::*;

    /// What a reader makes of bytes that come in pieces.
    #[derive(PartialEq, Debug)]
    struct Heard {
        data: Vec<u8>,
        trailers: Option<HeaderMap>,
        is_done: bool,
        /// What came after the end.
        rest: Vec<u8>,
    }

    fn hear<'a>(
        mut decoder: Decoder,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Heard, String> {
        let (mut data, mut trailers, mut rest) = (Vec::new(), None, Vec::new());
        for piece in pieces {
            let mut read = Bytes::copy_from_slice(piece);
            while !read.is_empty() && !decoder.is_done() {
                let part = decoder.take(&mut read).map_err(|error| error.to_string())?;
                match part.map(Frame::into_data) {
                    None => {}
                    Some(Ok(part)) => {
                        assert!(!part.is_empty());
                        data.extend_from_slice(&part);
                    }
                    Some(Err(frame)) => trailers = frame.into_trailers().ok(),
                }
            }
            rest.extend_from_slice(&read);
        }
        Ok(Heard {
            data,
            trailers,
            is_done: decoder.is_done(),
            rest,
        })
    }

    /// Cuts `bytes` at the places given, in any order.
    fn cut<'a>(bytes: &'a [u8], places: &[prop::sample::Index]) -> Vec<&'a [u8]> {
        let mut places: Vec<usize> = places
            .iter()
            .map(|place| place.index(bytes.len() + 1))
            .chain([0, bytes.len()])
            .collect();
        places.sort_unstable();
        places
            .windows(2)
            .map(|two| &bytes[two[0]..two[1]])
            .collect()
    }

    fn chunks(parts: &[Vec<u8>], trailers: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (nth, part) in parts.iter().enumerate() {
            let extension = [";a", " ;b=\"c\"", "", " \t"][nth % 4];
            bytes.extend_from_slice(format!("{:x}{extension}\r\n", part.len()).as_bytes());
            bytes.extend_from_slice(part);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(format!("0\r\n{trailers}\r\n").as_bytes());
        bytes
    }

    proptest! {
        #[test]
        fn chunks_make_the_same_body_wherever_they_are_cut(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            has_trailers: bool,
            rest in prop::collection::vec(any::<u8>(), 0..9),
            places in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let trailers = if has_trailers { "x-sum: 7\r\nx-b: c\r\n" } else { "" };
            let mut bytes = chunks(&parts, trailers);
            bytes.extend_from_slice(&rest);
            let heard = hear(Decoder::chunked(), cut(&bytes, &places)).unwrap();
            prop_assert!(heard.is_done);
            prop_assert_eq!(heard.data, parts.concat());
            prop_assert_eq!(heard.trailers.map_or(0, |trailers| trailers.len()), usize::from(has_trailers) * 2);
            prop_assert_eq!(heard.rest, rest);
        }

        #[test]
        fn a_part_of_a_body_is_never_the_whole(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            has_trailers: bool,
            end: prop::sample::Index,
            places in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let bytes = chunks(&parts, if has_trailers { "x-sum: 7\r\n" } else { "" });
            let part = &bytes[..end.index(bytes.len())];
            let heard = hear(Decoder::chunked(), cut(part, &places)).unwrap();
            prop_assert!(!heard.is_done);

            let length = 1 + part.len() as u64;
            let heard = hear(Decoder::length(length), cut(part, &places)).unwrap();
            prop_assert!(!heard.is_done);
        }

        #[test]
        fn anything_is_heard_the_same_wherever_it_is_cut(
            bytes in prop::collection::vec(prop::sample::select(&b"0012aF;\r\n\r\n\r\nx: "[..]), 0..60),
            places in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let whole = hear(Decoder::chunked(), [&bytes[..]]);
            prop_assert_eq!(hear(Decoder::chunked(), cut(&bytes, &places)), whole);
        }

        #[test]
        fn a_length_takes_its_bytes_and_no_more(
            bytes in prop::collection::vec(any::<u8>(), 1..60),
            length: prop::sample::Index,
            places in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let length = length.index(bytes.len() + 1);
            let heard = hear(Decoder::length(length as u64), cut(&bytes, &places)).unwrap();
            prop_assert!(heard.is_done);
            prop_assert_eq!(&heard.data[..], &bytes[..length]);
            prop_assert_eq!(&heard.rest[..], &bytes[length..]);
        }
    }

    #[test]
    fn only_a_body_that_is_ended_by_it_survives_the_end_of_its_connection() {
        for mut cut in [Decoder::length(1), Decoder::chunked()] {
            cut.end().unwrap_err();
            assert!(!cut.is_done());
        }
        let mut whole = Decoder::UntilClose;
        whole.end().unwrap();
        assert!(whole.is_done());
    }

    #[test]
    fn the_last_chunk_is_known_to_be_the_last_if_its_end_came_along() {
        let mut read = Bytes::from_static(b"2\r\nok\r\n0\r\n\r\nmore");
        let mut decoder = Decoder::chunked();
        let data = decoder.take(&mut read).unwrap().unwrap();
        assert_eq!(data.into_data().unwrap(), "ok");
        assert!(decoder.is_done());
        assert_eq!(read, "more");
    }
}
