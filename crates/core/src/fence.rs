//! Fences: the marks that tell one write from every other.

use std::fmt;

use crate::Timestamp;
use crate::bugs::{Bug, seeded};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The mark of one write to a slot.
///
/// Equality decides whether a write still sees what it saw; order serves the history checker
/// and services that refuse older fences. Sixty-four bits of time, then sixty-four random ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u128);

/// Mints fences that no other write in the deployment carries.
///
/// Each is greater than the one before, whatever the clock does: a slot that was emptied keeps no
/// fence to be greater than.
#[derive(Debug)]
pub(crate) struct Mint {
    /// The time of the last fence.
    last: AtomicU64,
    /// Set in simulations, where the same seed has to give the same fences.
    seeded: Option<Mutex<fastrand::Rng>>,
}

// === impl Fence ===

impl Fence {
    /// Returns the fence with these bits, as a store kept them.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// The bits of the fence.
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// The thirty-two hex digits that `Display` prints.
    pub fn to_hex(self) -> [u8; 32] {
        let digit = |place: u32| b"0123456789abcdef"[(self.0 >> (4 * place)) as usize & 0xf];
        let mut digits = [0; 32];
        for (place, written) in (0..).zip(digits.iter_mut().rev()) {
            *written = digit(place);
        }
        digits
    }

    /// Mints a fence for a write over `seen`, at a store's time.
    ///
    /// It is greater than `seen` even when the store's clock stood still or went back, so fences
    /// of a slot increase across take-overs, restarts and failovers.
    pub fn mint(seen: Option<Self>, store_time: Timestamp) -> Self {
        Self::new(seen, store_time, fastrand::u64(..))
    }

    fn new(seen: Option<Self>, store_time: Timestamp, random: u64) -> Self {
        let floor = seen.map_or(0, |fence| fence.time().saturating_add(1));
        let time = match seeded(Bug::FenceRestarts) {
            true => floor,
            false => store_time.as_micros().max(floor),
        };
        Self((u128::from(time) << 64) | u128::from(random))
    }

    const fn time(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

/// Thirty-two hex digits, as services behind us read them.
impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.to_hex()).expect("hex digits are ASCII"))
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fence({self})")
    }
}

// === impl Mint ===

impl Mint {
    /// A mint whose randomness comes from the operating system, by way of each thread.
    pub(crate) fn random() -> Self {
        Self {
            last: AtomicU64::new(0),
            seeded: None,
        }
    }

    /// A mint that repeats itself for the same seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self {
            last: AtomicU64::new(0),
            seeded: Some(Mutex::new(fastrand::Rng::with_seed(seed))),
        }
    }

    /// A random number, the same one for the same seed.
    pub(crate) fn chance(&self) -> u64 {
        match &self.seeded {
            None => fastrand::u64(..),
            Some(rng) => rng.lock().u64(..),
        }
    }

    /// Mints a fence for a write over `seen`; see [`Fence::mint`].
    pub(crate) fn next(&self, seen: Option<Fence>, store_time: Timestamp) -> Fence {
        let random = self.chance();
        let fence = Fence::new(seen, store_time, random);
        let last = self
            .last
            .fetch_max(fence.time(), Ordering::Relaxed)
            .saturating_add(1);
        if fence.time() >= last {
            return fence;
        }
        // Another fence has this time already: take the next one that nobody has.
        let own = self.last.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        Fence::new(seen, Timestamp::from_micros(own), random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_increase_when_the_clock_stands_still_or_steps_back() {
        let mint = Mint::random();
        let first = mint.next(None, Timestamp::from_micros(1_000));
        let second = mint.next(Some(first), Timestamp::from_micros(1_000));
        let third = mint.next(Some(second), Timestamp::from_micros(1));
        assert!(first < second && second < third);
    }

    #[test]
    fn fences_increase_without_a_fence_to_be_greater_than() {
        let mint = Mint::random();
        let fences = [(); 100].map(|()| mint.next(None, Timestamp::from_micros(1_000)));
        assert!(fences.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn a_seed_repeats_its_fences() {
        let fences = |seed| {
            let mint = Mint::seeded(seed);
            [(); 3].map(|()| mint.next(None, Timestamp::from_micros(5)))
        };
        assert_eq!(fences(1), fences(1));
        assert_ne!(fences(1), fences(2));
    }

    #[test]
    fn display_is_thirty_two_hex_digits() {
        let fence = Fence::from_bits(0xab);
        assert_eq!(fence.to_string(), format!("{:0>32}", "ab"));
    }
}
