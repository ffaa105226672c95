//! The judge: what no state may show.

use onceward::record::StateName;

use super::state::{Sketch, State};
use super::{Model, Phase};

/// The ways to break the promise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// The work was done twice in one generation.
    Duplicate,
    /// An answer that was given is not in the record any more.
    LostAnswer,
    /// Two callers of one generation got two answers.
    TwoAnswers,
    /// A caller got an answer, or a record holds one, of work that was not done in its generation.
    NoEffect,
    /// A writer changed a record that was not its own, or fences did not grow.
    StaleWrite,
    /// The work may have been done, and the slot says that it may be claimed.
    Forgotten,
    /// Another payload under the key was let through, or told something.
    Leak,
}

// === impl Kind ===

impl Kind {
    /// Every way to break the promise.
    pub const ALL: [Self; 7] = [
        Self::Duplicate,
        Self::LostAnswer,
        Self::TwoAnswers,
        Self::NoEffect,
        Self::StaleWrite,
        Self::Forgotten,
        Self::Leak,
    ];

    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The bits of these kinds.
    pub(super) fn bits(kinds: &[Self]) -> u8 {
        kinds.iter().fold(0, |bits, kind| bits | kind.bit())
    }

    /// The kinds whose bits are set.
    pub(super) fn of(bits: u8) -> impl Iterator<Item = Self> {
        let is_set = move |kind: &Self| bits & kind.bit() != 0;
        Self::ALL.into_iter().filter(is_set)
    }
}

// === impl Sketch ===

impl Sketch {
    /// Whether nobody knows what became of the work.
    pub(super) fn is_unsettled(self) -> bool {
        match self.state {
            StateName::Claimed => self.due,
            StateName::Unknown => true,
            StateName::Completed | StateName::Open | StateName::Reserved | StateName::Shedding => {
                false
            }
        }
    }

    /// Whether it says that the work was not done. What an operator decided is the operator's.
    pub(super) fn is_free(self) -> bool {
        self.state == StateName::Open && !self.audited
    }
}

// === impl State ===

impl State {
    /// Notes that this step broke something.
    pub(super) fn breaks(&mut self, kind: Kind) {
        self.broken |= kind.bit();
    }

    /// A caller of this generation is given `outcome`.
    pub(super) fn tells(&mut self, outcome: u8) {
        let told = &mut self.told[usize::from(self.generation)];
        match *told {
            0 => *told = outcome,
            first if first != outcome => self.breaks(Kind::TwoAnswers),
            _ => {}
        }
        if !Self::is_of(outcome, self.generation) {
            self.breaks(Kind::NoEffect);
        }
    }
}

// === impl Model ===

impl Model<'_> {
    /// What is broken in this state, as bits, of what the variant is judged by.
    pub(super) fn judge(&mut self, state: &State) -> u8 {
        let mut broken = *state;
        let now = usize::from(state.generation);
        let (told, effects) = (state.told[now], state.effects[now]);
        let fencing = self.variant.is_fencing();
        if state.effects.iter().any(|count| *count > 1) {
            broken.breaks(Kind::Duplicate);
        }
        let completed = state
            .slot
            .filter(|found| found.state == StateName::Completed)
            .map(|found| found.outcome);
        if told != 0 && completed != Some(told) {
            broken.breaks(Kind::LostAnswer);
        }
        let foreign = completed.is_some_and(|it| !State::is_of(it, state.generation));
        if (told != 0 || completed.is_some()) && effects == 0 || foreign {
            broken.breaks(Kind::NoEffect);
        }
        if state.slot.is_none_or(Sketch::is_free)
            && (effects > 0 || state.is_request_pending(fencing))
        {
            broken.breaks(Kind::Forgotten);
        }
        if self.look(state.slot).leaks {
            broken.breaks(Kind::Leak);
        }
        broken.broken & self.variant.judged()
    }

    /// Whether nobody can do the work of this generation any more who has not done it yet.
    pub(super) fn is_quiet(&self, state: &State) -> bool {
        let may_send = state.workers.iter().any(|worker| {
            worker.generation == state.generation
                && matches!(worker.phase, Phase::Holds | Phase::Sent)
        });
        !may_send && !state.is_request_pending(self.variant.is_fencing())
    }
}
