//! The operators' token.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use subtle::ConstantTimeEq as _;

/// What operators send to be let in. It is never shown.
#[derive(Clone)]
pub struct Token(Box<str>);

/// Where the operators' token comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TokenSource {
    /// There is none.
    Nowhere,
    /// From the environment.
    Given(Token),
    /// From a file.
    File(PathBuf),
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },

    /// What is in the file is no token.
    #[error("{} holds no token: it has one line of 16 printable characters or more", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
    },
}

// === impl Token ===

impl Token {
    /// The shortest token, in bytes: what is shorter can be guessed.
    pub const LEN_MIN: usize = 16;

    /// Returns `text` as a token if it is one: [`Token::LEN_MIN`] printable characters without
    /// spaces, at least. White space around it does not count, so that a file may end its line.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let long = text.len() >= Self::LEN_MIN;
        (long && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Self(text.into()))
    }

    /// Whether `given` is the token. Takes the same time wherever they differ.
    pub fn is(&self, given: &[u8]) -> bool {
        // Of digests the length tells nothing.
        let digest = |bytes: &[u8]| *blake3::hash(bytes).as_bytes();
        digest(self.0.as_bytes()).ct_eq(&digest(given)).into()
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.is(other.0.as_bytes())
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

// === impl TokenSource ===

impl TokenSource {
    /// Returns the token, if there is to be one.
    pub fn read(&self) -> Result<Option<Token>, TokenError> {
        let path = match self {
            Self::Nowhere => return Ok(None),
            Self::Given(token) => return Ok(Some(token.clone())),
            Self::File(path) => path,
        };
        let text = fs::read_to_string(path).map_err(|source| TokenError::Unreadable {
            path: path.clone(),
            source,
        })?;
        match Token::parse(&text) {
            Some(token) => Ok(Some(token)),
            None => Err(TokenError::Invalid { path: path.clone() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_and_never_shown() {
        let token = Token::parse("0123456789abcdef\n").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        assert!(!token.is(b"0123456789abcdeg"));
        assert!(!token.is(b"0123456789abcdef\n"));
        assert_eq!(format!("{token:?}"), "Token(..)");
        for text in ["", "short", "0123456789 abcdef", "0123456789\tabcdef"] {
            assert!(Token::parse(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn a_file_without_a_token_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let source = TokenSource::File(path.clone());
        assert!(matches!(source.read(), Err(TokenError::Unreadable { .. })));
        fs::write(&path, "\n").unwrap();
        assert!(matches!(source.read(), Err(TokenError::Invalid { .. })));
        fs::write(&path, "a-token-of-some-length\n").unwrap();
        assert!(
            source
                .read()
                .unwrap()
                .unwrap()
                .is(b"a-token-of-some-length")
        );
    }
}
