//! The model: every order of events around one key, breadth first.
//!
//! A few workers ask for the same work, hold it, send it to a service and say how it ended. Every
//! message may be lost, late or unheard, a lease may lapse whenever it likes, and a worker that
//! dies or pauses is one that does not act. So no clock has a value here, and every error of a
//! clock is covered. What follows from a record, and what a write puts in its place, is not
//! modelled: [`decide`] and the moves that ship are asked. How an engine asks again, recognises
//! itself and takes back what it never learned of is written out here once more.
//!
//! [`VARIANTS`] are the protocol under each class of effect, which has to be safe, and mistakes
//! that others have made, each of which has to be found in as many steps as it takes.
//!
//! Reading, deciding and writing are one step here. Nothing is lost by that: a write names the
//! fence that was read, so it changes something only if nobody wrote meanwhile, and what was due
//! when it was read is due later too.
//!
//! Limits: one key, two generations, one failover; a worker asks for a claim three times at the
//! most, and of its tries two may be on their way at once. Being safe is all that is judged here,
//! not getting done.
//!
//! [`decide`]: onceward::protocol::decide

use onceward::Duty;

mod act;
mod asking;
mod judge;
mod search;
mod service;
mod shipped;
mod state;
mod variants;
mod work;
mod world;

pub use act::What;
pub use judge::Kind;
pub use search::{Counterexample, Coverage, Explored, explore};
pub use state::WORKERS_MAX;
pub use variants::{Operator, Service, Twist, VARIANTS, Variant};

use act::Act;
use shipped::{Choice, Look, Move, Shipped};
use state::{Phase, Sketch, State};

/// A variant, with the protocol that it asks.
#[derive(Debug)]
struct Model<'a> {
    variant: &'a Variant,
    shipped: Shipped,
}

/// The states that one may lead to, with what happens on the way.
type Next = Vec<(Act, State)>;

// === impl Model ===

impl<'a> Model<'a> {
    fn new(variant: &'a Variant) -> Self {
        Self {
            variant,
            shipped: Shipped::new(variant.effect),
        }
    }

    /// Collects everything that can happen next.
    fn next(&mut self, state: &State, next: &mut Next) {
        next.clear();
        // What broke on the way here is noted; what breaks next is another matter.
        let state = &State {
            broken: 0,
            ..*state
        };
        for (at, worker) in state.workers.iter().enumerate() {
            match worker.phase {
                Phase::Idle => self.arrives(state, at, next),
                Phase::Asking => self.asks_again(state, at, next),
                Phase::Holds => self.holds(state, at, next),
                Phase::Sent => self.waits(state, at, next),
                Phase::Done | Phase::Doubts | Phase::NotDone => self.ends(state, at, next),
                Phase::Strayed | Phase::Over => {}
            }
            self.late(state, at, next);
        }
        self.world(state, next);
    }

    /// What a newcomer finds and does, in this variant.
    fn look(&mut self, slot: Option<Sketch>) -> Look {
        let look = self.shipped.look(slot);
        let choice = match (self.variant.twist, look.choice, slot) {
            (Twist::Silent | Twist::Unfenced, Choice::Mark | Choice::Refuse, Some(found))
                if found.is_unsettled() =>
            {
                take_over(found)
            }
            (
                Twist::Silent,
                Choice::Claim {
                    duty: Duty::Probe, ..
                },
                Some(found),
            ) => take_over(found),
            _ => look.choice,
        };
        let answers = matches!(choice, Choice::Replay(_));
        let leaks = look.leaks || self.variant.twist == Twist::StateFirst && answers;
        Look {
            choice,
            leaks,
            ..look
        }
    }

    /// Returns the fences that a write may carry, each with the state in which it is new.
    ///
    /// A fence is greater than the one it is written over. One for an empty slot goes by the
    /// writer's idea of the time alone: it may also be less than the others, where order counts
    /// and these are not old. No clock is a whole retention late.
    fn mint(&self, state: &State, over: bool) -> impl Iterator<Item = (State, u8)> + use<> {
        let mut state = *state;
        let (mut newest, mut lowest) = (0, None);
        state.fences(|fence| newest = newest.max(*fence));
        if self.variant.restarts() {
            newest = state.slot.map_or(0, |found| found.fence);
        } else if self.variant.is_fencing() && !over && state.freed {
            let mut shifted = state;
            shifted.fences(|fence| *fence += u8::from(*fence != 0));
            lowest = Some((shifted, 1));
        }
        [Some((state, newest + 1)), lowest].into_iter().flatten()
    }

    /// Writes over the record in the slot, which the writer has read.
    fn put(&mut self, state: &State, write: Move) -> (State, u8) {
        let (mut after, fence) = self
            .mint(state, true)
            .next()
            .expect("there is always a newer fence");
        after.slot = self.shipped.moved(state.slot, write, fence);
        after.freed = after.slot.is_none();
        let grows = |new: Sketch| state.slot.is_none_or(|old| new.fence > old.fence);
        if !after.slot.is_none_or(grows) {
            after.breaks(Kind::StaleWrite);
        }
        // What came before a recovery point has happened, whatever came of the rest.
        let had_point = state.slot.is_some_and(|old| old.point);
        if had_point && after.slot.is_none_or(Sketch::is_free) {
            after.breaks(Kind::Forgotten);
        }
        (after, fence)
    }
}

fn take_over(found: Sketch) -> Choice {
    Choice::Claim {
        over: found.fence,
        duty: Duty::Repeat,
    }
}
