//! Reports: what the judge has to say about a run.

use std::{fmt, sync::Arc};

/// The judgement on a run, and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether the promise was kept.
    pub judgement: Judgement,
    /// How much happened.
    pub counts: Counts,
}

/// Whether the promise was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Every rule holds.
    Pass,
    /// At least one rule is broken, whatever else is missing.
    Fail(Vec<Violation>),
    /// No broken rule was found, but too little is known to say that there is none.
    Unknown(String),
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub check: Check,
    /// In whose slot, or of whom; empty when it concerns the run as a whole.
    pub tenant: Arc<str>,
    /// In which slot; empty when it concerns more than one.
    pub key: Arc<str>,
    /// What happened, in a sentence that names the events.
    pub what: String,
}

/// The twelve rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// A generation of a slot has at most one effect.
    C1,
    /// All terminal answers of a generation are one answer, the one the effect gave.
    C2,
    /// What is completed stays completed.
    C3,
    /// At most one generation, and in it one claim, owns a slot at a time.
    C4,
    /// Fences grow in real time and none is used twice.
    C5,
    /// Only the owner of a slot writes to it, and only an owner executes.
    C6,
    /// How a slot ends agrees with the effects that happened.
    C7,
    /// A key is bound to its payload: another one mismatches, the same one does not.
    C8,
    /// Nothing of one tenant reaches another.
    C9,
    /// Every granted claim is accounted for.
    C10,
    /// The run was worth judging.
    C11,
    /// Nothing expires before its retention ends.
    C12,
}

/// How much happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines of the processes.
    pub events: u64,
    /// Slots that were touched.
    pub slots: u64,
    /// Claims granted.
    pub grants: u64,
    /// Claims granted over an earlier one of the same generation.
    pub take_overs: u64,
    /// Terminal answers: completions stored and outcomes replayed.
    pub successes: u64,
    /// Operations whose end nobody knows.
    pub unanswered: u64,
    /// Generations whose outcome was unknown at some time.
    pub ambiguous: u64,
    /// Second and further effects of generations that allow duplicates.
    pub duplicates_allowed: u64,
    /// Effects that landed after an operator had settled their generation as not executed.
    pub after_resolve: u64,
    /// Faults injected.
    pub faults: u64,
}

/// Violations as they are found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) violations: Vec<Violation>,
}

// === impl Report ===

impl Report {
    /// Whether every rule holds and enough is known to say so.
    pub fn is_pass(&self) -> bool {
        self.judgement == Judgement::Pass
    }

    /// Returns the broken rules that were found.
    pub fn violations(&self) -> &[Violation] {
        match &self.judgement {
            Judgement::Fail(violations) => violations,
            Judgement::Pass | Judgement::Unknown(_) => &[],
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { events, slots, .. } = self.counts;
        match &self.judgement {
            Judgement::Pass => write!(f, "pass: {events} events in {slots} slots"),
            Judgement::Unknown(reason) => write!(f, "unknown: {reason}"),
            Judgement::Fail(violations) => {
                write!(f, "fail: {events} events in {slots} slots")?;
                violations.iter().try_for_each(|it| write!(f, "\n  {it}"))
            }
        }
    }
}

// === impl Violation ===

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            check,
            tenant,
            key,
            what,
        } = self;
        write!(f, "{check:?} {tenant}/{key}: {what}")
    }
}

// === impl Findings ===

impl Findings {
    pub(super) fn add(&mut self, check: Check, slot: (&Arc<str>, &Arc<str>), what: String) {
        self.violations.push(Violation {
            check,
            tenant: Arc::clone(slot.0),
            key: Arc::clone(slot.1),
            what,
        });
    }
}
