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

    /// After a batch of so many writes the next one waits until a good part of a crowd is there
    /// again.
    pub(super) const CROWD: usize = 96;

    /// How many writes are a good part of it: a sync shared by twice as many costs each of them
    /// little less.
    const ENOUGH: usize = 64;

    /// How long a crowd is waited for at a time, and how often.
    const REST: Duration = Duration::from_micros(300);
    const RESTS: usize = 4;

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

    /// Sleeps until a good part of a crowd is there, or nobody comes any more. `look` returns how many
    /// wait, and whether there is room for more.
    ///
    /// Where so many are served, the processor is what is scarce. Who looks for them all the time
    /// takes it from them, and a thread that yields is the last to get it back.
    pub(super) fn rest(look: impl Fn() -> (usize, bool), mut sleep: impl FnMut(Duration)) {
        let (mut before, mut has_room) = look();
        for _ in 0..Self::RESTS {
            if before >= Self::ENOUGH || !has_room {
                break;
            }
            sleep(Self::REST);
            let (after, room) = look();
            if after == before {
                break;
            }
            (before, has_room) = (after, room);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

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

    /// How often a crowd is waited for of which so many are there at first, and after each rest.
    fn rests(there: &[usize], room: usize) -> usize {
        let rests = Cell::new(0);
        let look = || {
            let waiting = there[rests.get().min(there.len() - 1)];
            (waiting, waiting < room)
        };
        Lull::rest(look, |_| rests.set(rests.get() + 1));
        rests.get()
    }

    #[test]
    fn a_crowd_is_waited_for_while_it_comes_and_until_a_good_part_is_there() {
        let no_end = usize::MAX;
        assert_eq!(rests(&[Lull::ENOUGH], no_end), 0);
        assert_eq!(rests(&[0, 10, Lull::ENOUGH, 500], no_end), 2);
        assert_eq!(rests(&[0], no_end), 1, "nobody comes");
        assert_eq!(rests(&[0, 10, 10], no_end), 2, "nobody else comes");
        assert_eq!(rests(&[0, 1, 2, 3, 4, 5, 6], no_end), Lull::RESTS);
        assert_eq!(rests(&[0, 20, 30], 20), 1, "there is no room for more");
    }
}
