//! C7: how a slot ends agrees with the effects that happened.
//!
//! An effect leaves a record that tells of it, an outcome has an effect behind it unless it is a
//! definite refusal, and a message is acknowledged only once either is certain.

use super::{Case, Check, Report};
use crate::history::{
    Answer, Class, LedgerRow, State, Verb, generation::Generation, op::Op, sight::Sight,
};

pub(super) fn check(case: &Case<'_>, report: Report<'_>) {
    for generation in &case.lineage.all {
        if let Some(what) = outcome_without_effect(case, generation)
            .or_else(|| outcome_before_effect(generation))
            .or_else(|| effect_denied(case, generation))
            .or_else(|| effect_without_commit(generation))
            .or_else(|| effect_forgotten(case, generation))
        {
            report(Check::C7, what);
        }
    }
    check_opens(case, report);
    check_acks(case, report);
}

/// Returns the effects that landed after an operator had said that there was none.
///
/// Nobody can see the future, so this is the operator's risk and is counted, not judged.
pub(super) fn after_resolve<'a>(
    generation: &Generation<'a>,
) -> impl Iterator<Item = &'a LedgerRow> {
    let opened = generation
        .opens
        .iter()
        .filter(|op| op.is_ok() && !is_probe(op))
        .map(|op| op.from())
        .min();
    generation
        .effects
        .iter()
        .copied()
        .filter(move |row| opened.is_some_and(|opened| opened <= row.t))
}

fn outcome_without_effect<'a>(case: &Case<'a>, generation: &Generation<'a>) -> Option<String> {
    if !case.effects_behind(generation).is_empty() || !case.lineage.stray_effects.is_empty() {
        return None;
    }
    let last = case
        .last_of(generation)
        .filter(|last| last.state == State::Completed);
    let first = generation
        .terminal
        .map(Sight::Op)
        .or(last.map(Sight::Last))?;
    let hash = first.hash();
    let refused = |op: &Op<'_>| {
        let without = [Some(Answer::Refused), Some(Answer::Copied)];
        without.contains(&op.answer()) && op.hash() == hash
    };
    let settled = |op: &Op<'_>| op.verb() == Verb::Resolve && !is_probe(op);
    let mut excuses = generation.completions.iter().chain(&generation.answers);
    if excuses.any(|op| refused(op) || settled(op)) {
        return None;
    }
    Some(format!("{first} tells of an outcome without an effect"))
}

fn outcome_before_effect(generation: &Generation<'_>) -> Option<String> {
    let first = generation.effects.first()?;
    let answer = generation.terminal.filter(|op| op.to() < first.t)?;
    // An operator may settle what then turns out to have been under way.
    let settled = generation
        .completions
        .iter()
        .any(|op| op.verb() == Verb::Resolve && !is_probe(op));
    // Where duplicates are allowed, one attempt may be refused while another is under way.
    let repeated = generation.may_be(Class::AtLeastOnce);
    (!settled && !repeated).then(|| format!("{answer} tells of an outcome before the {first}"))
}

/// Finds an effect that the slot's holder, a probe or an operator said there was not.
fn effect_denied(case: &Case<'_>, generation: &Generation<'_>) -> Option<String> {
    let first = generation.effects.first()?;
    let own = |op: &&&Op<'_>| {
        case.lineage
            .of_op(op)
            .is_some_and(|it| it.id == generation.id)
    };
    let sure = |op: &&&Op<'_>| op.is_ok() || is_only_end(case, generation);
    if let Some(release) = generation.releases.iter().filter(own).find(sure) {
        return Some(format!("{release} denies the {first}"));
    }
    // A service that deduplicates on the key takes no harm from being asked again.
    if generation.is_keyed() {
        return None;
    }
    let about = |op: &&&Op<'_>| generation.begun < op.from() && op.to() <= generation.superseded;
    let known = |op: &&&Op<'_>| is_probe(op) || first.t < op.from();
    let mut opens = generation.opens.iter().filter(|op| op.is_ok());
    let open = opens.find(|op| about(op) && known(op))?;
    Some(format!("{open} denies the {first}"))
}

/// Whether an unanswered release is all that can explain why a generation is over.
fn is_only_end(case: &Case<'_>, generation: &Generation<'_>) -> bool {
    let last = case
        .log
        .last
        .is_some_and(|last| last.state == State::Absent);
    let over = generation.superseded < u64::MAX || last;
    let expired = !generation.completions.is_empty() && case.expect.retention_ns.is_some();
    let forgotten = case.expect.unknown_retention_ns.is_some();
    over && !expired && !forgotten && generation.opens.is_empty() && generation.terminal.is_none()
}

/// Finds an effect that should have committed together with an outcome.
fn effect_without_commit(generation: &Generation<'_>) -> Option<String> {
    let first = generation.effects.first()?;
    let committed = !generation.completions.is_empty() || generation.terminal.is_some();
    (generation.is(Class::Transactional) && !committed)
        .then(|| format!("the {first} is transactional and nothing was completed"))
}

/// Finds an effect that the last read of its slot does not tell of.
fn effect_forgotten(case: &Case<'_>, generation: &Generation<'_>) -> Option<String> {
    let first = generation.effects.first()?;
    let last = case.log.last?;
    let at = last.mono_ns;
    let vanished = last.state == State::Absent
        && generation.superseded == u64::MAX
        && generation.owns(at, at)
        && !generation.is_completed_during(at, at);
    vanished.then(|| format!("the last read says absent after the {first}"))
}

/// Finds records that are open and that nobody had asked to be opened.
fn check_opens(case: &Case<'_>, report: Report<'_>) {
    let resolves = case
        .log
        .ops
        .iter()
        .filter(|op| op.verb() == Verb::Resolve && op.may_vacate());
    let opened = resolves.map(Op::from).min().unwrap_or(u64::MAX);
    let mut open = case
        .log
        .sights()
        .filter(|sight| sight.state() == Some(State::Open));
    if let Some(sight) = open.find(|sight| sight.to() < opened) {
        report(
            Check::C7,
            format!("{sight} says open and nobody had opened it"),
        );
    }
}

/// Finds messages that were acknowledged with nothing to show for them.
fn check_acks(case: &Case<'_>, report: Report<'_>) {
    let certain = case
        .log
        .ops
        .iter()
        .filter(|op| op.is_terminal() || op.is_ambiguous());
    let certain = certain.map(Op::to).min().unwrap_or(u64::MAX);
    let acks = case
        .log
        .ops
        .iter()
        .filter(|op| op.verb() == Verb::MsgAck && !op.is_fail());
    for ack in acks.filter(|op| op.answer() != Some(Answer::Parked)) {
        if ack.from() < certain {
            report(
                Check::C7,
                format!("{ack} came before any outcome was certain"),
            );
        }
    }
}

/// Whether a probe, rather than an operator, settled it.
fn is_probe(op: &Op<'_>) -> bool {
    op.class() == Some(Class::Probed)
}
