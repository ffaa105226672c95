//! `Prefer`: what a caller asks for, beyond the answer.

use std::time::Duration;

use http::HeaderMap;

use crate::headers::PREFER;

/// What a caller prefers (RFC 7240), as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Prefer {
    /// How long the caller is willing to wait for the answer.
    pub(crate) wait: Option<Duration>,
    /// Whether the caller would rather be told where to look for the answer.
    pub(crate) respond_async: bool,
}

// === impl Prefer ===

impl Prefer {
    /// Reads the preferences in `headers`. The first of a repeated preference counts, and what
    /// cannot be read is passed over: a preference is never worth a refusal.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut preferred = Self::default();
        for line in headers.get_all(PREFER) {
            for preference in Unquoted::new(line.as_bytes(), b',') {
                preferred.note(preference);
            }
        }
        preferred
    }

    fn note(&mut self, preference: &[u8]) {
        // What follows a semicolon are parameters, and neither preference has any.
        let word = Unquoted::new(preference, b';').next().unwrap_or_default();
        let mut sides = word.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
        let name = sides.next().unwrap_or_default();
        let value = unquoted(sides.next().unwrap_or_default());
        if name.eq_ignore_ascii_case(b"wait") {
            self.wait = self.wait.or_else(|| seconds(value));
        } else if name.eq_ignore_ascii_case(b"respond-async") && value.is_empty() {
            self.respond_async = true;
        }
    }
}

/// The pieces of a field between separators that stand outside quotes.
struct Unquoted<'a> {
    left: Option<&'a [u8]>,
    separator: u8,
}

// === impl Unquoted ===

impl<'a> Unquoted<'a> {
    fn new(field: &'a [u8], separator: u8) -> Self {
        Self {
            left: Some(field),
            separator,
        }
    }
}

impl<'a> Iterator for Unquoted<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let field = self.left.take()?;
        let (mut quoted, mut escaped) = (false, false);
        for (at, byte) in field.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                byte if !quoted && *byte == self.separator => {
                    self.left = Some(&field[at + 1..]);
                    return Some(field[..at].trim_ascii());
                }
                _ => {}
            }
        }
        Some(field.trim_ascii())
    }
}

/// A value without its quotes, if it has both.
fn unquoted(value: &[u8]) -> &[u8] {
    value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""))
        .unwrap_or(value)
}

/// A number of seconds. More than fit are as good as the most that fit.
fn seconds(digits: &[u8]) -> Option<Duration> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let seconds = digits.iter().fold(0_u32, |sum, digit| {
        sum.saturating_mul(10)
            .saturating_add(u32::from(digit - b'0'))
    });
    Some(Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn prefer(lines: &[&'static str]) -> Prefer {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(PREFER, HeaderValue::from_static(line));
        }
        Prefer::of(&headers)
    }

    fn wait(lines: &[&'static str]) -> Option<u64> {
        prefer(lines).wait.map(|wait| wait.as_secs())
    }

    #[test]
    fn no_header_prefers_nothing() {
        assert_eq!(prefer(&[]), Prefer::default());
    }

    #[test]
    fn waits_are_read_bare_and_quoted_in_any_case() {
        for line in [
            "wait=10",
            "Wait=\"10\"",
            " WAIT = 10 ",
            "wait=10; a=\"b;c\"",
        ] {
            assert_eq!(wait(&[line]), Some(10), "{line}");
        }
        assert_eq!(wait(&["wait=0"]), Some(0));
    }

    #[test]
    fn several_lines_and_lists_are_one_list() {
        let both = prefer(&["handling=lenient, respond-async", "x=\"a, wait=7\", wait=3"]);
        assert!(both.respond_async);
        assert_eq!(both.wait, Some(Duration::from_secs(3)));
    }

    #[test]
    fn the_first_of_a_repeated_preference_counts() {
        assert_eq!(wait(&["wait=1, wait=2", "wait=3"]), Some(1));
    }

    #[test]
    fn what_cannot_be_read_is_passed_over() {
        for line in [
            "wait",
            "wait=",
            "wait=-1",
            "wait=1.5",
            "wait=ten",
            "waiting=3",
            "",
            ",;=,",
        ] {
            assert_eq!(prefer(&[line]), Prefer::default(), "{line}");
        }
        assert_eq!(wait(&["wait=ten, wait=2"]), Some(2));
        assert!(!prefer(&["respond-async=no"]).respond_async);
        assert!(!prefer(&["x=\"respond-async"]).respond_async);
        assert!(!prefer(&[r#"x="\", respond-async, y""#]).respond_async);
    }

    #[test]
    fn a_wait_beyond_all_measure_is_the_longest_one() {
        let longest = Some(u64::from(u32::MAX));
        assert_eq!(wait(&["wait=99999999999999999999999"]), longest);
    }
}
