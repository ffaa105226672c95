//! The sequential specification: one slot, one operation at a time.

use super::{Expectations, Op, Sight, State};
use crate::history::{Answer, Class, Fence, Verb};

/// What is in the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Slot<'a> {
    state: State,
    generation: Option<Fence>,
    mark: Option<Fence>,
    fingerprint: Option<&'a str>,
    hash: Option<&'a str>,
    /// The first instant at which it can have expired.
    until: u64,
}

/// How a slot answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec<'a> {
    pub(super) expect: &'a Expectations,
}

// === impl Slot ===

impl Slot<'_> {
    pub(super) const EMPTY: Self = Self {
        state: State::Absent,
        generation: None,
        mark: None,
        fingerprint: None,
        hash: None,
        until: u64::MAX,
    };

    /// Whether an answer about a record of this generation, mark and outcome can be about this one.
    fn fits(&self, sight: &Sight<'_>) -> bool {
        let content = match self.state {
            State::Completed => same(self.hash, sight.hash()),
            _ => same(self.mark, sight.mark()),
        };
        content && same(self.generation, sight.generation())
    }

    fn is_pending(&self) -> bool {
        matches!(self.state, State::Claimed | State::Unknown)
    }
}

// === impl Spec ===

impl<'a> Spec<'a> {
    /// Returns the slots that an operation can leave behind, if it can happen at all.
    pub(super) fn after(self, slot: Slot<'a>, sight: Sight<'a>) -> impl Iterator<Item = Slot<'a>> {
        let expired = (slot.until <= sight.to()).then_some(Slot::EMPTY);
        let before = [Some(slot), expired].into_iter().flatten();
        before.filter_map(move |slot| match sight {
            Sight::Op(op) => self.step(slot, op),
            Sight::Last(read) => read_as(slot, read.state, &sight),
        })
    }

    fn step(self, slot: Slot<'a>, op: &'a Op<'a>) -> Option<Slot<'a>> {
        let sight = Sight::Op(op);
        let own = slot.is_pending() && same(slot.mark, op.mark());
        match op.verb() {
            Verb::Claim => self.claim(slot, op),
            // One that lost is told the outcome; one that is repeated finds its own.
            Verb::Complete if op.is_fail() => read_as(slot, State::Completed, &sight),
            Verb::Complete if slot.state == State::Completed && same(slot.mark, op.mark()) => {
                read_as(slot, State::Completed, &sight)
            }
            Verb::Complete => own.then(|| self.completed(slot, op)),
            Verb::Renew => (own && slot.state == State::Claimed).then_some(slot),
            Verb::Release if op.may_vacate() => own.then_some(Slot::EMPTY),
            Verb::Release | Verb::Abandon => own.then_some(Slot {
                state: State::Unknown,
                ..slot
            }),
            Verb::Resolve if op.may_complete() => own.then(|| self.completed(slot, op)),
            // An open record lets anybody claim, and nobody heals it.
            Verb::Resolve => own.then_some(Slot {
                state: State::Open,
                mark: None,
                until: 0,
                ..slot
            }),
            Verb::Get | Verb::Sweep => read_as(slot, op.answer()?.state()?, &sight),
            Verb::MsgAck => Some(slot),
        }
    }

    fn claim(self, slot: Slot<'a>, op: &'a Op<'a>) -> Option<Slot<'a>> {
        let agree = same(slot.fingerprint, op.told_fingerprint());
        let sight = Sight::Op(op);
        match op.answer() {
            _ if op.is_info() => self.granted(slot, op),
            Some(Answer::Granted) => self.granted(slot, op),
            Some(Answer::Mismatch) => (slot.state != State::Absent && !agree).then_some(slot),
            Some(Answer::Busy) => {
                (slot.state == State::Claimed && agree && slot.fits(&sight)).then_some(slot)
            }
            // Whether the record was marked as unknown, the answer does not tell.
            Some(Answer::Unknown) => (slot.is_pending() && agree).then_some(slot),
            _ if agree => read_as(slot, State::Completed, &sight),
            _ => None,
        }
    }

    fn granted(self, slot: Slot<'a>, op: &'a Op<'a>) -> Option<Slot<'a>> {
        let free = matches!(slot.state, State::Absent | State::Open);
        let taken_over = slot.is_pending()
            && op.told_class() != Some(Class::Opaque)
            && (slot.mark != op.mark() || op.mark().is_none())
            && same(slot.fingerprint, op.told_fingerprint())
            && same(slot.generation, op.generation());
        let kept = self.expect.unknown_retention_ns.map(|ns| self.kept(op, ns));
        let lapses = (op.told_class() == Some(Class::Transactional)).then_some(0);
        (free || taken_over).then(|| Slot {
            state: State::Claimed,
            generation: op.generation().or(slot.generation.filter(|_| taken_over)),
            // Of several claims without a mark any may be the one, so its mark fits any.
            mark: op.told_mark(),
            fingerprint: op.told_fingerprint(),
            hash: None,
            until: lapses.or(kept).unwrap_or(u64::MAX),
        })
    }

    fn completed(self, slot: Slot<'a>, op: &'a Op<'a>) -> Slot<'a> {
        let until = self.expect.retention_ns.map(|ns| self.kept(op, ns));
        Slot {
            state: State::Completed,
            hash: op.hash(),
            until: until.unwrap_or(u64::MAX),
            ..slot
        }
    }

    fn kept(self, op: &Op<'_>, ns: u64) -> u64 {
        op.from()
            .saturating_add(ns)
            .saturating_sub(self.expect.slack_ns)
    }
}

/// Returns the slot if a read can find it in this state.
fn read_as<'a>(slot: Slot<'a>, state: State, sight: &Sight<'_>) -> Option<Slot<'a>> {
    // A lapsed claim may be marked as unknown at any time.
    let lapsed = slot.state == State::Claimed && state == State::Unknown;
    let found = Slot { state, ..slot };
    ((slot.state == state || lapsed) && (state == State::Absent || slot.fits(sight)))
        .then_some(found)
}

/// Whether two facts agree, as far as both are known.
fn same<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}
