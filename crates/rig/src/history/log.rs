//! Logs: the events of a run paired into operations and sorted by slot.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use super::{
    Fence, FinalRead, History, Kind, LedgerRow,
    op::{Doubt, Op},
    sight::Sight,
};

/// All that is known about one slot, operations in the order they were asked.
#[derive(Debug)]
pub(super) struct SlotLog<'a> {
    pub(super) tenant: &'a Arc<str>,
    pub(super) key: &'a Arc<str>,
    pub(super) ops: Vec<Op<'a>>,
    pub(super) effects: Vec<&'a LedgerRow>,
    pub(super) last: Option<&'a FinalRead>,
}

/// A mark that was seen at work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence<'a> {
    pub(super) mark: Fence,
    /// When it was first seen.
    pub(super) at: u64,
    /// For which payload, if that is known.
    fingerprint: Option<&'a str>,
}

/// Slots in the order they were first touched, found by name.
#[derive(Default)]
struct Logs<'a> {
    all: Vec<SlotLog<'a>>,
    places: HashMap<(&'a str, &'a str), usize>,
}

/// Pairs events into operations and sorts everything by slot, or says why that cannot be done.
pub(super) fn by_slot(history: &History) -> Result<Vec<SlotLog<'_>>, String> {
    let mut logs = Logs::default();
    // Where the operation that a process has under way is to be found: slot, then place in it.
    let mut places: HashMap<(u32, u64), (usize, usize)> = HashMap::new();
    for event in &history.events {
        let id = (event.proc, event.op_id);
        if event.kind == Kind::Invoke {
            let slot = logs.place(&event.tenant, &event.key);
            let ops = &mut logs.all[slot].ops;
            if places.insert(id, (slot, ops.len())).is_some() {
                return Err(format!("operation {id:?} is invoked twice"));
            }
            ops.push(Op::new(event));
        } else {
            let Some(&(slot, at)) = places.get(&id) else {
                return Err(format!("operation {id:?} ends and was never invoked"));
            };
            logs.all[slot].ops[at].end(event)?;
        }
    }
    for row in &history.ledger {
        let slot = logs.place(&row.tenant, &row.key);
        logs.all[slot].effects.push(row);
    }
    for read in &history.finals {
        let slot = logs.place(&read.tenant, &read.key);
        logs.all[slot].read_last(read)?;
    }
    let mut all = logs.all;
    all.iter_mut().try_for_each(SlotLog::put_in_order)?;
    Ok(all)
}

// === impl SlotLog ===

impl<'a> SlotLog<'a> {
    pub(super) fn name(&self) -> (&'a Arc<str>, &'a Arc<str>) {
        (self.tenant, self.key)
    }

    /// Returns all operations and the last read.
    pub(super) fn sights(&self) -> impl Iterator<Item = Sight<'_>> {
        self.ops
            .iter()
            .map(Sight::Op)
            .chain(self.last.map(Sight::Last))
    }

    fn read_last(&mut self, read: &'a FinalRead) -> Result<(), String> {
        if self.last.replace(read).is_some() {
            let (tenant, key) = self.name();
            return Err(format!("{tenant}/{key} has two last reads"));
        }
        Ok(())
    }

    fn put_in_order(&mut self) -> Result<(), String> {
        self.ops.sort_by_key(Op::from);
        self.lend_marks();
        let (tenant, key) = self.name();
        if let Some(op) = self
            .ops
            .iter()
            .find(|op| op.is_grant() && (op.mark().is_none() || op.generation().is_none()))
        {
            return Err(format!(
                "{op} in {tenant}/{key} has no mark or no generation"
            ));
        }
        let answered = self.ops.iter().filter(|op| !op.is_info()).map(Op::to).max();
        match self.last {
            Some(last) if answered > Some(last.mono_ns) => Err(format!(
                "the last read of {tenant}/{key} was not the last operation"
            )),
            _ => Ok(()),
        }
    }

    /// Gives the marks that nobody is known to have claimed to unanswered claims without a mark.
    ///
    /// A process that dies right after its claim leaves a mark in the store and in the ledger,
    /// and no line that names it. Which of several claims it was nobody can tell, so what they do
    /// not agree on stays in doubt; all that matters is that there are enough of them.
    fn lend_marks(&mut self) {
        let claims = self.ops.iter().filter(|op| op.may_be_grant());
        let known: HashSet<Fence> = claims.filter_map(Op::mark).collect();
        let ops = 0..self.ops.len();
        let nameless: Vec<usize> = ops.filter(|at| self.ops[*at].is_nameless_claim()).collect();
        if nameless.is_empty() {
            return;
        }
        let mut stray: Vec<Evidence<'_>> = self.evidence();
        stray.retain(|it| !known.contains(&it.mark));
        // Those that fit few claims choose first, and leave the early ones, which fit most.
        stray.sort_by_key(|it| (it.fingerprint.is_none(), it.at));
        for it in stray {
            let fits = |at: &&usize| it.fits(&self.ops[**at]);
            let mut free = nameless
                .iter()
                .filter(fits)
                .filter(|at| self.ops[**at].is_nameless_claim());
            let chosen = if it.fingerprint.is_some() {
                free.next_back()
            } else {
                free.next()
            };
            if let Some(&chosen) = chosen {
                let mine = &self.ops[chosen];
                let others = || nameless.iter().filter(fits).map(|at| &self.ops[*at]);
                let doubt = Doubt {
                    since: others().map(Op::from).min(),
                    payload: others().any(|op| op.told_fingerprint() != mine.told_fingerprint()),
                    class: others().any(|op| op.told_class() != mine.told_class()),
                };
                self.ops[chosen].lend(it.mark, doubt);
            }
        }
    }

    /// Returns the marks that were seen at work. A generation tells of the claim that began it.
    pub(super) fn evidence(&self) -> Vec<Evidence<'a>> {
        let mut by_mark: BTreeMap<Fence, Evidence<'a>> = BTreeMap::new();
        let mut see = |at: u64, marks: [Option<Fence>; 2], fingerprint: Option<&'a str>| {
            for mark in marks.into_iter().flatten() {
                let it = by_mark.entry(mark).or_insert(Evidence {
                    mark,
                    at,
                    fingerprint,
                });
                it.at = it.at.min(at);
                it.fingerprint = it.fingerprint.or(fingerprint);
            }
        };
        for row in &self.effects {
            see(
                row.t,
                [row.mark, row.generation],
                row.fingerprint.as_deref(),
            );
        }
        for sight in self.sights().filter(|sight| sight.to() < u64::MAX) {
            // The mark of what failed is its caller's word, and need not have been anywhere.
            let mark = sight.mark().filter(|_| !sight.is_fail());
            see(sight.to(), [mark, sight.generation()], None);
        }
        by_mark.into_values().collect()
    }
}

// === impl Evidence ===

impl Evidence<'_> {
    /// Whether a claim can be the one that was at work.
    fn fits(&self, claim: &Op<'_>) -> bool {
        let payload = self
            .fingerprint
            .is_none_or(|it| claim.told_fingerprint() == Some(it));
        claim.from() <= self.at && payload
    }
}

// === impl Logs ===

impl<'a> Logs<'a> {
    fn place(&mut self, tenant: &'a Arc<str>, key: &'a Arc<str>) -> usize {
        *self.places.entry((tenant, key)).or_insert_with(|| {
            self.all.push(SlotLog {
                tenant,
                key,
                ops: Vec::new(),
                effects: Vec::new(),
                last: None,
            });
            self.all.len() - 1
        })
    }
}
