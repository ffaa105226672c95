//! C8: a key is bound to its payload: another one mismatches, the same one does not.

use std::collections::BTreeMap;

use super::{Case, Check, Report};
use crate::history::{Answer, Verb, generation::Generation, op::Op};

/// Payloads, and when each was first asked for.
type Unseen<'a> = BTreeMap<Option<&'a str>, u64>;

pub(super) fn check(case: &Case<'_>, report: Report<'_>) {
    let unseen = unseen(case);
    let claims = case
        .log
        .ops
        .iter()
        .filter(|op| op.verb() == Verb::Claim && op.is_ok());
    for op in claims {
        let what = match op.answer() {
            Some(Answer::Mismatch) => groundless(case, op, &unseen),
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
fn groundless(case: &Case<'_>, op: &Op<'_>, unseen: &Unseen<'_>) -> Option<String> {
    let fingerprint = op.fingerprint()?;
    let other = |it: Option<&str>| it.is_none_or(|it| it != fingerprint);
    let claimed = unseen
        .iter()
        .any(|(it, from)| other(*it) && *from <= op.to());
    let mut held = case
        .lineage
        .holders(op.from(), op.to())
        .filter(|it| may_hold(it, op));
    (!claimed && !held.any(|it| other(it.fingerprint())))
        .then(|| format!("{op} mismatched with no other payload than its own `{fingerprint}`"))
}

/// Whether a generation was there, and not released before an operation was asked.
fn may_hold(generation: &Generation<'_>, op: &Op<'_>) -> bool {
    let released = |release: &&Op<'_>| release.is_ok() && release.to() < op.from();
    let there = generation.begun < u64::MAX || !generation.claims.is_empty();
    there && !generation.releases.iter().any(released)
}

/// Returns the payloads that unanswered claims brought, and when each was first asked for.
fn unseen<'a>(case: &Case<'a>) -> Unseen<'a> {
    let mut unseen = Unseen::new();
    for op in case
        .log
        .ops
        .iter()
        .filter(|op| op.may_be_grant() && op.is_info())
    {
        // In the order they were asked, so that the first is the one that stays.
        unseen.entry(op.told_fingerprint()).or_insert(op.from());
    }
    unseen
}
