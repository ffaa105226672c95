//! C2: all terminal answers of a generation are one answer, the one its effect gave.

use super::{Case, Check, Report};
use crate::history::{
    Answer, Class, LedgerRow, State, Verb, generation::Generation, op::Op, sight::Sight,
};

pub(super) fn check(case: &Case<'_>, report: Report<'_>) {
    for generation in &case.lineage.all {
        let answers = answers(case, generation);
        if let Some(what) = differ(&answers)
            .or_else(|| differs_from_effect(case, generation, &answers))
            .or_else(|| comes_from_nowhere(case, generation))
        {
            report(Check::C2, what);
        }
    }
    check_nameless(case, report);
}

/// Returns the hashes that callers and the last read were given.
///
/// An answer that was too large to keep has no hash, and nothing to compare.
fn answers<'a>(case: &Case<'a>, generation: &Generation<'a>) -> Vec<(&'a str, Sight<'a>)> {
    let last = case
        .last_of(generation)
        .filter(|last| last.state == State::Completed);
    let sights = generation
        .answers
        .iter()
        .copied()
        .map(Sight::Op)
        .chain(last.map(Sight::Last));
    sights
        .filter_map(|sight| Some((sight.hash()?, sight)))
        .collect()
}

fn differ(answers: &[(&str, Sight<'_>)]) -> Option<String> {
    let (first, who) = answers.first()?;
    let (other, whose) = answers.iter().find(|(hash, _)| hash != first)?;
    Some(format!("{who} says `{first}` and {whose} says `{other}`"))
}

fn differs_from_effect<'a>(
    case: &Case<'a>,
    generation: &Generation<'a>,
    answers: &[(&str, Sight<'_>)],
) -> Option<String> {
    // Where duplicates are allowed, one attempt may be refused after another was not.
    if generation.may_be(Class::AtLeastOnce) {
        return None;
    }
    // An operator may put an answer of their own in the place of one that was lost.
    if generation
        .completions
        .iter()
        .any(|op| op.verb() == Verb::Resolve)
    {
        return None;
    }
    // The effect of a twin is in another slot; what this slot's service once did says nothing.
    let copied = |op: &&Op<'_>| op.answer() == Some(Answer::Copied);
    if generation.effects.is_empty() && generation.completions.iter().any(copied) {
        return None;
    }
    let effects = case.effects_behind(generation);
    let given: Vec<&str> = effects
        .iter()
        .filter_map(|row| row.resp_hash.as_deref())
        .collect();
    let (hash, who) = answers.first()?;
    if given.is_empty() || given.len() < effects.len() || given.contains(hash) {
        return None;
    }
    Some(format!(
        "{who} says `{hash}`, but the {} said `{}`",
        effects[0], given[0]
    ))
}

/// Finds an answer that was given before anybody had asked for one to be stored.
fn comes_from_nowhere<'a>(case: &Case<'a>, generation: &Generation<'a>) -> Option<String> {
    if case.expect.black_box || generation.claims.is_empty() {
        return None;
    }
    let last = case
        .last_of(generation)
        .filter(|last| last.state == State::Completed);
    let first = generation
        .terminal
        .map(Sight::Op)
        .or(last.map(Sight::Last))?;
    let stored = generation.completions.iter().map(|op| op.from()).min();
    (stored.is_none_or(|stored| stored > first.to()))
        .then(|| format!("{first} was given an outcome that nobody had stored"))
}

/// Holds answers that do not tell their generation against all of them.
fn check_nameless(case: &Case<'_>, report: Report<'_>) {
    let nameless = |op: &&Op<'_>| op.is_terminal() && case.lineage.of_op(op).is_none();
    for op in case.log.ops.iter().filter(nameless) {
        let stored =
            |it: &Op<'_>| it.may_complete() && it.from() <= op.to() && agree(it.hash(), op.hash());
        let effect =
            |it: &&LedgerRow| case.expect.black_box && agree(it.resp_hash.as_deref(), op.hash());
        if !case.log.ops.iter().any(stored) && !case.log.effects.iter().any(effect) {
            report(
                Check::C2,
                format!("{op} was given an outcome that nobody had stored"),
            );
        }
    }
}

/// Whether two hashes are the same, as far as both are known.
fn agree(one: Option<&str>, other: Option<&str>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one == other)
}
