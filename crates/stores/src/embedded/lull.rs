//! Lulls: when a sync waits a moment, because many more writes are about to share it.

use std::time::Duration;

/// Whether to wait a moment before a batch is synced.
///
/// A sync costs about as much for a hundred writes as for ten. Where writes keep coming while the
/// writer waits, waiting makes fewer syncs of more writes; where all who could write are in the
/// batch already, it only takes time. Nobody can tell which it is but by trying, so it is tried now
/// and then, and kept up while it pays. A few callers are never held up.
#[derive(Default, Debug)]
pub(super) struct Lull {
    /// How many batches go by until it is tried again.
    pause: u8,
}

// === impl Lull ===

impl Lull {
    /// How long a lull is: about as long as a sync takes on a good disk. On a slower one writes
    /// gather during the sync itself, and need no more time.
    pub(super) const LENGTH: Duration = Duration::from_micros(200);

    /// After a batch of so many writes the next one waits for [`ENOUGH`](Self::ENOUGH) to come.
    pub(super) const CROWD: usize = 96;

    /// How many writes are not worth another wait: a sync shared by twice as many costs each of them
    /// little less.
    pub(super) const ENOUGH: usize = 64;

    /// How long a crowd is waited for at a time, and how often.
    pub(super) const REST: Duration = Duration::from_micros(300);
    pub(super) const RESTS: usize = 4;

    /// The smallest batch that waits.
    const BUSY: usize = 12;

    /// How many batches go by after a lull that did not pay.
    const PAUSE: u8 = 64;

    /// Whether a batch of this many writes is worth a lull.
    pub(super) fn is_worth(&mut self, taken: usize) -> bool {
        if taken < Self::BUSY {
            return false;
        }
        self.pause = self.pause.saturating_sub(1);
        self.pause == 0
    }

    /// Says how many came in a lull, after `before` that were there.
    pub(super) fn brought(&mut self, more: usize, before: usize) {
        if more * 3 < before {
            self.pause = Self::PAUSE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_callers_are_never_held_up() {
        let mut lull = Lull::default();
        assert!(!lull.is_worth(Lull::BUSY - 1));
        assert!(lull.is_worth(Lull::BUSY));
    }

    #[test]
    fn a_lull_is_kept_up_while_it_pays() {
        let mut lull = Lull::default();
        for _ in 0..10 {
            assert!(lull.is_worth(30));
            lull.brought(10, 30);
        }
        lull.brought(9, 30);
        let tries = (0..255).filter(|_| lull.is_worth(30)).count();
        assert_eq!(tries, 255 - usize::from(Lull::PAUSE) + 1);
    }
}
