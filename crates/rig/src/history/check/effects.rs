//! C1: a generation of a slot has at most one effect.

use super::{Case, Check, Report};
use crate::history::{Class, op::Op};

pub(super) fn check(case: &Case<'_>, report: Report<'_>) {
    for generation in &case.lineage.all {
        let [first, second, ..] = generation.effects[..] else {
            continue;
        };
        // A route that allows duplicates is outside the promise; they are counted, not judged.
        if !generation.may_be(Class::AtLeastOnce) {
            let id = generation.id;
            report(
                Check::C1,
                format!("generation {id} has the {first} and the {second}"),
            );
        }
    }
    check_stray(case, report);
}

/// Holds effects of claims that nobody saw granted against the generations there can have been.
fn check_stray(case: &Case<'_>, report: Report<'_>) {
    let Some(stray) = case.lineage.stray_effects.first() else {
        return;
    };
    let claims: Vec<&Op<'_>> = case.log.ops.iter().filter(|op| op.may_be_grant()).collect();
    if claims.iter().any(|op| op.may_be(Class::AtLeastOnce)) {
        return;
    }
    let effects = case.log.effects.len();
    let possible = generations_max(case, &claims);
    if effects > possible.max(1) {
        let what =
            format!("{effects} effects in at most {possible} generations, the {stray} among them");
        report(Check::C1, what);
    }
}

/// Returns how many generations there can have been: each but the first follows an ending, and
/// each begins with a claim.
fn generations_max(case: &Case<'_>, claims: &[&Op<'_>]) -> usize {
    let expire = case.expect.retention_ns.is_some();
    let ends = |op: &&Op<'_>| op.may_vacate() || expire && op.may_complete();
    let ended = case.log.ops.iter().filter(ends).count();
    let lapse = |op: &&&Op<'_>| {
        op.may_be(Class::Transactional) || case.expect.unknown_retention_ns.is_some()
    };
    let lapsed = claims.iter().filter(lapse).count();
    let begun = case
        .lineage
        .all
        .iter()
        .filter(|it| !it.claims.is_empty())
        .count();
    let unseen = claims.iter().filter(|op| op.is_info()).count();
    (1 + ended + lapsed).min(begun + unseen)
}
