//! The headers of an answer, where somebody asked to see them.

use std::fmt;

use http::HeaderValue;
use onceward::Outcome;
use serde::Serialize;

use crate::show;

/// Names and values, in order within a name.
///
/// Its `Display` is an empty line, then a line for each; nothing if there are none.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Headers(Vec<(String, String)>);

// === impl Headers ===

impl Headers {
    /// Returns the headers of an outcome that is an answer.
    pub(super) fn of(outcome: &Outcome) -> Option<Self> {
        let headers = onceward_http::headers_of(outcome)?;
        let lines = headers.iter();
        let lines = lines.map(|(name, value)| (name.to_string(), text(value)));
        Some(Self(lines.collect()))
    }
}

impl fmt::Display for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_empty() {
            writeln!(f)?;
        }
        for (name, value) in &self.0 {
            writeln!(f, "{name}: {}", show::plain(value))?;
        }
        Ok(())
    }
}

/// Returns a value as text: UTF-8, or else a character for each byte, so that none is lost.
fn text(value: &HeaderValue) -> String {
    match str::from_utf8(value.as_bytes()) {
        Ok(text) => text.to_owned(),
        Err(_) => value.as_bytes().iter().copied().map(char::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, StatusCode};

    use super::*;

    fn headers(lines: &[(&'static str, &'static [u8])]) -> Headers {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            let value = HeaderValue::from_bytes(value).unwrap();
            map.append(HeaderName::from_static(name), value);
        }
        Headers::of(&onceward_http::outcome(StatusCode::OK, &map, "")).unwrap()
    }

    #[test]
    fn every_line_is_shown_in_its_order() {
        let headers = headers(&[("link", b"</a>"), ("link", b"</b>")]);
        assert_eq!(headers.to_string(), "\nlink: </a>\nlink: </b>\n");
        let json = serde_json::json!([["link", "</a>"], ["link", "</b>"]]);
        assert_eq!(serde_json::to_value(&headers).unwrap(), json);
    }

    #[test]
    fn no_line_makes_no_space() {
        assert_eq!(headers(&[]).to_string(), "");
        assert_eq!(Headers::of(&Outcome::success("7")), None);
    }

    #[test]
    fn values_that_are_not_text_move_no_cursor() {
        let headers = headers(&[("x-a", b"\xc2\x9b2J"), ("x-b", b"\xff")]);
        assert_eq!(headers.to_string(), "\nx-a: \\u{9b}2J\nx-b: \u{ff}\n");
    }
}
