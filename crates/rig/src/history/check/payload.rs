//! C8: a key is bound to its payload: another one mismatches, the same one does not.

use super::{Case, Check, Report};
use crate::history::{Answer, Verb, generation::Generation, op::Op};

pub(super) fn check(case: &Case<'_>, report: Report<'_>) {
    let claims = case
        .log
        .ops
        .iter()
        .filter(|op| op.verb() == Verb::Claim && op.is_ok());
    for op in claims {
        let what = match op.answer() {
            Some(Answer::Mismatch) => groundless(case, op),
            Some(_) => unnoticed(case, op),
            None => None,
        };
        if let Some(what) = what {
            report(Check::C8, what);
        }
    }
    for generation in &case.lineage.all {
        let Some(bound) = generation.fingerprint() else {
            continue;
        };
        let other = |it: &str| it != bound;
        if let Some(row) = generation
            .effects
            .iter()
            .find(|row| row.fingerprint.as_deref().is_some_and(other))
        {
            report(
                Check::C8,
                format!("the {row} is of another payload than `{bound}`"),
            );
        }
    }
}

/// Finds a claim that was answered as if its payload were the first one.
fn unnoticed(case: &Case<'_>, op: &Op<'_>) -> Option<String> {
    let fingerprint = op.fingerprint()?;
    // One that does not tell its generation was answered by the one that owned the slot.
    let owner = || case.lineage.owner(op.from(), op.to());
    let bound = case.lineage.of_op(op).or_else(owner)?.fingerprint()?;
    (bound != fingerprint).then(|| {
        format!("{op} brought `{fingerprint}` to a slot of `{bound}` and did not mismatch")
    })
}

/// Finds a mismatch where there was no other payload to mismatch with.
fn groundless(case: &Case<'_>, op: &Op<'_>) -> Option<String> {
    let fingerprint = op.fingerprint()?;
    let other = |it: Option<&str>| it.is_none_or(|it| it != fingerprint);
    let mut held = case.lineage.all.iter().filter(|it| may_hold(it, op));
    let mut unseen = case
        .log
        .ops
        .iter()
        .filter(|it| it.may_be_grant() && it.is_info());
    let claimed = unseen.any(|it| other(it.fingerprint()) && it.from() <= op.to());
    (!claimed && !held.any(|it| other(it.fingerprint())))
        .then(|| format!("{op} mismatched with no other payload than its own `{fingerprint}`"))
}

/// Whether a generation may have held the slot at some instant of an operation.
fn may_hold(generation: &Generation<'_>, op: &Op<'_>) -> bool {
    let released = generation
        .releases
        .iter()
        .any(|release| release.is_ok() && release.to() < op.from());
    let there = generation.begun < u64::MAX || !generation.claims.is_empty();
    there && generation.asked <= op.to() && generation.superseded >= op.from() && !released
}
