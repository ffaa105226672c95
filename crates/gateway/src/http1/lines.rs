//! Lines: where a head ends, and what its lines say.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::names;

/// The bytes of a head, copied once for all that is kept of it.
pub(crate) struct Source<'a> {
    head: &'a [u8],
    copy: Bytes,
}

/// Why the lines of a head are no headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BadLine {
    /// A name that is none.
    Name,
    /// A value that is none.
    Value,
    /// There are more than a map of headers has room for.
    TooMany,
}

// === impl Source ===

impl<'a> Source<'a> {
    pub(crate) fn new(head: &'a [u8]) -> Self {
        Self {
            head,
            copy: Bytes::copy_from_slice(head),
        }
    }

    /// Returns `part`, which is one of the head, as a part of the copy.
    pub(crate) fn share(&self, part: &[u8]) -> Bytes {
        if part.is_empty() {
            return Bytes::new();
        }
        let at = part.as_ptr().addr() - self.head.as_ptr().addr();
        self.copy.slice(at..at + part.len())
    }

    /// Returns the lines that were found in the head as headers, each of which `hear` is told.
    pub(crate) fn headers(
        &self,
        lines: &[httparse::Header<'_>],
        mut hear: impl FnMut(&HeaderName, &[u8]),
    ) -> Result<HeaderMap, BadLine> {
        let room = HeaderMap::try_with_capacity(lines.len());
        let mut headers = room.map_err(|_| BadLine::TooMany)?;
        for line in lines {
            let name = names::name(line.name).ok_or(BadLine::Name)?;
            hear(&name, line.value);
            let value = HeaderValue::from_maybe_shared(self.share(line.value));
            let value = value.map_err(|_| BadLine::Value)?;
            let added = headers.try_append(name, value);
            added.map_err(|_| BadLine::TooMany)?;
        }
        Ok(headers)
    }
}

/// The length of the line ends at the beginning of `bytes`, which may stand before a request.
pub(crate) fn leading_line_ends(bytes: &[u8]) -> usize {
    let mut len = 0;
    loop {
        len += match &bytes[len..] {
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => return len,
        };
    }
}

/// Whether a head may end in `bytes` from `from` on. Whoever sends a head bit by bit shall not
/// have all of it read at every bit.
pub(crate) fn may_end_behind(bytes: &[u8], from: usize) -> bool {
    let tail = &bytes[from.saturating_sub(3)..];
    let mut ends = memchr::memchr_iter(b'\n', tail);
    ends.any(|at| matches!(&tail[at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
}

/// The members of a list, without the blanks around them.
pub(crate) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Whether `word` is one of those in a list.
pub(crate) fn has_word(value: &[u8], word: &[u8]) -> bool {
    list(value).any(|one| one.eq_ignore_ascii_case(word))
}

/// Reads digits and nothing but digits: `str::parse` would take a sign.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let number = text.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| byte - b'0')?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    });
    // One that a signed number does not hold is negative to somebody.
    number.filter(|number| i64::try_from(*number).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_head_is_seen_wherever_it_is_cut() {
        for end in ["\r\n\r\n", "\n\n", "\n\r\n", "\r\n\n"] {
            let head = format!("GET / HTTP/1.1{end}");
            for from in 0..head.len() {
                assert!(
                    may_end_behind(head.as_bytes(), from),
                    "{head:?} from {from}"
                );
            }
            let shorter = &head.as_bytes()[..head.len() - 1];
            assert!(!may_end_behind(shorter, 0), "{head:?}");
        }
    }

    #[test]
    fn only_whole_line_ends_lead() {
        assert_eq!(leading_line_ends(b"\r\n\n\r\nGET"), 5);
        assert_eq!(leading_line_ends(b"\r"), 0);
        assert_eq!(leading_line_ends(b"\r\n\r"), 2);
        assert_eq!(leading_line_ends(b" \r\n"), 0);
    }

    #[test]
    fn a_word_of_a_list_stands_between_commas() {
        for list in ["close", "x, Close", " close ,x", ",close"] {
            assert!(has_word(list.as_bytes(), b"close"), "{list}");
        }
        for list in ["", "closed", "x close", "x;close"] {
            assert!(!has_word(list.as_bytes(), b"close"), "{list}");
        }
    }

    #[test]
    fn a_number_is_made_of_digits_and_fits_a_signed_one() {
        assert_eq!(number(b"007"), Some(7));
        assert_eq!(number(b"9223372036854775807"), Some(i64::MAX as u64));
        for text in ["", "+1", "-1", "1 ", "0x1", "9223372036854775808"] {
            assert_eq!(number(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn more_lines_than_a_map_holds_are_too_many_and_no_panic() {
        let head = b"a";
        let line = httparse::Header {
            name: "a",
            value: b"",
        };
        let source = Source::new(head);
        let headers = |count| source.headers(&vec![line; count], |_, _| {});
        assert_eq!(headers(10_000).unwrap().len(), 10_000);
        assert_eq!(headers(40_000).unwrap_err(), BadLine::TooMany);
    }
}
