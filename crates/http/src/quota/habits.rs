//! Habits: how a caller chooses its keys, as far as that can be told from outside.

use std::time::Duration;

/// What is wrong with the keys of a caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Weak {
    /// One key for many payloads.
    Constant,
    /// Keys that are easily guessed, or met by chance.
    Short,
    /// Numbers that count up.
    Counting,
}

/// What is remembered of the keys of one caller.
#[derive(Clone, Debug, Default)]
pub(super) struct Habits {
    /// The last key, if it was a number.
    number: Option<u64>,
    /// How many keys in a row went on from the one before.
    run: u8,
    /// A digest of the last key, how many claims in a row came under it, and how many mismatches.
    last: Option<(u64, u8, u8)>,
    /// How many weak keys there were since the log was told.
    seen: u8,
    told: Option<Duration>,
}

/// How often a habit has to be seen until it is one.
const HABIT: u8 = 3;

/// How many claims in a row come under one key until that is a habit: one for each step of some
/// work, on a route of its own, is none.
const CLAIMS: u8 = 8;

/// How often the log is told about one caller.
const TELL_EVERY: Duration = Duration::from_secs(3600);

/// Fewer bits than this are few: a million keys.
const BITS_MIN: u8 = 20;

/// How far the next number of a caller that counts may be, as its requests overtake each other.
const STRIDE: u64 = 4;

// === impl Habits ===

impl Habits {
    /// Notes the key of a new claim, and a digest of it. Returns what is wrong with it, if anything
    /// is.
    pub(super) fn claimed(&mut self, key: &str, digest: u64) -> Option<Weak> {
        let number = digits(key);
        let follows = match (self.number, number) {
            (Some(last), Some(next)) => (1..=STRIDE).contains(&next.abs_diff(last)),
            _ => false,
        };
        self.number = number;
        self.run = if follows {
            self.run.saturating_add(1)
        } else {
            0
        };
        let (claims, _) = self.note(digest, 1, 0);
        if claims >= CLAIMS {
            return Some(Weak::Constant);
        }
        if self.run >= HABIT {
            return Some(Weak::Counting);
        }
        is_easy(key).then_some(Weak::Short)
    }

    /// Notes that the key with this digest was used for another payload. Returns what is wrong
    /// with it.
    pub(super) fn mismatched(&mut self, digest: u64) -> Option<Weak> {
        let (_, mismatches) = self.note(digest, 0, 1);
        (mismatches >= HABIT).then_some(Weak::Constant)
    }

    /// Adds to what came under a key in a row, and returns the sums.
    fn note(&mut self, digest: u64, claims: u8, mismatches: u8) -> (u8, u8) {
        let (so_far, missed) = match self.last {
            Some((last, so_far, missed)) if last == digest => (so_far, missed),
            _ => (0, 0),
        };
        let sums = (
            so_far.saturating_add(claims),
            missed.saturating_add(mismatches),
        );
        self.last = Some((digest, sums.0, sums.1));
        sums
    }

    /// Whether to tell the log that the keys of this caller are weak.
    pub(super) fn tells(&mut self, weak: Weak, now: Duration) -> bool {
        self.seen = self.seen.saturating_add(1);
        let lately = self.told.is_some_and(|told| now < told + TELL_EVERY);
        // A single short key may be somebody who tries things out.
        let tells = !lately && (weak != Weak::Short || self.seen >= HABIT);
        if tells {
            self.told = Some(now);
            self.seen = 0;
        }
        tells
    }
}

// === impl Weak ===

impl Weak {
    /// What it is called in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Short => "short",
            Self::Counting => "counting",
        }
    }
}

fn digits(key: &str) -> Option<u64> {
    let plain = key.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| key.parse().ok()).flatten()
}

/// Whether a few bits are enough to guess a key: as if each character was any of those that occur
/// in it. Simple, and wrong about keys that only look random; a UUID has far more than enough.
fn is_easy(key: &str) -> bool {
    let mut seen = 0_u128;
    for byte in key.bytes() {
        seen |= 1 << (byte & 127);
    }
    let kinds = seen.count_ones();
    // Most keys have enough of them by the roughest count.
    let at_least = key.len() * kinds.max(1).ilog2() as usize;
    at_least < usize::from(BITS_MIN)
        && (key.len() as f32 * (kinds as f32).log2()) < f32::from(BITS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_keys_are_strong_and_short_ones_are_not() {
        let weak = |key: &str| Habits::default().claimed(key, 1);
        for key in [
            "018f4a52-9b6e-7c31-8d20-5a7b9c1e2f30",
            "9f86d081884c7d65",
            "order-1001-payment",
            "84729104831",
        ] {
            assert_eq!(weak(key), None, "{key}");
        }
        for key in ["1", "k1", "retry", "123456", "aaaaaaaaaaaaaaaaaaaaaaaa"] {
            assert_eq!(weak(key), Some(Weak::Short), "{key}");
        }
    }

    #[test]
    fn numbers_that_count_up_are_a_habit() {
        let mut habits = Habits::default();
        let found: Vec<_> = (0..5)
            .map(|step| habits.claimed(&format!("{}", 1_700_000_000_000_u64 + step), step))
            .collect();
        let counting = Some(Weak::Counting);
        assert_eq!(found, [None, None, None, counting, counting]);
        assert_eq!(habits.claimed("9930120471144", 9), None);
    }

    #[test]
    fn one_key_for_many_payloads_is_a_habit() {
        let mut habits = Habits::default();
        assert_eq!(habits.mismatched(7), None);
        assert_eq!(habits.mismatched(8), None);
        assert_eq!(habits.mismatched(8), None);
        assert_eq!(habits.mismatched(8), Some(Weak::Constant));
    }

    #[test]
    fn one_key_for_many_operations_is_a_habit() {
        let mut habits = Habits::default();
        let mut claim = || habits.claimed("the-one-constant-key", 7);
        let found: Vec<_> = (0..9).map(|_| claim()).collect();
        assert_eq!(found[..7], [None; 7]);
        assert_eq!(found[7..], [Some(Weak::Constant); 2]);
        assert_eq!(habits.claimed("9f86d081884c7d65", 8), None);
    }

    #[test]
    fn log_is_told_once_an_hour() {
        let (mut habits, start) = (Habits::default(), Duration::from_secs(10));
        assert!(!habits.tells(Weak::Short, start));
        assert!(!habits.tells(Weak::Short, start));
        assert!(habits.tells(Weak::Short, start));
        assert!(!habits.tells(Weak::Constant, start + TELL_EVERY / 2));
        assert!(habits.tells(Weak::Constant, start + TELL_EVERY));
    }
}
