//! JSON pointers (RFC 6901): the names of parts of a body.

use std::fmt;
use std::str::FromStr;

/// A JSON pointer (RFC 6901) to a part of a body: `/order/id`.
///
/// ```
/// use onceward_http::Pointer;
///
/// let pointer = Pointer::parse("/order/lines/0")?;
/// let body = serde_json::json!({"order": {"lines": [7]}});
/// assert_eq!(pointer.get(&body).unwrap(), 7);
/// # Ok::<(), onceward_http::InvalidPointer>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pointer {
    /// As written.
    text: Box<str>,
    /// The reference tokens, unescaped.
    tokens: Vec<Box<str>>,
}

/// A text that is not a JSON pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a JSON pointer")]
pub struct InvalidPointer(pub String);

// === impl Pointer ===

impl Pointer {
    /// Returns `text` as a pointer, or the reason it is not one: it is empty, which means the
    /// whole body, or begins with `/`, and `~` stands only in `~0` and `~1`.
    pub fn parse(text: &str) -> Result<Self, InvalidPointer> {
        let invalid = || InvalidPointer(text.to_owned());
        let tokens = match text.strip_prefix('/') {
            Some(rest) => rest.split('/').map(unescape).collect::<Option<_>>(),
            None if text.is_empty() => Some(Vec::new()),
            None => None,
        };
        Ok(Self {
            text: text.into(),
            tokens: tokens.ok_or_else(invalid)?,
        })
    }

    /// Returns the pointer as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the part of `value` that the pointer names, if it is there.
    pub fn get<'v>(&self, value: &'v serde_json::Value) -> Option<&'v serde_json::Value> {
        self.tokens
            .iter()
            .try_fold(value, |value, token| match value {
                serde_json::Value::Object(members) => members.get(&**token),
                serde_json::Value::Array(elements) => elements.get(index(token)?),
                _ => None,
            })
    }

    /// The names and indices on the way, outermost first.
    pub(crate) fn tokens(&self) -> &[Box<str>] {
        &self.tokens
    }
}

impl FromStr for Pointer {
    type Err = InvalidPointer;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The index that a token names in an array: digits without a leading zero.
pub(crate) fn index(token: &str) -> Option<usize> {
    let canonical = token == "0" || !token.starts_with(['0', '+']);
    canonical.then(|| token.parse().ok()).flatten()
}

/// A token without its escapes, or `None` if a `~` begins none.
fn unescape(token: &str) -> Option<Box<str>> {
    let mut pieces = token.split('~');
    let mut unescaped = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (sign, rest) = match piece.as_bytes().first()? {
            b'0' => ('~', &piece[1..]),
            b'1' => ('/', &piece[1..]),
            _ => return None,
        };
        unescaped.push(sign);
        unescaped.push_str(rest);
    }
    Some(unescaped.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_examples_of_the_standard_are_found() {
        let document = json!({
            "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5,
            "k\"l": 6, " ": 7, "m~n": 8,
        });
        for (pointer, value) in [
            ("", document.clone()),
            ("/foo", json!(["bar", "baz"])),
            ("/foo/0", json!("bar")),
            ("/", json!(0)),
            ("/a~1b", json!(1)),
            ("/c%d", json!(2)),
            ("/e^f", json!(3)),
            ("/g|h", json!(4)),
            ("/i\\j", json!(5)),
            ("/k\"l", json!(6)),
            ("/ ", json!(7)),
            ("/m~0n", json!(8)),
        ] {
            let found = Pointer::parse(pointer).unwrap();
            assert_eq!(found.get(&document), Some(&value), "{pointer}");
            assert_eq!(found.as_str(), pointer);
        }
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let document = json!({"a": [1, 2], "b": "text"});
        for pointer in [
            "/c", "/a/2", "/a/-", "/a/01", "/a/+1", "/a/", "/b/0", "/a/0/0",
        ] {
            assert_eq!(
                Pointer::parse(pointer).unwrap().get(&document),
                None,
                "{pointer}"
            );
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["a", "#/a", "/~", "/a~2b", "/a~", " /a"] {
            assert_eq!(Pointer::parse(text), Err(InvalidPointer(text.to_owned())));
        }
        assert_eq!(unescape("~01").as_deref(), Some("~1"));
    }
}
