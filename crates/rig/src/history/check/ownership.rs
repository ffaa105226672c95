//! C4: at most one generation, and in it one claim, owns a slot at a time.

use super::{Case, Check, Report};
use crate::history::{Class, State, generation::Generation, op::Op};

pub(super) fn check(case: &Case<'_>, report: Report<'_>) {
    check_generations(case, report);
    check_take_overs(case, report);
    check_absence(case, report);
    check_holders(case, report);
}

/// Finds generations that surely owned the slot together.
fn check_generations(case: &Case<'_>, report: Report<'_>) {
    let sure = case.lineage.all.iter().filter(|it| it.begun < it.gone);
    let mut sure: Vec<&Generation<'_>> = sure.collect();
    sure.sort_by_key(|it| it.begun);
    let mut holder: Option<&Generation<'_>> = None;
    for next in sure {
        if let Some(holder) = holder.filter(|holder| next.begun < holder.gone)
            && !is_after_outcome(next, holder)
        {
            let (first, second) = (beginning(holder), beginning(next));
            report(
                Check::C4,
                format!("{second} began while {first} was not over"),
            );
        }
        if holder.is_none_or(|holder| holder.gone <= next.gone) {
            holder = Some(next);
        }
    }
}

/// Whether the slot was claimed anew after an outcome, which is C3's or C12's to report.
fn is_after_outcome(next: &Generation<'_>, holder: &Generation<'_>) -> bool {
    let claimed = next.grants.iter().map(|op| op.from()).min();
    holder
        .terminal
        .zip(claimed)
        .is_some_and(|(terminal, claimed)| terminal.to() < claimed)
}

/// Finds claims that took over what their class holds.
fn check_take_overs(case: &Case<'_>, report: Report<'_>) {
    for generation in &case.lineage.all {
        for pair in generation.grants.windows(2) {
            let [first, second] = pair else { continue };
            let released = |op: &&&Op<'_>| op.is_ok() && op.to() < second.from();
            if let Some(release) = generation.releases.iter().find(released) {
                report(
                    Check::C4,
                    format!("{second} continues what {release} had ended"),
                );
                continue;
            }
            // An operator may have opened it in between.
            let opened = generation.opens.iter().any(|op| op.from() <= second.to());
            if second.class() == Some(Class::Opaque) && !opened {
                report(
                    Check::C4,
                    format!("{second} took over {first}, which is opaque"),
                );
            }
        }
    }
}

/// Finds reads that saw nothing where a claim was.
fn check_absence(case: &Case<'_>, report: Report<'_>) {
    for sight in case
        .log
        .sights()
        .filter(|sight| sight.state() == Some(State::Absent))
    {
        let Some(generation) = case.lineage.owner(sight.from(), sight.to()) else {
            continue;
        };
        let completed = generation.is_completed_during(sight.from(), sight.to());
        // That an effect was forgotten in the end is C7's to report.
        let forgotten = sight.is_last() && !generation.effects.is_empty();
        if !completed && !forgotten {
            let who = beginning(generation);
            report(
                Check::C4,
                format!("{sight} says absent while {who} was not over"),
            );
            return;
        }
    }
}

/// Finds reads that name a holder whose claim had been taken over.
fn check_holders(case: &Case<'_>, report: Report<'_>) {
    for sight in case
        .log
        .sights()
        .filter(|sight| sight.state() == Some(State::Claimed))
    {
        let generation = case.lineage.place(sight.generation(), sight.mark());
        let (Some(mark), Some(at)) = (sight.mark(), generation) else {
            continue;
        };
        let grants = &case.lineage.all[at].grants;
        let later = |op: &&&Op<'_>| op.mark() > Some(mark) && op.to() < sight.from();
        if let Some(later) = grants.iter().find(later) {
            report(
                Check::C4,
                format!("{sight} says that {mark} holds the slot after {later}"),
            );
        }
    }
}

/// Returns the words for the operation that began a generation.
fn beginning(generation: &Generation<'_>) -> String {
    match generation.grants.first().or(generation.claims.first()) {
        Some(op) => op.to_string(),
        None => format!("generation {}", generation.id),
    }
}
