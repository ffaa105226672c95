//! Fingerprints: what binds a key to the payload it was first used with.

use subtle::ConstantTimeEq as _;

use crate::{Secret, SlotId};

/// A digest of everything that makes a request the same request.
///
/// Under one key only requests with the same fingerprint are retries of each other; any other
/// payload is a mismatch.
///
/// ```
/// use onceward::Fingerprint;
///
/// assert_eq!(Fingerprint::of(b"{\"amount\":100}"), Fingerprint::of(b"{\"amount\":100}"));
/// assert_ne!(Fingerprint::of(b"{\"amount\":100}"), Fingerprint::of(b"{\"amount\":900}"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint {
    rules: u16,
    digest: [u8; 32],
}

/// Makes a [`Fingerprint`] of several parts, each with its length before it, so that no two
/// lists of parts run into each other.
#[derive(Clone, Debug)]
pub struct FingerprintBuilder {
    rules: u16,
    hasher: blake3::Hasher,
}

/// A fingerprint as a record keeps it: keyed by the deployment's secret and bound to its slot,
/// so that a dump tells neither small payloads nor which slots had equal ones.
#[derive(Clone, Copy, Debug)]
pub struct Seal {
    /// The version of the rules that made the fingerprint.
    pub rules: u16,
    /// The keyed digest.
    pub digest: [u8; 32],
}

// === impl Fingerprint ===

impl Fingerprint {
    /// Returns the fingerprint of one payload, under rules version 0.
    pub fn of(payload: &[u8]) -> Self {
        Self::builder(0).part(payload).finish()
    }

    /// Returns the fingerprint of several parts: what [`Fingerprint::builder`] makes of them, and
    /// sooner where they are small.
    pub fn of_parts(rules: u16, parts: &[&[u8]]) -> Self {
        const SMALL: usize = 1024;
        const PREFIX: usize = size_of::<u64>();
        let len: usize = parts.iter().map(|part| PREFIX + part.len()).sum();
        if len > SMALL {
            let builder = Self::builder(rules);
            return parts
                .iter()
                .fold(builder, |print, part| print.part(part))
                .finish();
        }
        // One call of the hash function costs a fraction of a hasher that is fed piece by piece.
        let mut text = [0; SMALL];
        let mut rest = &mut text[..];
        for part in parts {
            let (prefix, behind) = rest.split_at_mut(PREFIX);
            let (body, behind) = behind.split_at_mut(part.len());
            prefix.copy_from_slice(&(part.len() as u64).to_le_bytes());
            body.copy_from_slice(part);
            rest = behind;
        }
        Self {
            rules,
            digest: *blake3::hash(&text[..len]).as_bytes(),
        }
    }

    /// Starts a fingerprint under a version of the rules that decide which parts count.
    ///
    /// A deployment that changes the rules gives each arrival the fingerprint under the old
    /// rules as well ([`Arrival::or`](crate::Arrival::or)), until old records have expired.
    pub fn builder(rules: u16) -> FingerprintBuilder {
        FingerprintBuilder {
            rules,
            hasher: blake3::Hasher::new(),
        }
    }

    /// Returns the fingerprint as the record in `slot` keeps it.
    pub fn seal(&self, secret: &Secret, slot: SlotId) -> Seal {
        Seal {
            rules: self.rules,
            digest: secret.seal(slot.as_bytes(), &self.digest),
        }
    }
}

// === impl FingerprintBuilder ===

impl FingerprintBuilder {
    /// Adds a part.
    #[must_use]
    pub fn part(mut self, bytes: &[u8]) -> Self {
        self.hasher.update(&(bytes.len() as u64).to_le_bytes());
        self.hasher.update(bytes);
        self
    }

    /// Returns the fingerprint of the parts added.
    pub fn finish(self) -> Fingerprint {
        Fingerprint {
            rules: self.rules,
            digest: *self.hasher.finalize().as_bytes(),
        }
    }
}

// === impl Seal ===

/// In constant time: how long a comparison takes tells nothing about the payload.
impl PartialEq for Seal {
    fn eq(&self, other: &Self) -> bool {
        // Word by word: byte by byte takes longer than the rest of a replay.
        let words = |seal: &Self| {
            let (words, _) = seal.digest.as_chunks::<8>();
            <[[u8; 8]; 4]>::try_from(words)
                .expect("thirty-two bytes are four words")
                .map(u64::from_le_bytes)
        };
        let (ours, theirs) = (words(self), words(other));
        let differences = ours.iter().zip(theirs).fold(0, |sum, (a, b)| sum | (a ^ b));
        self.rules == other.rules && bool::from(differences.ct_eq(&0))
    }
}

impl Eq for Seal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        let one = Fingerprint::builder(0).part(b"ab").part(b"c").finish();
        let two = Fingerprint::builder(0).part(b"a").part(b"bc").finish();
        assert_ne!(one, two);
    }

    #[test]
    fn parts_of_every_size_make_what_the_builder_makes() {
        for len in [0, 1, 63, 64, 1007, 1008, 1009, 5000] {
            let (long, short) = (vec![7; len], [3; 8]);
            let built = Fingerprint::builder(5).part(&long).part(&short).finish();
            assert_eq!(Fingerprint::of_parts(5, &[&long, &short]), built, "{len}");
        }
    }

    #[test]
    fn an_empty_part_is_a_part() {
        let none = Fingerprint::builder(0).finish();
        assert_ne!(none, Fingerprint::of(b""));
    }

    #[test]
    fn equal_payloads_in_two_slots_leave_unlike_seals() {
        let secret = Secret::from_bytes([1; 32]);
        let payload = Fingerprint::of(b"payload");
        let one = payload.seal(&secret, SlotId::from_bytes([1; 32]));
        let two = payload.seal(&secret, SlotId::from_bytes([2; 32]));
        assert_ne!(one, two);
    }

    #[test]
    fn other_rules_make_another_seal() {
        let secret = Secret::from_bytes([1; 32]);
        let slot = SlotId::from_bytes([1; 32]);
        let one = Fingerprint::builder(1).part(b"x").finish();
        let two = Fingerprint::builder(2).part(b"x").finish();
        assert_ne!(one.seal(&secret, slot), two.seal(&secret, slot));
    }
}
