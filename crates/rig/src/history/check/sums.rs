//! C10: every granted claim is accounted for.
//!
//! The generations granted are as many as those completed, released, unknown and still claimed: in
//! every slot, so for every tenant, and in the system's own counts. A slot in which another rule
//! is broken is left out: it would only say so again.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use super::{Case, Check};
use crate::history::{
    Expectations, Fence, State, generation::Generation, op::Op, report::Findings, sight::Sight,
};

/// The sums of every tenant.
#[derive(Default)]
pub(super) struct Sums<'a>(BTreeMap<&'a str, (&'a Arc<str>, Sum)>);

/// What became of the generations of a slot, or of a tenant.
#[derive(Default)]
struct Sum {
    /// Claims granted, take-overs included.
    grants: u64,
    /// Claims that nobody knows the end of.
    unseen: u64,
    granted: u64,
    completed: u64,
    released: u64,
    unknown: u64,
    claimed: u64,
    /// Generations that may have gone either way.
    untold: u64,
    /// Whether a slot was left out.
    is_partial: bool,
}

// === impl Sums ===

impl<'a> Sums<'a> {
    /// Adds a slot to its tenant's sums, and reports it if its own do not come out even.
    pub(super) fn add(&mut self, case: &Case<'a>, is_broken: bool, found: &mut Findings) {
        let (_, sum) = self
            .0
            .entry(case.log.tenant)
            .or_insert_with(|| (case.log.tenant, Sum::default()));
        if is_broken || case.expect.black_box {
            sum.is_partial = true;
            return;
        }
        let slot = Sum::of(case);
        if let Some(what) = unclaimed(case).or_else(|| slot.leaks()) {
            found.add(Check::C10, case.log.name(), what);
        }
        sum.merge(&slot);
    }

    /// Holds the system's own counts against the sums.
    pub(super) fn check(&self, expect: &Expectations, found: &mut Findings) {
        for (tenant, sum) in self.0.values().filter(|(_, sum)| !sum.is_partial) {
            if let Some(what) = sum.differs_from_totals(tenant, expect) {
                found.add(Check::C10, (tenant, &Arc::default()), what);
            }
        }
    }
}

/// Finds a record that nobody claimed.
fn unclaimed(case: &Case<'_>) -> Option<String> {
    let claims = || case.log.ops.iter().filter(|op| op.may_be_grant());
    let marks: HashSet<Fence> = claims().filter_map(Op::mark).collect();
    let first = claims().map(Op::from).min().unwrap_or(u64::MAX);
    let mut present = case.log.sights().filter(Sight::is_presence);
    let orphan = present.find(|sight| match sight.mark().or(sight.generation()) {
        Some(mark) => !marks.contains(&mark),
        None => sight.to() < first,
    })?;
    Some(format!(
        "{orphan} tells of a record that nobody had claimed"
    ))
}

// === impl Sum ===

impl Sum {
    fn of(case: &Case<'_>) -> Self {
        let mut sum = Self::default();
        for op in case.log.ops.iter().filter(|op| op.may_be_grant()) {
            let count = if op.is_grant() {
                &mut sum.grants
            } else {
                &mut sum.unseen
            };
            *count += 1;
        }
        for generation in &case.lineage.all {
            sum.add(case, generation);
        }
        sum
    }

    fn merge(&mut self, other: &Self) {
        self.grants += other.grants;
        self.unseen += other.unseen;
        self.granted += other.granted;
        self.completed += other.completed;
        self.released += other.released;
        self.unknown += other.unknown;
        self.claimed += other.claimed;
        self.untold += other.untold;
    }

    fn add(&mut self, case: &Case<'_>, generation: &Generation<'_>) {
        self.granted += u64::from(!generation.grants.is_empty());
        let own = |op: &&&Op<'_>| op.is_ok() && case.lineage.of_op(op).is_some();
        let released = generation.releases.iter().any(|op| own(&op));
        let opened = generation.opens.iter().any(|op| op.is_ok());
        // A slot that is still there after its release counts twice, and so gives itself away.
        self.released += u64::from(released);
        match case.last_of(generation).map(|last| last.state) {
            Some(State::Claimed) => self.claimed += 1,
            Some(State::Unknown) => self.unknown += 1,
            Some(State::Completed) => self.completed += 1,
            Some(State::Open) => self.released += 1,
            _ if generation.terminal.is_some() => self.completed += 1,
            _ if released => {}
            _ if opened => self.released += 1,
            _ if generation.claims.is_empty() => {}
            _ => self.untold += 1,
        }
    }

    /// Returns the sums in words if they do not come out even.
    fn leaks(&self) -> Option<String> {
        let Self {
            granted,
            unseen,
            completed,
            released,
            unknown,
            claimed,
            untold,
            ..
        } = self;
        let told = completed + released + unknown + claimed + untold;
        (told < *granted || told > granted + unseen).then(|| {
            format!(
                "{granted} generations granted and {unseen} claims unanswered, but {completed} \
                 completed, {released} released, {unknown} unknown, {claimed} claimed"
            )
        })
    }

    fn differs_from_totals(&self, tenant: &str, expect: &Expectations) -> Option<String> {
        let totals = expect.totals.get(tenant)?;
        let told = totals.completed + totals.released + totals.unknown + totals.claimed;
        if totals.grants != totals.take_overs + told {
            return Some(format!("the system's own counts do not add up: {totals:?}"));
        }
        let grants = self.grants..=self.grants + self.unseen;
        let completed = self.completed..=self.completed + self.untold + self.unseen;
        if !grants.contains(&totals.grants) || !completed.contains(&totals.completed) {
            let counted = format!("{grants:?} grants and {completed:?} completed");
            return Some(format!(
                "the system counts {totals:?}, its callers {counted}"
            ));
        }
        None
    }
}
