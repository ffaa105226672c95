//! What happens without a worker: time, sweeps, operators, failovers, the cache, and callers who
//! ask for what is done.

use onceward::record::StateName;

use super::state::{GENERATIONS, State};
use super::{Act, Choice, Model, Move, Next, Operator, Twist, What};

impl Model<'_> {
    pub(super) fn world(&mut self, state: &State, next: &mut Next) {
        self.time(state, next);
        self.sweeps(state, next);
        self.operator(state, next);
        if let Choice::Replay(outcome) = self.look(state.slot).choice {
            let mut after = *state;
            self.answers(&mut after, outcome);
            next.push((Act::to_all(What::Asks), after));
        }
        if self.variant.caches {
            self.cache(state, next);
        }
        if self.variant.forgets {
            Self::failover(state, next);
        }
    }

    /// A lease may lapse and a retention may end at any moment.
    fn time(&mut self, state: &State, next: &mut Next) {
        let Some(found) = state.slot.filter(|found| !found.due) else {
            return;
        };
        if !self.look(state.slot).comes_due {
            return;
        }
        let mut after = *state;
        after.slot = after.slot.map(|it| super::Sketch { due: true, ..it });
        let what = match found.state {
            StateName::Claimed | StateName::Unknown => What::Lapses,
            StateName::Completed | StateName::Open | StateName::Reserved | StateName::Shedding => {
                let last = usize::from(state.generation) + 1 == self.variant.generations;
                if last && found.state == StateName::Completed {
                    return;
                }
                // What is cached expires before the record does, even while it is on its way.
                if self.variant.twist != Twist::CacheOutlives {
                    (after.cached, after.filling) = (0, 0);
                }
                What::Expires
            }
        };
        next.push((Act::to_all(what), after));
    }

    fn sweeps(&mut self, state: &State, next: &mut Next) {
        let Some(found) = state.slot.filter(|found| found.due) else {
            return;
        };
        if self.look(state.slot).expired {
            let mut after = *state;
            (after.slot, after.freed) = (None, false);
            let over_answer = found.state == StateName::Completed;
            after.generation += u8::from(over_answer);
            debug_assert!(
                usize::from(after.generation) < GENERATIONS,
                "as time has it"
            );
            next.push((Act::to_all(What::Sweeps), after));
        } else if found.state == StateName::Claimed {
            let (after, _) = self.put(state, Move::Unsettle);
            next.push((Act::to_all(What::SweepsLapsed), after));
        }
    }

    /// An operator settles what is unknown, or lapsed, by what the service has in its books.
    fn operator(&mut self, state: &State, next: &mut Next) {
        if self.variant.operator == Operator::Away
            || !state.slot.is_some_and(super::Sketch::is_unsettled)
        {
            return;
        }
        if state.effects_now() > 0 {
            let answer = State::first_answer(state.generation);
            let (after, _) = self.put(state, Move::SettleDone(answer));
            next.push((Act::to_all(What::SettlesDone), after));
        } else if self.variant.operator == Operator::Hasty || self.is_quiet(state) {
            let (after, _) = self.put(state, Move::SettleNotDone);
            next.push((Act::to_all(What::SettlesNotDone), after));
        }
    }

    fn cache(&self, state: &State, next: &mut Next) {
        let mut after = *state;
        if state.filling != 0 && self.variant.twist != Twist::CachesFree {
            (after.cached, after.filling) = (state.filling, 0);
            next.push((Act::to_all(What::Caches), after));
        }
        if state.cached != 0 {
            let mut after = *state;
            after.cached = 0;
            next.push((Act::to_all(What::Forgets), after));
        }
        if state.cached != 0 && state.cached != State::FREE {
            let mut after = *state;
            after.tells(state.cached);
            next.push((Act::to_all(What::AsksCache), after));
        }
        if self.variant.twist == Twist::CachesFree && state.slot.is_none() {
            let mut after = *state;
            after.cached = State::FREE;
            next.push((Act::to_all(What::CachesFree), after));
        }
    }

    fn failover(state: &State, next: &mut Next) {
        if state.copy == state.slot {
            return;
        }
        let mut after = *state;
        after.copy = state.slot;
        next.push((Act::to_all(What::Replicates), after));
        if !state.failed_over {
            let mut after = *state;
            (after.slot, after.failed_over) = (state.copy, true);
            next.push((Act::to_all(What::FailsOver), after));
        }
    }
}
