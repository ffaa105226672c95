//! C5: fences grow in real time and none is used twice.

use std::collections::{HashMap, HashSet};

use super::{Case, Check, Report};
use crate::history::{Class, Fence, Verb, op::Op, sight::Sight};

/// A number that somebody saw or wrote.
struct Seen<'a> {
    number: Fence,
    by: Sight<'a>,
    /// Whether the number was made for this operation, so that it is above all before it.
    fresh: bool,
}

pub(super) fn check(case: &Case<'_>, report: Report<'_>) {
    let fences = case.log.ops.iter().filter(|op| op.is_ok());
    let fences = fences.filter_map(|op| {
        Some(Seen {
            number: op.fence()?,
            by: Sight::Op(op),
            fresh: writes(op),
        })
    });
    let reckoning = case.expect.reckoning_ns.unwrap_or(RECKONING_NS) / 1_000;
    if let Some(what) = falls("fence", fences.collect(), reckoning) {
        report(Check::C5, what);
    }
    let begun = first_claims(case);
    let generations = case.log.sights().filter(Sight::is_grant);
    let generations = generations.filter(|by| !is_inherited(by, &begun));
    let generations = generations.filter_map(|by| {
        Some(Seen {
            number: by.generation()?,
            by,
            fresh: false,
        })
    });
    if let Some(what) = falls("generation", generations.collect(), reckoning) {
        report(Check::C5, what);
    }
    for what in [outlives(case), twice(case)].into_iter().flatten() {
        report(Check::C5, what);
    }
}

/// Returns the marks of the claims that began a generation, or may have.
fn first_claims(case: &Case<'_>) -> HashSet<Fence> {
    let claims = case.log.ops.iter().filter(|op| op.may_be_grant());
    let first = claims.filter(|op| op.mark() == op.generation());
    first.filter_map(Op::mark).collect()
}

/// Whether the number is that of a claim it took over: that one was made earlier, and is judged.
fn is_inherited(by: &Sight<'_>, begun: &HashSet<Fence>) -> bool {
    by.mark() != by.generation() && by.generation().is_some_and(|id| begun.contains(&id))
}

/// Finds a number below one that had been seen before it was asked for.
fn falls(name: &str, mut seen: Vec<Seen<'_>>, reckoning: u64) -> Option<String> {
    seen.sort_by_key(|it| it.by.from());
    let mut by_end: Vec<&Seen<'_>> = seen.iter().collect();
    by_end.sort_by_key(|it| it.by.to());
    let mut earlier = by_end.into_iter().peekable();
    let mut highest: Option<&Seen<'_>> = None;
    for it in &seen {
        while let Some(over) = earlier.next_if(|over| over.by.to() < it.by.from()) {
            if highest.is_none_or(|highest| highest.number <= over.number) {
                highest = Some(over);
            }
        }
        if let Some(highest) = highest
            && (it.number < highest.number && !is_excused(it, highest, reckoning)
                || it.number == highest.number && repeats(it, highest))
        {
            let (after, number, was) = (&it.by, it.number, highest.number);
            return Some(format!(
                "{name} {number} of {after} follows {was} of {}",
                highest.by
            ));
        }
    }
    None
}

/// Whether a lower number is as good as a higher one: it began another generation, at about the
/// same time.
///
/// A slot that a release emptied keeps no fence to be greater than, and two engines reckon the
/// store's time to within `reckoning` microseconds. Work whose service minds the order, probed
/// work, leaves a record behind instead.
fn is_excused(it: &Seen<'_>, before: &Seen<'_>, reckoning: u64) -> bool {
    let time = |seen: &Seen<'_>| (seen.number.0 >> 64) as u64;
    let is_near = time(it) > 0 && time(before).abs_diff(time(it)) < reckoning;
    let is_probed = |seen: &Seen<'_>| match &seen.by {
        Sight::Op(op) => op.class() == Some(Class::Probed),
        Sight::Last(_) => false,
    };
    it.by.generation() != before.by.generation() && is_near && !is_probed(it) && !is_probed(before)
}

/// By how much two engines' ideas of the store's time may differ: two ticks of a coarse clock.
const RECKONING_NS: u64 = 20_000_000;

/// Whether a write has the fence of another. The same write, told twice, has it rightly.
fn repeats(it: &Seen<'_>, before: &Seen<'_>) -> bool {
    let same = match (&it.by, &before.by) {
        (Sight::Op(it), Sight::Op(before)) => {
            it.verb() == before.verb() && it.mark() == before.mark()
        }
        _ => true,
    };
    it.fresh && before.fresh && !same
}

/// Finds a read of a generation that another had surely followed.
///
/// Numbers alone do not tell: a claim that was asked for first may land last.
fn outlives(case: &Case<'_>) -> Option<String> {
    let reads = case.log.sights().filter(reads_generation);
    let mut reads = reads.filter_map(|read| Some((read, read.generation()?)));
    let (read, id) = reads.find(|(read, id)| {
        let place = case.lineage.place(Some(*id), None);
        place.is_some_and(|at| case.lineage.all[at].superseded < read.from())
    })?;
    Some(format!(
        "{read} tells of generation {id} after a later one had begun"
    ))
}

/// Finds a mark that was granted twice, whatever the order.
fn twice(case: &Case<'_>) -> Option<String> {
    let mut granted: HashMap<Fence, &Op<'_>> = HashMap::new();
    for op in case.log.ops.iter().filter(|op| op.is_grant()) {
        let mark = op.mark()?;
        if let Some(other) = granted.insert(mark, op) {
            return Some(format!("{op} was granted with the mark of {other}"));
        }
    }
    None
}

fn writes(op: &Op<'_>) -> bool {
    op.is_grant() || !matches!(op.verb(), Verb::Claim | Verb::Get | Verb::MsgAck)
}

/// Whether the generation it tells of was found in the slot, rather than remembered by a holder.
fn reads_generation(sight: &Sight<'_>) -> bool {
    match sight {
        Sight::Op(op) => op.is_ok() && matches!(op.verb(), Verb::Claim | Verb::Get),
        Sight::Last(_) => true,
    }
}
