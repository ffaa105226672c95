//! Lineages: the generations of one slot, and what belongs to which.

use std::collections::{BTreeSet, HashMap};

use super::{
    Expectations, Fence, LedgerRow, State, Verb, generation::Generation, log::SlotLog, op::Op,
};

/// The generations of one slot, by number.
#[derive(Debug)]
pub(super) struct Lineage<'a> {
    pub(super) all: Vec<Generation<'a>>,
    /// Effects that cannot be told to belong to one of them.
    pub(super) stray_effects: Vec<&'a LedgerRow>,
    /// Places in the order in which they have surely begun.
    by_begun: Vec<usize>,
    /// The first instant at which any from here on, in that order, can have begun.
    asked_from: Vec<u64>,
    by_mark: HashMap<Fence, Fence>,
    /// Whether what tells nothing about itself can only belong to the one generation there is.
    only: bool,
    /// Whether marks tell nothing, because the claims that carry them were not recorded.
    black_box: bool,
}

// === impl Lineage ===

impl<'a> Lineage<'a> {
    /// Sorts a slot's log into generations.
    pub(super) fn of(log: &'a SlotLog<'a>, expect: &Expectations) -> Self {
        let by_mark = generations_by_mark(log);
        let all = ids(log, &by_mark)
            .into_iter()
            .map(Generation::new)
            .collect();
        let mut this = Self {
            all,
            stray_effects: Vec::new(),
            by_begun: Vec::new(),
            asked_from: Vec::new(),
            by_mark,
            only: false,
            black_box: expect.black_box,
        };
        this.only = this.all.len() == 1 && !log.ops.iter().any(|op| this.may_begin_another(op));
        this.add_effects(log);
        log.ops.iter().for_each(|op| this.add_op(op));
        if let Some(last) = log.last.filter(|last| last.generation.is_some())
            && let Some(at) = this.place(last.generation, None)
        {
            this.all[at].seen(last.mono_ns);
        }
        for generation in &mut this.all {
            generation.settle(expect);
        }
        this.find_successors();
        this.sort_by_begun();
        this
    }

    /// Returns where the generation stands that a record with this number and mark belongs to.
    pub(super) fn place(&self, generation: Option<Fence>, mark: Option<Fence>) -> Option<usize> {
        let id = generation.or_else(|| self.by_mark.get(&mark?).copied());
        match id {
            Some(id) => self.all.binary_search_by_key(&id, |it| it.id).ok(),
            None if mark.is_none() || self.black_box => self.only.then_some(0),
            None => None,
        }
    }

    /// Whether a claim that nobody saw granted may be the first of a generation not told of.
    fn may_begin_another(&self, op: &Op<'_>) -> bool {
        let known = op
            .mark()
            .is_some_and(|mark| self.by_mark.contains_key(&mark));
        !self.black_box && op.verb() == Verb::Claim && op.is_info() && !known
    }

    pub(super) fn of_op(&self, op: &Op<'_>) -> Option<&Generation<'a>> {
        self.place(op.generation(), op.mark())
            .map(|at| &self.all[at])
    }

    /// Returns the generation of the slot's last record, if there is one.
    pub(super) fn of_last(&self, log: &SlotLog<'_>) -> Option<&Generation<'a>> {
        let last = log.last.filter(|last| last.state != State::Absent)?;
        self.place(last.generation, last.mark)
            .map(|at| &self.all[at])
    }

    /// Returns the generation that surely owns the slot during all of an operation.
    pub(super) fn owner(&self, from: u64, to: u64) -> Option<&Generation<'a>> {
        let after = self
            .by_begun
            .partition_point(|at| self.all[*at].begun < from);
        let latest = &self.all[self.by_begun[after.checked_sub(1)?]];
        latest.owns(from, to).then_some(latest)
    }

    /// Returns the generations that may have held the slot at some instant of an operation.
    pub(super) fn holders(&self, from: u64, to: u64) -> impl Iterator<Item = &Generation<'a>> {
        let of = |at: &usize| &self.all[*at];
        let start = self.by_begun.partition_point(|at| of(at).begun < from);
        // What follows an earlier one has begun before what follows a later one.
        let earlier = self.by_begun[..start].iter().rev().map(of);
        let earlier = earlier.take_while(move |it| it.superseded >= from);
        let later = self.by_begun[start..].iter().zip(&self.asked_from[start..]);
        let later = later
            .take_while(move |(_, asked)| **asked <= to)
            .map(move |(at, _)| of(at));
        earlier.chain(later).filter(move |it| it.asked <= to)
    }

    fn sort_by_begun(&mut self) {
        self.by_begun = (0..self.all.len()).collect();
        self.by_begun.sort_by_key(|at| self.all[*at].begun);
        let mut asked = u64::MAX;
        let from_back = self.by_begun.iter().rev().map(|at| {
            asked = asked.min(self.all[*at].asked);
            asked
        });
        self.asked_from = from_back.collect();
        self.asked_from.reverse();
    }

    fn add_effects(&mut self, log: &'a SlotLog<'a>) {
        for row in &log.effects {
            match self.place(row.generation, row.mark) {
                Some(at) => self.all[at].effects.push(row),
                None => self.stray_effects.push(row),
            }
        }
        for generation in &mut self.all {
            generation.effects.sort_by_key(|row| row.t);
        }
    }

    fn add_op(&mut self, op: &'a Op<'a>) {
        match self.place(op.generation(), op.mark()) {
            Some(at) => {
                self.all[at].add(op);
                if op.is_ok() && (op.generation().is_some() || op.mark().is_some()) {
                    self.all[at].seen(op.to());
                }
            }
            // It ended or completed one of them, and any of them may be the one.
            None if matches!(op.verb(), Verb::Release | Verb::Resolve | Verb::Complete) => {
                self.all.iter_mut().for_each(|it| it.add_end(op));
            }
            None => {}
        }
    }

    /// Notes for each generation when a later one has surely begun.
    fn find_successors(&mut self) {
        let mut by_asked: Vec<(u64, u64)> =
            self.all.iter().map(|it| (it.asked, it.begun)).collect();
        by_asked.sort_unstable();
        // From the back, the earliest sure beginning among those asked for from here on.
        for at in (1..by_asked.len()).rev() {
            by_asked[at - 1].1 = by_asked[at - 1].1.min(by_asked[at].1);
        }
        for generation in &mut self.all {
            let later = by_asked.partition_point(|&(asked, _)| asked <= generation.begun);
            generation.superseded = by_asked.get(later).map_or(u64::MAX, |&(_, begun)| begun);
        }
    }
}

/// Returns the generation of every mark that tells its own.
fn generations_by_mark(log: &SlotLog<'_>) -> HashMap<Fence, Fence> {
    let mut known = HashMap::new();
    let mut tell = |mark: Option<Fence>, generation: Option<Fence>| {
        if let (Some(mark), Some(generation)) = (mark, generation) {
            known.entry(mark).or_insert(generation);
        }
    };
    for op in log.ops.iter().filter(|op| op.is_grant()) {
        tell(op.mark(), op.generation());
    }
    for op in log.ops.iter().filter(|op| !op.is_fail()) {
        tell(op.mark(), op.generation());
        // A generation is named after the claim that began it.
        tell(op.generation(), op.generation());
    }
    log.effects
        .iter()
        .for_each(|row| tell(row.mark, row.generation));
    log.last
        .iter()
        .for_each(|last| tell(last.mark, last.generation));
    add_first_claim(log, &mut known);
    known
}

/// Adds the claim that nobody saw granted, yet was at work before any other was asked for: in a
/// slot without a past it began a generation of its own. Of others nobody can tell.
fn add_first_claim(log: &SlotLog<'_>, known: &mut HashMap<Fence, Fence>) {
    let mut claims = log.ops.iter().filter(|op| op.may_be_grant());
    let (first, second) = (claims.next(), claims.next());
    let Some(mark) = first.filter(|op| op.is_info()).and_then(Op::mark) else {
        return;
    };
    let evidence = log.evidence();
    let at_work = evidence.iter().find(|it| it.mark == mark).map(|it| it.at);
    if at_work.is_some_and(|at| second.is_none_or(|second| at < second.from())) {
        known.entry(mark).or_insert(mark);
    }
}

/// Returns the numbers of all generations that anything tells of.
fn ids(log: &SlotLog<'_>, by_mark: &HashMap<Fence, Fence>) -> BTreeSet<Fence> {
    let told = log
        .ops
        .iter()
        .filter(|op| !op.is_fail())
        .filter_map(Op::generation);
    let effects = log.effects.iter().filter_map(|row| row.generation);
    let last = log.last.and_then(|last| last.generation);
    let mut ids: BTreeSet<Fence> = told.chain(effects).chain(last).collect();
    ids.extend(by_mark.values());
    if ids.is_empty() {
        // Seen from outside, a slot has one nameless generation.
        ids.insert(Fence::default());
    }
    ids
}
