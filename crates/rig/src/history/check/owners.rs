//! C6: only the owner of a slot writes to it, and only an owner executes.
//!
//! A write that was answered `ok` needs an instant between question and answer at which its mark
//! was the slot's. An effect needs a claim that was asked for before it; it may land long after.

use std::collections::HashMap;

use super::{Case, Check, Report};
use crate::history::{Answer, Fence, State, Verb, generation::Generation, op::Op, sight::Sight};

/// What the claims of a slot did, by mark.
#[derive(Default)]
struct Deeds<'a> {
    /// The claim itself, if it was granted or may have been.
    claim: Option<&'a Op<'a>>,
    /// The first of each that surely happened.
    completed: Option<&'a Op<'a>>,
    released: Option<&'a Op<'a>>,
    abandoned: Option<&'a Op<'a>>,
    /// The first read that found it unknown.
    unknown: Option<&'a Op<'a>>,
}

pub(super) fn check(case: &Case<'_>, report: Report<'_>) {
    let mut deeds: HashMap<Fence, Deeds<'_>> = HashMap::new();
    for op in &case.log.ops {
        if let Some(mark) = op.mark() {
            deeds.entry(mark).or_default().add(op);
        }
    }
    for op in case.log.ops.iter().filter(|op| op.is_ok() && is_owners(op)) {
        if let Some(deeds) = op.mark().and_then(|mark| deeds.get(&mark))
            && let Some(what) = deeds.forbid(op).or_else(|| lost(case, op))
        {
            report(Check::C6, what);
        }
    }
    check_holders(case, &deeds, report);
    if !case.expect.black_box {
        check_effects(case, &deeds, report);
    }
}

/// Whether an operation is for the owner alone.
fn is_owners(op: &Op<'_>) -> bool {
    use Verb::{Abandon, Complete, Release, Renew, Resolve};
    matches!(op.verb(), Renew | Complete | Release | Abandon | Resolve)
}

/// Finds an operation whose claim another one, or an operator, had ended.
fn lost(case: &Case<'_>, op: &Op<'_>) -> Option<String> {
    let generation = case.lineage.of_op(op)?;
    let after = |other: &&&Op<'_>| other.mark() > op.mark() && is_too_late(op, other);
    if let Some(later) = generation.grants.iter().rev().find(after) {
        return Some(format!("{op} succeeded though {later} had taken over"));
    }
    if generation.superseded < op.from() {
        return Some(format!(
            "{op} succeeded though a later generation had begun"
        ));
    }
    // A resolve is somebody else's, and may well follow another.
    let opened = opened_before(generation, op.from()).filter(|_| op.verb() != Verb::Resolve)?;
    let own = |grant: &&&Op<'_>| grant.mark() == op.mark();
    let reclaimed = generation
        .grants
        .iter()
        .find(own)
        .is_some_and(|grant| grant.to() >= opened.from());
    (!reclaimed).then(|| format!("{op} succeeded though {opened} had settled it as not executed"))
}

/// Returns a resolve that has surely opened a generation before an instant.
fn opened_before<'a>(generation: &Generation<'a>, at: u64) -> Option<&'a Op<'a>> {
    let sure = |open: &&&Op<'_>| open.is_ok() && generation.begun < open.from() && open.to() < at;
    generation.opens.iter().copied().find(|open| sure(&open))
}

/// Whether an operation cannot have come before a take-over and so cannot have succeeded.
fn is_too_late(op: &Op<'_>, take_over: &Op<'_>) -> bool {
    match op.verb() {
        // It ends the generation, so no take-over can follow it at all. One that was asked for
        // after it is C3's to report.
        Verb::Complete => op.to() >= take_over.from(),
        Verb::Release if op.may_vacate() => op.to() >= take_over.from(),
        _ => take_over.to() < op.from(),
    }
}

/// Finds reads that name a holder who had given up, or tell of a claim that was opened.
fn check_holders(case: &Case<'_>, deeds: &HashMap<Fence, Deeds<'_>>, report: Report<'_>) {
    for sight in case.log.sights() {
        let ended = match sight.state() {
            Some(State::Claimed) => given_up(&sight, deeds).or_else(|| opened(case, &sight)),
            Some(State::Unknown) => opened(case, &sight),
            _ => None,
        };
        if let Some(end) = ended {
            report(
                Check::C6,
                format!("{sight} tells of a claim that {end} had ended"),
            );
        }
    }
}

fn given_up<'a>(sight: &Sight<'_>, deeds: &HashMap<Fence, Deeds<'a>>) -> Option<&'a Op<'a>> {
    let deeds = deeds.get(&sight.mark()?)?;
    // That a released claim is still there in the end is C10's to report.
    let released = deeds.released.filter(|_| !sight.is_last());
    let mut ends = [deeds.abandoned, deeds.unknown, released]
        .into_iter()
        .flatten();
    ends.find(|end| end.to() < sight.from())
}

fn opened<'a>(case: &Case<'a>, sight: &Sight<'_>) -> Option<&'a Op<'a>> {
    let place = case.lineage.place(sight.generation(), sight.mark())?;
    let generation = &case.lineage.all[place];
    let open = opened_before(generation, sight.from())?;
    let reclaimed = |op: &&&Op<'_>| op.to() >= open.from();
    let unseen = case
        .log
        .ops
        .iter()
        .any(|op| op.may_be_grant() && op.is_info());
    (!unseen && !generation.claims.iter().any(|op| reclaimed(&op))).then_some(open)
}

/// Finds effects that were executed without a claim, or before it was asked for.
fn check_effects(case: &Case<'_>, deeds: &HashMap<Fence, Deeds<'_>>, report: Report<'_>) {
    for row in &case.log.effects {
        let Some(mark) = row.mark else { continue };
        match deeds.get(&mark).and_then(|deeds| deeds.claim) {
            None => report(
                Check::C6,
                format!("the {row} was executed and {mark} never granted"),
            ),
            Some(claim) if row.t < claim.from() => {
                report(Check::C6, format!("the {row} was executed before {claim}"));
            }
            Some(_) => {}
        }
    }
}

// === impl Deeds ===

impl<'a> Deeds<'a> {
    fn add(&mut self, op: &'a Op<'a>) {
        let place = match op.verb() {
            Verb::Claim if op.may_be_grant() => &mut self.claim,
            Verb::Complete if op.is_ok() => &mut self.completed,
            Verb::Release if op.is_ok() => &mut self.released,
            Verb::Abandon if op.is_ok() => &mut self.abandoned,
            Verb::Get | Verb::Sweep
                if op.is_ok() && op.answer().and_then(Answer::state) == Some(State::Unknown) =>
            {
                &mut self.unknown
            }
            _ => return,
        };
        if place.is_none_or(|first| op.to() < first.to()) {
            *place = Some(op);
        }
    }

    /// Returns why the mark's own past forbids an operation, if it does.
    fn forbid(&self, op: &Op<'_>) -> Option<String> {
        let Some(claim) = self.claim else {
            return Some(format!("{op} succeeded and its mark was never granted"));
        };
        if op.to() < claim.from() {
            return Some(format!("{op} succeeded before {claim} was asked for"));
        }
        let Self {
            completed,
            released,
            abandoned,
            unknown,
            ..
        } = self;
        let ended: &[&Option<&Op<'_>>] = match op.verb() {
            Verb::Renew => &[completed, released, abandoned, unknown],
            // An outcome may still heal what was abandoned; another outcome is C2's to report.
            Verb::Complete => return self.forbid_outcome(op),
            Verb::Release => &[completed, abandoned],
            Verb::Abandon => &[completed, released],
            _ => &[],
        };
        let before = |end: &&&Op<'_>| end.to() < op.from();
        let end = ended.iter().copied().flatten().find(before)?;
        Some(format!("{op} succeeded though {end} had ended the claim"))
    }

    /// Of a release and an outcome only one can have succeeded, whatever their order.
    fn forbid_outcome(&self, op: &Op<'_>) -> Option<String> {
        let vacated = self.released.filter(|release| release.may_vacate())?;
        // One that was asked for after the outcome is itself reported.
        (vacated.from() <= op.to()).then(|| format!("{op} succeeded and so did {vacated}"))
    }
}
