//! Asking for the claim, until it is known whether it was granted: what the engine's `grant` and
//! its keeper do.

use onceward::Duty;
use onceward::record::StateName;

use super::state::{State, Worker};
use super::{Act, Choice, Kind, Model, Move, Next, Phase, What};

impl Model<'_> {
    /// A worker that has nothing yet looks into the slot.
    pub(super) fn arrives(&mut self, state: &State, at: usize, next: &mut Next) {
        match self.look(state.slot).choice {
            Choice::Claim { over, duty } => self.claims(state, at, (over, duty), next),
            Choice::Mark => {
                let (after, _) = self.put(state, Move::Unsettle);
                next.push((Act::by(at, What::MarksLapsed), after));
            }
            // Whoever is answered or refused is as good as nobody; see the one who asks.
            Choice::Replay(_) | Choice::Refuse => {}
        }
        if state.cached == State::FREE {
            let (mut after, fence) = self.put(state, Move::Claim);
            after.slot = state.slot;
            after.workers[at].hold(fence, fence, Duty::Execute, state.generation);
            next.push((Act::by(at, What::TakesPermission), after));
        }
    }

    fn claims(&mut self, state: &State, at: usize, (over, duty): (u8, Duty), next: &mut Next) {
        let first = duty == Duty::Execute;
        let (heard, unheard) = match first {
            true => (What::Claims, What::ClaimsUnheard),
            false => (What::TakesOver, What::TakesOverUnheard),
        };
        // A worker has room for one more claim that nobody learned of.
        let may_lose = self.variant.loses_claims && state.workers[at].stray == 0;
        for (before, fence) in self.mint(state, over != 0) {
            let Some(mut granted) = self.granted(&before, over, fence) else {
                continue;
            };
            if fence < before.service_fence {
                granted.breaks(Kind::StaleWrite);
            }
            let generation = granted.generation;
            if may_lose {
                let mut lost = granted;
                lost.workers[at].ask(fence, over, duty, false);
                next.push((Act::by(at, unheard), lost));
                let mut flies = before;
                // In the numbers of `before`, where a lower fence may have come in between.
                let over = before.slot.filter(|_| over != 0).map_or(0, |it| it.fence);
                flies.workers[at].ask(fence, over, duty, true);
                next.push((Act::by(at, What::AsksInVain), flies));
            }
            granted.workers[at].hold(fence, fence, duty, generation);
            next.push((Act::by(at, heard), granted));
        }
    }

    /// The slot as the claim leaves it, if the store grants it: the fence asked over is there.
    fn granted(&mut self, state: &State, over: u8, fence: u8) -> Option<State> {
        if state.slot.map_or(0, |found| found.fence) != over {
            return None;
        }
        let Choice::Claim { duty, .. } = self.look(state.slot).choice else {
            return None;
        };
        let write = match duty {
            Duty::Execute => Move::Claim,
            Duty::Repeat | Duty::Probe => Move::TakeOver,
        };
        let mut after = *state;
        after.freed = false;
        // A new claim over an answer is a new beginning.
        let over_answer = state
            .slot
            .is_some_and(|it| it.state == StateName::Completed);
        after.generation += u8::from(over_answer && duty == Duty::Execute);
        after.slot = self.shipped.moved(state.slot, write, fence);
        Some(after)
    }

    /// A worker that has heard nothing asks again, with a mark of its own for this try.
    pub(super) fn asks_again(&mut self, state: &State, at: usize, next: &mut Next) {
        let worker = state.workers[at];
        let mut gone = *state;
        gone.workers[at].phase = Phase::Strayed;
        next.push((Act::by(at, What::GivesUp), gone));

        let ours = state.slot.filter(|found| worker.is_asked_for(found.mark));
        if let Some(found) = ours {
            let mut after = *state;
            let asked = &mut after.workers[at];
            if found.state == StateName::Claimed {
                asked.landed(found.mark);
                asked.hold(found.mark, found.fence, worker.duty, state.generation);
                next.push((Act::by(at, What::FindsItself), after));
            } else if worker.stray == 0 {
                // It came too late to execute anything under it: the keeper's.
                asked.stray = worker.mark;
                asked.phase = Phase::Idle;
                next.push((Act::by(at, What::LearnsLoss), after));
            }
        }
        if worker.stray == 0 {
            self.tries_again(state, at, ours.is_some(), next);
        }
    }

    fn tries_again(&mut self, state: &State, at: usize, ours: bool, next: &mut Next) {
        let worker = state.workers[at];
        let inserts = worker.own == 0;
        for (before, fence) in self.mint(state, !inserts) {
            let again = |state: &mut State| {
                let asking = &mut state.workers[at];
                (asking.stray, asking.stray_flying) = (asking.mark, asking.flying);
                asking.mark = fence;
                asking.flying = false;
            };
            let over = before.workers[at].own;
            if let Some(mut after) = self.granted(&before, over, fence) {
                again(&mut after);
                let generation = after.generation;
                next.push((Act::by(at, What::ClaimsUnheard), after));
                let holder = &mut after.workers[at];
                if !inserts {
                    (holder.stray, holder.stray_flying) = (0, false);
                }
                holder.hold(fence, fence, worker.duty, generation);
                next.push((Act::by(at, What::ClaimsAgain), after));
            } else if !ours {
                let mut after = *state;
                let asking = &mut after.workers[at];
                // An insert may be on its way still, a replacement can never land.
                if inserts {
                    (asking.stray, asking.stray_flying) = (worker.mark, worker.flying);
                }
                (asking.phase, asking.flying) = (Phase::Idle, false);
                next.push((Act::by(at, What::LearnsLoss), after));
            }
            if over != Worker::GONE {
                let mut flies = before;
                again(&mut flies);
                flies.workers[at].flying = true;
                next.push((Act::by(at, What::AsksInVain), flies));
            }
        }
    }

    /// Claims that are on their way land, and what nobody learned of is taken back.
    pub(super) fn strays(&mut self, state: &State, at: usize, next: &mut Next) {
        let worker = state.workers[at];
        let asks = matches!(worker.phase, Phase::Asking | Phase::Strayed);
        let over = if asks { worker.own } else { 0 };
        let tries = [
            (worker.flying, worker.mark),
            (worker.stray_flying, worker.stray),
        ];
        for (_, mark) in tries.into_iter().filter(|(flying, _)| *flying) {
            if let Some(mut after) = self.granted(state, over, mark) {
                after.workers[at].landed_as(mark);
                next.push((Act::by(at, What::Lands), after));
            }
        }
        let is_stray = |mark| {
            let gave_up = worker.phase == Phase::Strayed && mark == worker.mark;
            let earlier = worker.phase != Phase::Asking && mark == worker.stray;
            mark != 0 && (gave_up || earlier)
        };
        if let Some(found) = state.slot.filter(|found| is_stray(found.mark))
            && match found.state {
                StateName::Claimed => true,
                StateName::Unknown => found.attempt == 1,
                StateName::Completed
                | StateName::Open
                | StateName::Reserved
                | StateName::Shedding => false,
            }
        {
            let (after, _) = self.put(state, Move::Release);
            next.push((Act::by(at, What::TakesBack), after));
        }
    }
}

// === impl Worker ===

impl Worker {
    fn ask(&mut self, mark: u8, over: u8, duty: Duty, flying: bool) {
        self.phase = Phase::Asking;
        (self.mark, self.own, self.flying) = (mark, over, flying);
        self.duty = duty;
    }

    fn hold(&mut self, mark: u8, own: u8, duty: Duty, generation: u8) {
        self.phase = Phase::Holds;
        (self.mark, self.own, self.flying) = (mark, own, false);
        (self.duty, self.generation) = (duty, generation);
    }

    fn is_asked_for(&self, mark: u8) -> bool {
        mark != 0 && (mark == self.mark || mark == self.stray)
    }

    /// Leaves the try that did not get `mark` to the keeper.
    fn landed(&mut self, mark: u8) {
        if mark == self.stray {
            (self.stray, self.stray_flying) = (self.mark, self.flying);
        }
    }

    fn landed_as(&mut self, mark: u8) {
        self.flying &= mark != self.mark;
        self.stray_flying &= mark != self.stray;
    }
}
