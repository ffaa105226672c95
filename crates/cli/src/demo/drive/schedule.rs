//! The schedule: what goes wrong in each operation, drawn from a seed before anything runs.
//!
//! It is a deck of cards, one for each kind of noise on each path, shuffled and dealt again and
//! again: chance decides who is hit, and everybody who looks sees every kind.

use std::time::Duration;

use fastrand::Rng;

use super::super::service::Trouble;

/// Something that a client wants done once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Operation {
    /// Its order, which the ledger shows.
    pub(super) order: String,
    /// Its key, the same in every attempt.
    pub(super) key: String,
    pub(super) amount: u64,
    /// Whether it goes where the service knows keys itself.
    pub(super) keyed: bool,
    /// What goes wrong. When it is over, plain attempts follow.
    pub(super) rounds: Vec<Round>,
}

/// Attempts that are made at once, and how long the client rests when none of them was answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Round {
    pub(super) at_once: Vec<Attempt>,
    pub(super) pause: Duration,
}

/// One request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Attempt {
    /// Another one than the operation's in a changed payload.
    pub(super) amount: u64,
    pub(super) trouble: Option<Trouble>,
    pub(super) cut: Option<Cut>,
}

/// Where a client breaks the connection off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    /// After this many hundredths of the request.
    Sending(usize),
    /// This long after the whole request was sent.
    Waiting(Duration),
    /// When the first byte of the answer comes.
    Answered,
}

/// What goes wrong in an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Noise {
    Nothing,
    AnswerCut,
    HangsUp,
    LostAnswer,
    Parallel,
    Changed,
    Unavailable,
}

const NOISES: [Noise; 7] = [
    Noise::Nothing,
    Noise::AnswerCut,
    Noise::HangsUp,
    Noise::LostAnswer,
    Noise::Parallel,
    Noise::Changed,
    Noise::Unavailable,
];

/// How long a client rests at the most.
const PAUSE_MAX_MS: u64 = 30;

/// Returns the operations of a run; the same for the same seed.
pub(super) fn draw(operations: u32, seed: u64) -> Vec<Operation> {
    let mut rng = Rng::with_seed(seed);
    let mut deck = Vec::new();
    (1..=operations)
        .map(|number| {
            if deck.is_empty() {
                deck.extend(NOISES.map(|noise| (noise, false)));
                deck.extend(NOISES.map(|noise| (noise, true)));
                rng.shuffle(&mut deck);
            }
            let (noise, keyed) = deck.pop().expect("it was just filled");
            let amount = rng.u64(1..=500) * 10;
            Operation {
                order: format!("o-{number}"),
                key: format!("{:032x}", rng.u128(..)),
                amount,
                keyed,
                rounds: rounds(noise, amount, &mut rng),
            }
        })
        .collect()
}

fn rounds(noise: Noise, amount: u64, rng: &mut Rng) -> Vec<Round> {
    let plain = Attempt::plain(amount);
    let mut rounds = Vec::new();
    // Now and then a request does not even arrive; nothing is charged by it.
    if rng.u8(..4) == 0 {
        rounds.push(vec![plain.cut(Cut::Sending(rng.usize(1..100)))]);
    }
    match noise {
        Noise::Nothing => {}
        Noise::AnswerCut => rounds.push(vec![plain.cut(Cut::Answered)]),
        Noise::HangsUp => {
            let hangs_up = Cut::Waiting(millis(rng, 1..60));
            rounds.push(vec![plain.slow(millis(rng, 40..120)).cut(hangs_up)]);
        }
        Noise::LostAnswer => rounds.push(vec![plain.trouble(Trouble::LostAnswer)]),
        Noise::Parallel => {
            let slow = plain.slow(millis(rng, 100..250));
            rounds.push(vec![slow; rng.usize(2..=4)]);
        }
        Noise::Changed => {
            // The client has the answer in its hands when it breaks down, and comes back with
            // another amount. Then it remembers.
            rounds.push(vec![plain.cut(Cut::Answered)]);
            rounds.push(vec![Attempt::plain(amount + 1)]);
        }
        Noise::Unavailable => {
            let closed = plain.trouble(Trouble::Unavailable);
            rounds.extend(vec![vec![closed]; rng.usize(1..=3)]);
        }
    }
    let round = |at_once| Round {
        at_once,
        pause: millis(rng, 1..PAUSE_MAX_MS),
    };
    rounds.into_iter().map(round).collect()
}

fn millis(rng: &mut Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.u64(range))
}

// === impl Round ===

impl Round {
    /// One attempt, with nothing wrong.
    pub(super) fn plain(amount: u64) -> Self {
        Self {
            at_once: vec![Attempt::plain(amount)],
            pause: Duration::from_millis(PAUSE_MAX_MS),
        }
    }
}

// === impl Attempt ===

impl Attempt {
    fn plain(amount: u64) -> Self {
        Self {
            amount,
            trouble: None,
            cut: None,
        }
    }

    fn trouble(self, trouble: Trouble) -> Self {
        Self {
            trouble: Some(trouble),
            ..self
        }
    }

    fn slow(self, time: Duration) -> Self {
        self.trouble(Trouble::Slow(time))
    }

    fn cut(self, cut: Cut) -> Self {
        Self {
            cut: Some(cut),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// As few operations as can be asked for.
    const FEWEST: u32 = super::super::OPERATIONS_MIN as u32;

    #[test]
    fn the_same_seed_draws_the_same_noise() {
        assert_eq!(draw(FEWEST, 1), draw(FEWEST, 1));
        assert_ne!(draw(FEWEST, 1), draw(FEWEST, 2));
    }

    #[test]
    fn orders_and_keys_are_one_per_operation() {
        let operations = draw(1_000, 3);
        let orders: HashSet<_> = operations.iter().map(|one| &one.order).collect();
        let keys: HashSet<_> = operations.iter().map(|one| &one.key).collect();
        assert_eq!((orders.len(), keys.len()), (1_000, 1_000));
    }

    #[test]
    fn every_seed_has_every_noise_on_both_paths() {
        for seed in 0..200 {
            let operations = draw(FEWEST, seed);
            for keyed in [false, true] {
                let here = || operations.iter().filter(|one| one.keyed == keyed);
                let any = |wanted: &dyn Fn(&Operation, &Round) -> bool| {
                    here().any(|one| one.rounds.iter().any(|round| wanted(one, round)))
                };
                assert!(here().count() >= 21, "seed {seed}");
                assert!(any(&|_, round| round.at_once.len() > 1), "seed {seed}");
                let lost = Some(Trouble::LostAnswer);
                assert!(any(&|_, round| round.at_once[0].trouble == lost));
                assert!(any(&|one, round| round.at_once[0].amount != one.amount));
                assert!(any(&|_, round| round.at_once[0].cut == Some(Cut::Answered)));
            }
        }
    }

    #[test]
    fn a_payload_changes_only_after_the_first_was_carried_out() {
        for operation in draw(1_000, 4) {
            let changes = |round: &Round| round.at_once[0].amount != operation.amount;
            if let Some(at) = operation.rounds.iter().position(changes) {
                assert_eq!(operation.rounds[at - 1].at_once[0].cut, Some(Cut::Answered));
            }
        }
    }
}
