//! The search: every state there is, those with the fewest steps first.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use onceward::record::StateName;

use super::state::State;
use super::{Act, Kind, Model, Next, Variant, What};

/// What a search came to.
#[derive(Clone, Debug)]
pub struct Explored {
    /// How many states there are that can be told apart.
    pub states: u64,
    /// How many steps lead from one to another.
    pub steps: u64,
    /// How many steps the last of them is away from the first.
    pub depth: usize,
    /// Whether every state was looked at, or time ran out.
    pub whole: bool,
    /// The shortest way to each kind of violation.
    pub found: Vec<Counterexample>,
    /// What the states show, so that nobody takes an empty model for a safe one.
    pub coverage: Coverage,
    acts: Vec<u64>,
}

/// The shortest way to a violation.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// What is broken at its end.
    pub kind: Kind,
    /// What happens, step by step.
    pub steps: Vec<String>,
}

/// How many states show something that has to be possible.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Coverage {
    /// The record is completed.
    pub completed: u64,
    /// The record is unknown though the work is done.
    pub unknown_done: u64,
    /// The record is unknown, and a late request may still do the work.
    pub unknown_pending: u64,
    /// The claim was taken over.
    pub taken_over: u64,
    /// The key is used again, and its second answer was given.
    pub used_again: u64,
    /// The slot is open: an operator said so, or a release left its fence there.
    pub open: u64,
}

/// Fingerprints are mixed well already.
#[derive(Clone, Copy, Default)]
struct AsIs(u64);

type Prints = HashSet<u64, BuildHasherDefault<AsIs>>;
type Parents = HashMap<u64, u64, BuildHasherDefault<AsIs>>;

/// Explores `variant` with this many workers, as long as `lasts` says, which is told every now and
/// then how many states there are.
///
/// # Panics
///
/// Panics if there are more workers than [`WORKERS_MAX`](super::WORKERS_MAX).
pub fn explore(variant: &Variant, workers: usize, lasts: &dyn Fn(u64) -> bool) -> Explored {
    let mut model = Model::new(variant);
    let first = State::first(workers).settled(variant);
    let mut explored = Explored {
        states: 1,
        steps: 0,
        depth: 0,
        whole: false,
        found: Vec::new(),
        coverage: Coverage::default(),
        acts: vec![0; What::ALL.len()],
    };
    let mut seen = Prints::default();
    seen.insert(first.print());
    // The first state of each kind of violation, and how many steps it is away.
    let mut broken: Vec<(Kind, u64, usize)> = Vec::new();
    let (mut level, mut below, mut next) = (vec![first], Vec::new(), Next::new());
    let mut looked = 0u64;
    while !level.is_empty() {
        for state in level.drain(..) {
            looked += 1;
            if looked.is_multiple_of(1 << 14) && !lasts(explored.states) {
                return explored.with_ways(variant, workers, &broken);
            }
            model.next(&state, &mut next);
            for (act, after) in &next {
                explored.steps += 1;
                explored.acts[act.what() as usize] += 1;
                let after = after.settled(variant);
                let print = after.print();
                if !seen.insert(print) {
                    continue;
                }
                explored.states += 1;
                let bits = model.judge(&after);
                for kind in Kind::of(bits) {
                    if broken.iter().all(|(known, ..)| *known != kind) {
                        broken.push((kind, print, explored.depth + 1));
                    }
                }
                explored.coverage.count(&after, variant);
                below.push(after);
            }
        }
        std::mem::swap(&mut level, &mut below);
        explored.depth += usize::from(!level.is_empty());
    }
    explored.whole = true;
    explored.with_ways(variant, workers, &broken)
}

/// The shortest way to the state with this fingerprint, which is `depth` steps away.
///
/// Parents are kept only here: most searches find nothing to be told the way to.
fn way(variant: &Variant, workers: usize, goal: u64, depth: usize) -> Vec<Act> {
    let mut model = Model::new(variant);
    let first = State::first(workers).settled(variant);
    let mut parents = Parents::default();
    parents.insert(first.print(), first.print());
    let (mut level, mut below, mut next) = (vec![first], Vec::new(), Next::new());
    for _ in 0..depth {
        for state in level.drain(..) {
            model.next(&state, &mut next);
            for (_, after) in &next {
                let after = after.settled(variant);
                let print = after.print();
                if let Entry::Vacant(new) = parents.entry(print) {
                    new.insert(state.print());
                    below.push(after);
                }
            }
        }
        std::mem::swap(&mut level, &mut below);
    }
    let mut prints = vec![goal];
    while prints.len() <= depth {
        prints.push(parents[prints.last().expect("it begins with the goal")]);
    }
    // Walked again without settling, so that each worker keeps its number.
    let mut state = State::first(workers);
    let steps = prints.iter().rev().skip(1).map(|print| {
        model.next(&state, &mut next);
        let leads = |(_, after): &&(Act, State)| after.settled(variant).print() == *print;
        let (act, after) = next.iter().find(leads).expect("one step leads there");
        state = *after;
        *act
    });
    steps.collect()
}

// === impl Explored ===

impl Explored {
    /// How often a kind of step was taken.
    pub fn acts(&self, what: What) -> u64 {
        self.acts[what as usize]
    }

    /// What was found, each kind with the number of steps.
    pub fn kinds(&self) -> Vec<(Kind, usize)> {
        let steps = |it: &Counterexample| (it.kind, it.steps.len());
        self.found.iter().map(steps).collect()
    }

    fn with_ways(
        mut self,
        variant: &Variant,
        workers: usize,
        broken: &[(Kind, u64, usize)],
    ) -> Self {
        for (kind, print, depth) in broken {
            let acts = way(variant, workers, *print, *depth);
            let steps = acts.iter().map(ToString::to_string).collect();
            self.found.push(Counterexample { kind: *kind, steps });
        }
        self.found.sort_by_key(|it| it.kind);
        self
    }
}

// === impl Coverage ===

impl Coverage {
    fn count(&mut self, state: &State, variant: &Variant) {
        let Some(found) = state.slot else {
            return;
        };
        match found.state {
            StateName::Claimed => self.taken_over += u64::from(found.attempt > 1),
            StateName::Completed => {
                self.completed += 1;
                self.used_again += u64::from(state.generation > 0 && state.told[1] != 0);
            }
            StateName::Unknown => {
                self.unknown_done += u64::from(state.effects_now() > 0);
                let pending = state.is_request_pending(variant.is_fencing());
                self.unknown_pending += u64::from(pending && state.effects_now() == 0);
            }
            StateName::Open => self.open += 1,
            // The model is of one key, without identities, and of whole answers.
            StateName::Reserved | StateName::Shedding => {}
        }
    }
}

// === impl Counterexample ===

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in {} steps:", self.kind, self.steps.len())?;
        for (at, step) in self.steps.iter().enumerate() {
            write!(f, "\n  {}. {step}", at + 1)?;
        }
        Ok(())
    }
}

// === impl AsIs ===

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are hashed");
    }

    fn write_u64(&mut self, print: u64) {
        self.0 = print;
    }
}

#[cfg(test)]
mod tests {
    use super::super::VARIANTS;
    use super::*;

    #[test]
    fn every_way_to_break_the_promise_is_found_by_some_mistake() {
        let is_found = |kind: &Kind| {
            let mut found = VARIANTS.iter().flat_map(|it| it.finds);
            found.any(|(found, _)| found == kind)
        };
        let never: Vec<Kind> = Kind::ALL.into_iter().filter(|it| !is_found(it)).collect();
        assert_eq!(never, []);
    }

    #[test]
    fn another_payload_is_answered_where_the_state_comes_first() {
        let leaky = VARIANTS.iter().find(|it| it.letter() == "V").unwrap();
        assert_eq!(explore(leaky, 2, &|_| true).kinds(), leaky.finds);
    }

    #[test]
    fn two_workers_break_no_promise_by_the_protocol_that_ships() {
        for variant in VARIANTS.iter().filter(|it| it.is_safe()) {
            let explored = explore(variant, 2, &|_| true);
            let found = explored.found.first().map(ToString::to_string);
            assert_eq!(found, None, "{}", variant.name);
            assert!(explored.coverage.completed > 0, "{}", variant.name);
        }
    }

    #[test]
    fn a_counterexample_reads_as_numbered_steps() {
        let silent = VARIANTS.iter().find(|it| it.letter() == "B").unwrap();
        let explored = explore(silent, 2, &|_| true);
        let expected = "Duplicate in 7 steps:
  1. worker 1 claims the slot
  2. worker 1 sends the request
  3. worker 1 is served: the work is done
  4. the lease lapses
  5. worker 2 takes the claim over
  6. worker 2 sends the request
  7. worker 2 is served: the work is done";
        assert_eq!(explored.found[0].to_string(), expected);
    }

    #[test]
    fn a_search_ends_when_its_time_does() {
        let opaque = VARIANTS.iter().find(|it| it.letter() == "D").unwrap();
        let explored = explore(opaque, 3, &|states| states < 50_000);
        assert!(!explored.whole);
        assert!(explored.states >= 50_000 && explored.states < 100_000);
    }
}
