//! The deployment's secret: it keys slot names and fingerprints, so that a dump tells nothing.

use std::fmt;

use zeroize::ZeroizeOnDrop;

use crate::bugs::{Bug, seeded};

/// Thirty-two bytes that every node of a deployment shares and nobody else knows.
///
/// An [`Engine`](crate::Engine) without one writes a random secret into its store, once, and
/// finds it there ever after.
#[derive(Clone, ZeroizeOnDrop)]
pub struct Secret {
    bytes: [u8; Secret::LEN],
    names: [u8; Secret::LEN],
    seals: [u8; Secret::LEN],
}

/// The text is not a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a secret is 64 hex digits (32 bytes)")]
pub struct InvalidSecret;

// === impl Secret ===

impl Secret {
    /// The length of a secret, in bytes.
    pub const LEN: usize = 32;

    /// Returns the secret with these bytes.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self {
            names: blake3::derive_key("onceward v1 slot names", &bytes),
            seals: blake3::derive_key("onceward v1 fingerprint seals", &bytes),
            bytes,
        }
    }

    /// Reads a secret from 64 hex digits.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let hash = blake3::Hash::from_hex(text.trim()).map_err(|_| InvalidSecret)?;
        Ok(Self::from_bytes(hash.into()))
    }

    /// Makes a secret from the operating system's randomness.
    pub fn random() -> Self {
        let mut bytes = [0; Self::LEN];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        Self::from_bytes(bytes)
    }

    /// A value that tells whether two secrets are equal, and nothing else about them.
    pub fn check_value(&self) -> [u8; Self::LEN] {
        blake3::derive_key("onceward v1 check value", &self.bytes)
    }

    /// The secret itself, for the one place that writes it into a store.
    pub(crate) fn expose(&self) -> &[u8; Self::LEN] {
        &self.bytes
    }

    /// Names a slot by its parts, each with its length before it.
    pub(crate) fn name(&self, parts: [&[u8]; 3]) -> [u8; 32] {
        let mut hasher = Text::<256>::default();
        for part in parts {
            hasher.push(part);
        }
        hasher.keyed(&self.names)
    }

    /// Seals a digest for one slot: the same payload under two keys leaves two unlike seals.
    pub(crate) fn seal(&self, slot: &[u8; 32], digest: &[u8; 32]) -> [u8; 32] {
        let mut both = [0; 64];
        both[..32].copy_from_slice(slot);
        both[32..].copy_from_slice(digest);
        *blake3::keyed_hash(&self.seals, &both).as_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Length-prefixed parts, kept on the stack while they fit: one call of the hash function is
/// several times cheaper than a hasher fed piece by piece.
struct Text<const N: usize> {
    inline: [u8; N],
    len: usize,
    spilled: Vec<u8>,
}

// === impl Text ===

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self {
            inline: [0; N],
            len: 0,
            spilled: Vec::new(),
        }
    }
}

impl<const N: usize> Text<N> {
    fn push(&mut self, part: &[u8]) {
        match seeded(Bug::JoinedName) {
            true => self.append(b"|"),
            false => self.append(&(part.len() as u32).to_le_bytes()),
        }
        self.append(part);
    }

    fn append(&mut self, bytes: &[u8]) {
        if self.spilled.is_empty() && self.len + bytes.len() <= N {
            self.inline[self.len..self.len + bytes.len()].copy_from_slice(bytes);
            self.len += bytes.len();
            return;
        }
        if self.spilled.is_empty() {
            self.spilled.extend_from_slice(&self.inline[..self.len]);
        }
        self.spilled.extend_from_slice(bytes);
    }

    fn keyed(&self, key: &[u8; 32]) -> [u8; 32] {
        let text = match self.spilled.is_empty() {
            true => &self.inline[..self.len],
            false => &self.spilled,
        };
        *blake3::keyed_hash(key, text).as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_of_the_wrong_length_is_refused() {
        assert!(Secret::parse(&"ab".repeat(32)).is_ok());
        assert!(Secret::parse(&"ab".repeat(31)).is_err());
        assert!(Secret::parse("not hex").is_err());
    }

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", Secret::from_bytes([7; 32])), "Secret(..)");
    }

    #[test]
    fn long_parts_hash_like_short_ones() {
        let secret = Secret::from_bytes([7; 32]);
        let long = vec![b'x'; 300];
        let name = secret.name([b"t", &long, b"k"]);
        assert_eq!(name, secret.name([b"t", &long, b"k"]));
        assert_ne!(name, secret.name([b"t", &long[1..], b"xk"]));
    }
}
