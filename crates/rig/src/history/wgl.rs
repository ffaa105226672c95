//! A second opinion, after Wing, Gong and Lowe: is there an order in which one plain slot could
//! have given all these answers?
//!
//! The search knows nothing of the twelve rules. It holds each slot's operations against a
//! sequential [`Spec`] and tries the orders that real time allows, remembering what it has tried
//! as (operations placed, state reached). It sees no effects, so it is blind to C1 and C7.

mod spec;

use std::{collections::HashSet, sync::Arc};

use super::{
    Expectations, History, State, Verb,
    log::{self, SlotLog},
    op::Op,
    sight::Sight,
};

use self::spec::{Slot, Spec};

/// The most operations of one slot that are searched: one bit each.
pub const OPS_MAX: usize = 64;

/// The most situations that are tried before a slot is given up.
///
/// Unanswered operations double them, so a slot with many is better left to the twelve rules.
pub const TRIES_MAX: usize = 1 << 16;

/// What the search has to say about a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opinion {
    /// Slots for which an order was found.
    pub orderly: u64,
    /// Slots that were too long, or tried for too long.
    pub skipped: u64,
    /// Slots, by tenant and key, whose answers no order explains.
    pub refused: Vec<(Arc<str>, Arc<str>)>,
}

/// Why a history cannot be searched: its lines contradict one another.
#[derive(Debug, thiserror::Error)]
#[error("history contradicts itself: {0}")]
pub struct Contradiction(String);

/// Searches every slot of a history for an order.
pub fn search(history: &History) -> Result<Opinion, Contradiction> {
    let mut opinion = Opinion::default();
    for log in &log::by_slot(history).map_err(Contradiction)? {
        match is_orderly(log, &history.expectations) {
            None => opinion.skipped += 1,
            Some(true) => opinion.orderly += 1,
            Some(false) => opinion
                .refused
                .push((Arc::clone(log.tenant), Arc::clone(log.key))),
        }
    }
    Ok(opinion)
}

/// Whether an order explains a slot, or `None` if that is too much to find out.
fn is_orderly(log: &SlotLog<'_>, expect: &Expectations) -> Option<bool> {
    let sights: Vec<Sight<'_>> = log.sights().filter(matters).collect();
    if sights.len() > OPS_MAX || expect.black_box {
        return None;
    }
    let mut search = Search {
        spec: Spec { expect },
        sights,
        tried: HashSet::new(),
    };
    let found = search.explains(0, Slot::EMPTY);
    (search.tried.len() < TRIES_MAX)
        .then_some(found)
        .or(found.then_some(true))
}

/// Whether an operation tells anything about the slot, or may have changed it.
fn matters(sight: &Sight<'_>) -> bool {
    match sight {
        Sight::Op(op) if op.is_fail() => op.is_terminal(),
        // Of what nobody knows the end of, only what may have moved the slot on is of interest.
        Sight::Op(op) if op.is_info() => op.may_be_grant() || op.may_complete() || op.may_vacate(),
        Sight::Op(op) => {
            op.verb() != Verb::MsgAck && (op.verb() != Verb::Sweep || op.answer().is_some())
        }
        Sight::Last(_) => true,
    }
}

struct Search<'a> {
    spec: Spec<'a>,
    sights: Vec<Sight<'a>>,
    tried: HashSet<(u64, Slot<'a>)>,
}

// === impl Search ===

impl<'a> Search<'a> {
    /// Whether what is not yet placed can follow, the slot being as it is.
    fn explains(&mut self, placed: u64, slot: Slot<'a>) -> bool {
        let open = |at: &usize| placed & (1 << at) == 0;
        let waiting: Vec<usize> = (0..self.sights.len()).filter(open).collect();
        // Nothing can come after the first answer among what is not yet placed.
        let first_end = waiting.iter().map(|at| self.sights[*at].to()).min();
        // What was never answered need not have happened.
        if first_end.is_none_or(|end| end == u64::MAX) {
            return true;
        }
        if self.tried.len() >= TRIES_MAX || !self.tried.insert((placed, slot)) {
            return false;
        }
        // Of unanswered claims that ask for the same, the first can stand in for the others.
        let mut nameless: Vec<&Op<'_>> = Vec::new();
        for at in waiting {
            let sight = self.sights[at];
            if Some(sight.from()) > first_end {
                break;
            }
            if nameless.iter().any(|op| is_stand_in(op, &sight)) {
                continue;
            }
            nameless.extend(nameless_claim(&sight));
            for next in self.spec.after(slot, sight) {
                if self.explains(placed | 1 << at, next) {
                    return true;
                }
            }
        }
        false
    }
}

/// Returns the operation if it is an unanswered claim that does not tell its mark.
fn nameless_claim<'a>(sight: &Sight<'a>) -> Option<&'a Op<'a>> {
    match sight {
        Sight::Op(op) if op.may_be_grant() && op.told_mark().is_none() => Some(op),
        _ => None,
    }
}

fn is_stand_in(op: &Op<'_>, sight: &Sight<'_>) -> bool {
    nameless_claim(sight).is_some_and(|claim| claim.is_alike(op))
}
