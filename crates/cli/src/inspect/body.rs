//! The body of an outcome, where somebody asked to see it.

use std::fmt::Write as _;

use onceward::{Body, Outcome, Record};
use serde::Serialize;

/// What a person gets to see.
#[derive(Debug, PartialEq)]
pub(super) enum Shown {
    /// The body, ending with a line's end.
    Text(String),
    /// Nothing, and why.
    Nothing(&'static str),
}

/// What a machine gets to see: every byte.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Bytes<'a> {
    Text { body: &'a str },
    Other { body_hex: String },
}

const NOT_PLAIN: &str = "the body is not plain text: --json shows its bytes";

// === impl Shown ===

impl Shown {
    /// Returns what is shown of the record's outcome.
    pub(super) fn of(record: &Record) -> Self {
        match record.outcome().map(|outcome| &outcome.body) {
            None => Self::Nothing("there is no outcome, so there is no body"),
            Some(Body::NotKept { .. }) => {
                Self::Nothing("the body was too large to be kept, or is not kept any longer")
            }
            Some(Body::Kept(bytes) | Body::KeptFor { bytes, .. }) => match str::from_utf8(bytes) {
                Ok("") => Self::Nothing("the body is empty"),
                Ok(text) if !is_harmless(text) => Self::Nothing(NOT_PLAIN),
                Ok(text) if text.ends_with('\n') => Self::Text(text.into()),
                Ok(text) => Self::Text(format!("{text}\n")),
                Err(_) => Self::Nothing(NOT_PLAIN),
            },
        }
    }
}

/// Whether a terminal shows `text` and does nothing else about it.
fn is_harmless(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() && !c.is_ascii_whitespace())
}

// === impl Bytes ===

impl<'a> Bytes<'a> {
    /// Returns the body, if it was kept.
    pub(super) fn of(outcome: &'a Outcome) -> Option<Self> {
        let bytes = outcome.body()?;
        Some(match str::from_utf8(bytes) {
            Ok(body) => Self::Text { body },
            Err(_) => Self::Other {
                body_hex: hex(bytes),
            },
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a String takes whatever is written to it");
    }
    text
}

#[cfg(test)]
mod tests {
    use onceward::{State, testing::records};
    use serde_json::json;

    use super::*;

    fn shown(outcome: Outcome) -> Shown {
        Shown::of(&Record {
            state: State::Completed(outcome),
            ..records::completed(records::LONG)
        })
    }

    #[test]
    fn text_is_shown_as_it_is_and_ends_its_line() {
        for (body, wanted) in [("7", "7\n"), ("7\n", "7\n"), (" 7 \n\n", " 7 \n\n")] {
            assert_eq!(shown(Outcome::success(body)), Shown::Text(wanted.into()));
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_shown() {
        for body in [b"\x1b[2J".to_vec(), b"\xff\xfe".to_vec(), b"a\0".to_vec()] {
            assert!(matches!(shown(Outcome::success(body)), Shown::Nothing(_)));
        }
    }

    #[test]
    fn missing_bodies_are_told_apart() {
        let large = Outcome::success("too large").keeping(1);
        let said = "the body was too large to be kept, or is not kept any longer";
        assert_eq!(shown(large), Shown::Nothing(said));
        let said = "the body is empty";
        assert_eq!(shown(Outcome::success("")), Shown::Nothing(said));
        let said = "there is no outcome, so there is no body";
        assert_eq!(Shown::of(&records::unknown(None)), Shown::Nothing(said));
    }

    #[test]
    fn machines_get_every_byte() {
        let json = |body: &'static [u8]| {
            let outcome = Outcome::success(body);
            serde_json::to_value(Bytes::of(&outcome)).unwrap()
        };
        assert_eq!(json(b"caf\xc3\xa9\n"), json!({"body": "caf\u{e9}\n"}));
        assert_eq!(json(b""), json!({"body": ""}));
        assert_eq!(json(b"\xff\x00"), json!({"body_hex": "ff00"}));
    }
}
