//! Checks: the rules a history is held against, each in a file of its own.
//!
//! A rule that rests on another is silent where the other has spoken, so that a broken run is
//! reported for what broke it.

mod answers;
mod effects;
mod fences;
mod floors;
mod owners;
mod ownership;
mod payload;
mod retention;
mod sums;
mod tenants;
mod terminal;
mod truth;

use self::sums::Sums;
use super::{
    Check, Class, Counts, Expectations, FinalRead, History, Judgement, LedgerRow, State,
    generation::Generation,
    lineage::Lineage,
    log::{self, SlotLog},
    op::Op,
    report::Findings,
};

/// Where a check puts what it finds.
type Report<'a> = &'a mut dyn FnMut(Check, String);

/// All that a check needs to know about one slot.
struct Case<'a> {
    log: &'a SlotLog<'a>,
    lineage: Lineage<'a>,
    expect: &'a Expectations,
}

/// Judges a history.
///
/// A history whose lines contradict one another, or in which a slot lacks its last read, is never
/// passed: its judgement is unknown unless a broken rule is found all the same.
pub fn check(history: &History) -> super::Report {
    let mut counts = Counts {
        events: history.events.len() as u64,
        faults: history.faults.values().sum(),
        ..Counts::default()
    };
    let logs = match log::by_slot(history) {
        Ok(logs) => logs,
        Err(reason) => {
            return super::Report {
                judgement: Judgement::Unknown(reason),
                counts,
            };
        }
    };
    let mut found = Findings::default();
    let mut sums = Sums::default();
    let owners = tenants::owners(&logs);
    for log in &logs {
        let case = Case::new(log, &history.expectations);
        case.count(&mut counts);
        let before = found.violations.len();
        // A slot that two tenants share makes no sense to the other rules.
        if !tenants::check_marks(log, &owners, &mut found) {
            case.check(&mut found);
        }
        let is_broken = found.violations.len() > before;
        sums.add(&case, is_broken, &mut found);
    }
    tenants::check_bodies(history, &mut found);
    sums.check(&history.expectations, &mut found);
    floors::check(history, &counts, &mut found);
    super::Report {
        judgement: judge(found, &logs),
        counts,
    }
}

fn judge(found: Findings, logs: &[SlotLog<'_>]) -> Judgement {
    if !found.violations.is_empty() {
        return Judgement::Fail(found.violations);
    }
    let unread: Vec<_> = logs
        .iter()
        .filter(|log| log.last.is_none())
        .map(SlotLog::name)
        .collect();
    match unread.first() {
        Some((tenant, key)) => Judgement::Unknown(format!(
            "{} of {} slots lack their last read, {tenant}/{key} among them",
            unread.len(),
            logs.len()
        )),
        None => Judgement::Pass,
    }
}

// === impl Case ===

impl<'a> Case<'a> {
    fn new(log: &'a SlotLog<'a>, expect: &'a Expectations) -> Self {
        let lineage = Lineage::of(log, expect);
        Self {
            log,
            lineage,
            expect,
        }
    }

    fn check(&self, found: &mut Findings) {
        let mut report = |check: Check, what: String| found.add(check, self.log.name(), what);
        effects::check(self, &mut report);
        answers::check(self, &mut report);
        terminal::check(self, &mut report);
        ownership::check(self, &mut report);
        fences::check(self, &mut report);
        owners::check(self, &mut report);
        truth::check(self, &mut report);
        payload::check(self, &mut report);
        retention::check(self, &mut report);
    }

    /// Returns the effects that can be behind a generation's outcome: its own or, where the
    /// service behind deduplicates on the key, an earlier one's.
    fn effects_behind(&self, generation: &Generation<'a>) -> Vec<&'a LedgerRow> {
        if !generation.effects.is_empty() || !generation.is_keyed() {
            return generation.effects.clone();
        }
        let earlier = self.lineage.all.iter().filter(|it| it.id < generation.id);
        earlier.flat_map(|it| it.effects.iter().copied()).collect()
    }

    /// Returns the last read if it found a record of this generation.
    fn last_of(&self, generation: &Generation<'_>) -> Option<&'a FinalRead> {
        let own = self
            .lineage
            .of_last(self.log)
            .is_some_and(|it| it.id == generation.id);
        self.log.last.filter(|_| own)
    }

    fn count(&self, counts: &mut Counts) {
        let ops = &self.log.ops;
        let of = |rule: &dyn Fn(&Op<'_>) -> bool| ops.iter().filter(|op| rule(op)).count() as u64;
        counts.slots += 1;
        counts.grants += of(&|op| op.is_grant());
        counts.successes += of(&|op| op.is_terminal() && op.is_ok());
        counts.unanswered += of(&|op| op.is_info());
        counts.ambiguous += self.ambiguous();
        for generation in &self.lineage.all {
            counts.take_overs += generation.grants.len().saturating_sub(1) as u64;
            if generation.may_be(Class::AtLeastOnce) {
                counts.duplicates_allowed += generation.effects.len().saturating_sub(1) as u64;
            }
            counts.after_resolve += truth::after_resolve(generation).count() as u64;
        }
    }

    /// Returns how many generations were seen unknown, counting as one those nobody can tell apart.
    fn ambiguous(&self) -> u64 {
        let seen = self.log.ops.iter().filter(|op| op.is_ambiguous());
        let mut places: Vec<_> = seen
            .map(|op| self.lineage.place(op.generation(), op.mark()))
            .collect();
        let last = self.log.last.filter(|last| last.state == State::Unknown);
        places.extend(last.map(|last| self.lineage.place(last.generation, last.mark)));
        places.sort_unstable();
        places.dedup();
        places.len() as u64
    }
}
