//! Keys: the names callers give to work they want done once.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A caller's name for one piece of work, unique within its [`Scope`](crate::Scope).
///
/// Printable ASCII only. Its `Debug` shows a digest: keys may hold personal data.
///
/// ```
/// use onceward::Key;
///
/// let key = Key::parse("8e03978e-40d5-43e8-bc93-6894a57f9324").unwrap();
/// assert_eq!(key.as_str().len(), 36);
/// assert!(Key::parse("").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key(Arc<str>);

/// Why a text is not a [`Key`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKey {
    /// The text is empty.
    #[error("the key is empty")]
    Empty,

    /// The text is longer than [`Key::LEN_MAX`] bytes.
    #[error("the key has {len} bytes; the limit is {}", Key::LEN_MAX)]
    TooLong {
        /// How long it is, in bytes.
        len: usize,
    },

    /// A byte is not printable ASCII.
    #[error("byte {at} of the key is not printable ASCII")]
    NotPrintable {
        /// Where the byte stands, counted from 0.
        at: usize,
    },
}

// === impl Key ===

impl Key {
    /// The longest key, in bytes: the shortest limit among the stores.
    pub const LEN_MAX: usize = 255;

    /// Returns `text` as a key, or the reason it is not one.
    pub fn parse(text: &str) -> Result<Self, InvalidKey> {
        match text.len() {
            0 => return Err(InvalidKey::Empty),
            1..=Self::LEN_MAX => {}
            len => return Err(InvalidKey::TooLong { len }),
        }
        match text.bytes().position(|byte| !matches!(byte, 0x20..=0x7e)) {
            Some(at) => Err(InvalidKey::NotPrintable { at }),
            None => Ok(Self(text.into())),
        }
    }

    /// Returns the key as the caller wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Key {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = blake3::hash(self.0.as_bytes()).to_hex();
        write!(f, "Key(#{})", &digest[..8])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_limited_at_both_ends() {
        assert_eq!(Key::parse(""), Err(InvalidKey::Empty));
        assert!(Key::parse(&"k".repeat(255)).is_ok());
        assert_eq!(
            Key::parse(&"k".repeat(256)),
            Err(InvalidKey::TooLong { len: 256 })
        );
    }

    #[test]
    fn only_printable_ascii_passes() {
        assert_eq!(Key::parse("a\tb"), Err(InvalidKey::NotPrintable { at: 1 }));
        assert_eq!(
            Key::parse("caf\u{e9}"),
            Err(InvalidKey::NotPrintable { at: 3 })
        );
        for shape in ["a/b", "aGk+/w==", "340282366920938463463374607431768211455"] {
            assert!(Key::parse(shape).is_ok(), "{shape}");
        }
    }

    #[test]
    fn debug_does_not_show_the_key() {
        let key = Key::parse("alice@example.com").unwrap();
        assert!(!format!("{key:?}").contains("alice"));
    }
}
