//! Doing the work of a claim, and saying how it ended: what the holder of a claim does.

use onceward::Duty;
use onceward::record::StateName;

use super::service::Delivery;
use super::state::State;
use super::{Act, Choice, Kind, Model, Move, Next, Phase, Service, Twist, What};

impl Model<'_> {
    /// A worker holds the claim and has not sent anything.
    pub(super) fn holds(&mut self, state: &State, at: usize, next: &mut Next) {
        self.keeps(state, at, next);
        let worker = state.workers[at];
        let becomes = |phase| {
            let mut after = *state;
            after.workers[at].phase = phase;
            after
        };
        // An earlier attempt may have sent something, so only the first can say that nothing
        // was; the others are told so by the protocol.
        next.push((Act::by(at, What::NotExecuted), becomes(Phase::NotDone)));
        next.push((Act::by(at, What::Panics), becomes(Phase::Doubts)));
        if worker.duty == Duty::Probe {
            self.probes(state, at, next);
            return;
        }
        let is_ours = |state: &State| {
            let found = state.slot.filter(|found| found.mark == worker.mark);
            found.is_some_and(|found| found.state == StateName::Claimed)
        };
        if self.variant.twist == Twist::Rechecks && !is_ours(state) {
            next.push((Act::by(at, What::Stops), becomes(Phase::NotDone)));
            return;
        }
        if self.variant.service == Service::Commits {
            let mut after = becomes(Phase::Done);
            after.workers[at].answer = State::first_answer(worker.generation);
            next.push((Act::by(at, What::Works), after));
            return;
        }
        let mut after = becomes(Phase::Sent);
        after.workers[at].request = true;
        next.push((Act::by(at, What::Sends), after));
    }

    /// The service learns the fence, which keeps older requests out, and says what it knows.
    fn probes(&self, state: &State, at: usize, next: &mut Next) {
        let worker = state.workers[at];
        let mut after = *state;
        if worker.mark < state.service_fence {
            after.workers[at].phase = Phase::Doubts;
            next.push((Act::by(at, What::ProbeRefused), after));
            return;
        }
        after.service_fence = worker.mark;
        next.push((Act::by(at, What::ProbesUnheard), after));
        let holder = &mut after.workers[at];
        holder.duty = Duty::Execute;
        match after.effects[usize::from(worker.generation)] {
            0 => next.push((Act::by(at, What::Fences), after)),
            _ => {
                holder.phase = Phase::Done;
                holder.answer = State::first_answer(worker.generation);
                next.push((Act::by(at, What::ProbesDone), after));
            }
        }
    }

    /// A worker waits for the service's reply.
    pub(super) fn waits(&mut self, state: &State, at: usize, next: &mut Next) {
        self.keeps(state, at, next);
        let mut after = *state;
        let delivery = self.deliver(&mut after, at);
        let mut unheard = after;
        unheard.workers[at].phase = Phase::Doubts;
        match delivery {
            Delivery::Refused => {
                next.push((Act::by(at, What::Refused), unheard));
                after.workers[at].phase = Phase::NotDone;
                next.push((Act::by(at, What::Refused), after));
            }
            Delivery::Served(answer) | Delivery::Repeated(answer) => {
                let holder = &mut after.workers[at];
                (holder.phase, holder.answer) = (Phase::Done, answer);
                let (what, lost) = match delivery {
                    Delivery::Served(_) => (What::Served, What::ServedUnheard),
                    _ => (What::Repeated, What::RepeatedUnheard),
                };
                next.push((Act::by(at, what), after));
                next.push((Act::by(at, lost), unheard));
            }
        }
        if delivery != Delivery::Refused {
            let mut declined = *state;
            declined.service_fence = after.service_fence;
            let holder = &mut declined.workers[at];
            (holder.phase, holder.request) = (Phase::NotDone, false);
            next.push((Act::by(at, What::Declined), declined));
        }
        let mut doubts = *state;
        doubts.workers[at].phase = Phase::Doubts;
        next.push((Act::by(at, What::TimesOut), doubts));
        doubts.workers[at].request = false;
        next.push((Act::by(at, What::RequestLost), doubts));
    }

    /// What was sent long ago arrives: a request at the service, a claim at the store.
    pub(super) fn late(&mut self, state: &State, at: usize, next: &mut Next) {
        let worker = state.workers[at];
        if worker.request && worker.phase != Phase::Sent {
            let mut after = *state;
            let what = match self.deliver(&mut after, at) {
                Delivery::Served(_) => What::LateServed,
                Delivery::Repeated(_) => What::LateRepeated,
                Delivery::Refused => What::LateRefused,
            };
            next.push((Act::by(at, what), after));
        }
        if worker.mark != 0 || worker.stray != 0 {
            self.strays(state, at, next);
        }
    }

    /// While the work goes on its claim is renewed, and a recovery point may be reached.
    fn keeps(&mut self, state: &State, at: usize, next: &mut Next) {
        let has_point = state.slot.is_some_and(|found| found.point);
        let writes = [
            (
                self.variant.renews,
                Move::Renew,
                What::Renews,
                What::RenewsUnheard,
            ),
            (
                self.variant.points && !has_point,
                Move::Reach,
                What::Reaches,
                What::ReachesUnheard,
            ),
        ];
        for (_, write, heard, unheard) in writes.into_iter().filter(|it| it.0) {
            let Some((mut after, fence)) = self.write(state, at, write) else {
                continue;
            };
            if self.variant.loses_ends {
                next.push((Act::by(at, unheard), after));
            }
            after.workers[at].own = fence;
            next.push((Act::by(at, heard), after));
        }
    }

    /// A worker says how its claim ended, until the store has it.
    pub(super) fn ends(&mut self, state: &State, at: usize, next: &mut Next) {
        let worker = state.workers[at];
        if self.variant.twist == Twist::CachesEarly && worker.phase == Phase::Done {
            let mut after = *state;
            after.cached = worker.answer;
            next.push((Act::by(at, What::CachesEarly), after));
        }
        let (write, heard, unheard) = match worker.phase {
            Phase::Done => (
                Move::Complete(worker.answer),
                What::Completes,
                What::CompletesUnheard,
            ),
            Phase::NotDone => (Move::Release, What::Releases, What::ReleasesUnheard),
            _ if self.variant.deletes() => (Move::Release, What::Deletes, What::Deletes),
            _ => (Move::Unsettle, What::Abandons, What::AbandonsUnheard),
        };
        let Some((mut after, _)) = self.write(state, at, write) else {
            self.overtaken(state, at, next);
            return;
        };
        if self.variant.service == Service::Commits && worker.phase == Phase::Done {
            let effects = &mut after.effects[usize::from(worker.generation)];
            *effects = (*effects + 1).min(2);
        }
        // Fences that are used again are not renumbered, so they must not grow for nothing.
        let again =
            self.variant.restarts() && state.slot.is_none_or(|found| found.fence != worker.own);
        if heard == What::Deletes {
            (after.slot, after.freed) = (None, true);
        } else if self.variant.loses_ends && !again {
            next.push((Act::by(at, unheard), after));
        }
        after.workers[at].phase = Phase::Over;
        let healed = state.slot.is_some_and(|it| it.state == StateName::Unknown);
        let heard = match heard {
            What::Completes if healed => What::Heals,
            other => other,
        };
        if worker.phase == Phase::Done {
            self.answers(&mut after, worker.answer);
        }
        next.push((Act::by(at, heard), after));
    }

    /// The slot holds another record than its own, or none.
    fn overtaken(&mut self, state: &State, at: usize, next: &mut Next) {
        let worker = state.workers[at];
        let mut after = *state;
        after.workers[at].phase = Phase::Over;
        let what = match (worker.phase, state.slot) {
            (Phase::Done, Some(found))
                if found.mark == worker.mark
                    && found.state == StateName::Completed
                    && found.outcome == worker.answer =>
            {
                self.answers(&mut after, worker.answer);
                What::Recognises
            }
            (Phase::Done, _) => {
                if let Choice::Replay(outcome) = self.look(state.slot).choice {
                    self.answers(&mut after, outcome);
                }
                What::Loses
            }
            _ => What::EndsInVain,
        };
        next.push((Act::by(at, what), after));
    }

    /// A caller is given an answer that is stored, so it may be cached for as long as it is.
    pub(super) fn answers(&self, state: &mut State, outcome: u8) {
        state.tells(outcome);
        if self.variant.caches && state.slot.is_some_and(|found| !found.due) {
            state.filling = outcome;
        }
    }

    /// Writes over the worker's own record: the one whose fence it knows, or one that carries its
    /// mark. Only an end may follow an unknown state. `None` is a record that is not its own.
    fn write(&mut self, state: &State, at: usize, write: Move) -> Option<(State, u8)> {
        let worker = state.workers[at];
        let is_own = state.slot.is_some_and(|found| {
            let is_marked = worker.mark != 0 && found.mark == worker.mark;
            let is_seen = worker.own != 0 && found.fence == worker.own;
            is_seen
                || is_marked
                    && match found.state {
                        StateName::Claimed => true,
                        StateName::Unknown => write.is_end(),
                        StateName::Completed
                        | StateName::Open
                        | StateName::Reserved
                        | StateName::Shedding => false,
                    }
        });
        let looks = self.variant.twist != Twist::Unfenced || !write.is_end();
        let nothing = state.slot.is_none() && !matches!(write, Move::Complete(_));
        if !is_own && (looks || nothing) {
            return None;
        }
        let mut before = *state;
        if state.slot.is_none() {
            // Only a writer that looks at nothing comes here.
            before.slot = self.shipped.moved(None, Move::Claim, worker.mark);
        }
        let (mut after, fence) = self.put(&before, write);
        let is_stale = state.slot.is_none_or(|found| found.mark != worker.mark)
            || worker.generation != state.generation;
        if is_stale {
            after.breaks(Kind::StaleWrite);
        }
        Some((after, fence))
    }
}
