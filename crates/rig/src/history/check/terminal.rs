//! C3: what is completed stays completed.
//!
//! Between its first terminal answer and the end of its retention a generation is completed, and
//! nobody who asks in between may be told otherwise. That it is gone too early is C12's to say,
//! where a retention is set.

use super::{Case, Check, Report};
use crate::history::{Answer, Fence, State, Verb, generation::Generation, op::Op, sight::Sight};

/// Somebody who was told otherwise.
pub(super) struct Breach {
    /// Whether the generation was gone, rather than in another state.
    pub(super) gone: bool,
    pub(super) what: String,
}

pub(super) fn check(case: &Case<'_>, report: Report<'_>) {
    for breach in breaches(case) {
        if !breach.gone || case.expect.retention_ns.is_none() {
            report(Check::C3, breach.what);
        }
    }
}

/// Returns the first breach of every generation: what follows is mostly its consequence.
pub(super) fn breaches(case: &Case<'_>) -> Vec<Breach> {
    let completed = case.lineage.all.iter().filter(|it| {
        // An outcome that was stored after a later generation had begun is C6's to report.
        it.terminal.is_some_and(|op| op.from() <= it.superseded)
    });
    let mut completed: Vec<&Generation<'_>> = completed.collect();
    completed.sort_by_key(|it| it.terminal.map(Op::to));
    let mut breached: Vec<Fence> = Vec::new();
    let mut breaches = Vec::new();
    for (sight, said) in case
        .log
        .sights()
        .filter_map(|sight| Some((sight, said(&sight)?)))
    {
        let (from, to) = (sight.from(), sight.to());
        let after = completed.partition_point(|it| it.terminal.is_some_and(|op| op.to() < from));
        let generation = after.checked_sub(1).map(|at| completed[at]);
        if let Some(Generation {
            id,
            terminal: Some(terminal),
            ..
        }) = generation
            && generation.is_some_and(|it| it.is_completed_during(from, to))
            && !breached.contains(id)
        {
            breached.push(*id);
            breaches.push(Breach {
                gone: said == "absent" || said == "granted" && sight.generation() != Some(*id),
                what: format!("{sight} says {said} after {terminal}"),
            });
        }
    }
    breaches
}

/// Returns what somebody says that a completed slot does not.
fn said(sight: &Sight<'_>) -> Option<&'static str> {
    let answer = match sight {
        Sight::Op(op) if op.is_ok() => op.answer(),
        _ => None,
    };
    match (sight, answer, sight.state()) {
        (_, _, Some(State::Absent)) => Some("absent"),
        (_, _, Some(State::Claimed)) => Some("claimed"),
        (_, _, Some(State::Unknown)) => Some("unknown"),
        (_, _, Some(State::Open)) => Some("open"),
        (Sight::Op(op), Some(Answer::Open), _) if op.verb() == Verb::Resolve => Some("open"),
        (Sight::Op(op), Some(answer), _) if op.verb() == Verb::Claim => match answer {
            Answer::Granted => Some("granted"),
            Answer::Busy => Some("busy"),
            Answer::Unknown => Some("unknown"),
            _ => None,
        },
        _ => None,
    }
}
