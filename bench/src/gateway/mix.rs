//! Mixes: which keys a load consists of, and which of them come again.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::payment::Name;

/// Which requests a load consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mix {
    /// Keys never used before.
    First,
    /// Keys whose work is done, in no order.
    Replay(Range<u64>),
    /// Every key twice, the second time when the first is answered.
    Half,
    /// No keys.
    Unkeyed,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) name: Name,
    /// Whether its work was done before.
    pub(crate) again: bool,
}

/// The requests of one connection.
#[derive(Debug)]
pub(crate) struct Script {
    mix: Mix,
    numbers: Arc<AtomicU64>,
    random: fastrand::Rng,
    /// The key that is to come again.
    last: Option<u64>,
}

// === impl Mix ===

impl Mix {
    pub(crate) fn is_keyed(&self) -> bool {
        *self != Self::Unkeyed
    }
}

// === impl Script ===

impl Script {
    /// Returns the script of a caller; callers with the same `numbers` share no new key.
    pub(crate) fn new(mix: Mix, numbers: Arc<AtomicU64>, caller: usize) -> Self {
        Self {
            mix,
            numbers,
            random: fastrand::Rng::with_seed(caller as u64),
            last: None,
        }
    }

    /// Returns the next request.
    pub(crate) fn next(&mut self) -> Ask {
        let fresh = || self.numbers.fetch_add(1, Ordering::Relaxed);
        let (number, again) = match &self.mix {
            Mix::Unkeyed => {
                return Ask {
                    name: Name::None,
                    again: false,
                };
            }
            Mix::First => (fresh(), false),
            Mix::Replay(keys) => (self.random.u64(keys.clone()), true),
            Mix::Half => match self.last.take() {
                Some(last) => (last, true),
                None => {
                    let number = fresh();
                    self.last = Some(number);
                    (number, false)
                }
            },
        };
        Ask {
            name: Name::Key(number),
            again,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{Arc, AtomicU64, Mix, Name, Script};

    fn asks(mix: Mix, count: usize) -> Vec<(Name, bool)> {
        let mut script = Script::new(mix, Arc::new(AtomicU64::new(10)), 3);
        let asks = (0..count).map(|_| script.next());
        asks.map(|it| (it.name, it.again)).collect()
    }

    #[test]
    fn half_asks_for_every_key_twice_in_a_row() {
        let expected = [(10, false), (10, true), (11, false), (11, true)];
        assert_eq!(
            asks(Mix::Half, 4),
            expected.map(|(number, again)| (Name::Key(number), again))
        );
    }

    #[test]
    fn replays_stay_among_the_finished_keys() {
        let asked: HashSet<_> = asks(Mix::Replay(5..8), 100)
            .into_iter()
            .map(|(name, again)| match name {
                Name::Key(number) if again => number,
                other => panic!("{other:?} is no replay"),
            })
            .collect();
        assert_eq!(asked, HashSet::from([5, 6, 7]));
    }

    #[test]
    fn two_callers_share_no_new_key() {
        let numbers = Arc::new(AtomicU64::new(0));
        let mut callers =
            [0, 1].map(|caller| Script::new(Mix::First, Arc::clone(&numbers), caller));
        let asks = (0..100).map(|turn| callers[turn % 2].next());
        let distinct: HashSet<_> = asks.map(|it| it.name.bytes()).collect();
        assert_eq!(distinct.len(), 100);
    }
}
