//! What somebody with a claim does: execute, and write to the slot as long as it is theirs.

use std::sync::Arc;

use onceward_rig::history::{Answer, Class, Event, Fence, Kind, LedgerRow, State, Verb};

use super::{Record, Slot, World};

/// Somebody with a claim.
pub(super) struct Holder {
    pub(super) slot: usize,
    pub(super) mark: Fence,
    pub(super) attempt: u32,
    /// What the service said, and whether it refused.
    pub(super) result: Option<(Arc<str>, bool)>,
    /// When it was last answered: it asks nothing before.
    pub(super) free: u64,
    /// Whether its process died, so that all it can still do is execute.
    pub(super) dead: bool,
}

// === impl World ===

impl World<'_> {
    /// Lets somebody with a claim do something.
    pub(super) fn act(&mut self) {
        let now = self.now;
        let free: Vec<usize> = (0..self.holders.len())
            .filter(|at| self.holders[*at].free + 1 < now)
            .collect();
        if free.is_empty() {
            return;
        }
        let at = free[self.pick(free.len() as u64) as usize];
        let (dead, done) = (self.holders[at].dead, self.holders[at].result.is_some());
        let transactional = self.slots[self.holders[at].slot].class == Class::Transactional;
        match self.pick(6) {
            0 | 1 if !done && !transactional => self.execute(at),
            _ if dead => {}
            2 => self.write(at, Verb::Renew),
            3 | 4 if done || transactional => self.write(at, Verb::Complete),
            3 if !done => self.write(at, Verb::Release),
            _ => self.write(at, Verb::Abandon),
        }
    }

    fn execute(&mut self, at: usize) {
        let refused = self.pick(5) == 0;
        let Holder { slot, mark, .. } = self.holders[at];
        let keyed = self.slots[slot].class == Class::Keyed;
        let known = self.memory.get(&slot).filter(|_| keyed).cloned();
        let result = known
            .clone()
            .unwrap_or_else(|| (format!("h{mark}").into(), refused));
        self.holders[at].result = Some(result.clone());
        if known.is_none() {
            self.accept(slot, mark, &result);
        }
    }

    /// Has the service behind do the work, unless it refuses.
    fn accept(&mut self, slot: usize, mark: Fence, result: &(Arc<str>, bool)) {
        self.memory.insert(slot, result.clone());
        if result.1 {
            return;
        }
        let Slot {
            tenant,
            key,
            executed,
            ..
        } = &mut self.slots[slot];
        *executed = true;
        self.history.ledger.push(LedgerRow {
            tenant: Arc::clone(tenant),
            key: Arc::clone(key),
            mark: Some(mark),
            resp_hash: Some(Arc::clone(&result.0)),
            t: self.now,
            ..LedgerRow::default()
        });
    }

    /// Lets a holder write to its slot, if that is still its own.
    fn write(&mut self, at: usize, verb: Verb) {
        let Holder {
            slot,
            mark,
            free,
            attempt,
            ..
        } = self.holders[at];
        self.expire(slot);
        let result = self.holders[at]
            .result
            .clone()
            .unwrap_or_else(|| (format!("h{mark}").into(), false));
        let (state, own) = (
            self.slots[slot].record.state,
            self.slots[slot].record.mark == mark,
        );
        let (claimed, pending) = (
            state == State::Claimed,
            matches!(state, State::Claimed | State::Unknown),
        );
        let mut asked = Event {
            mark: Some(mark),
            ..self.event(slot, verb)
        };
        let mut end = self.event(slot, verb);
        let can = own && (claimed || pending && verb == Verb::Complete);
        if verb == Verb::Complete {
            asked.body_hash = Some(Arc::clone(&result.0));
            asked.answer = result.1.then_some(Answer::Refused);
        }
        let lost = self.is_lost();
        let happens = can && !(lost && self.pick(2) == 0);
        if happens {
            self.apply(slot, verb, mark, attempt, &result, &mut end);
        } else if state == State::Completed && verb == Verb::Complete {
            let record = &self.slots[slot].record;
            end.answer = Some(Answer::Replayed);
            (end.body_hash, end.generation) = (record.hash.clone(), Some(record.generation));
        }
        let kind = if happens { Kind::Ok } else { Kind::Fail };
        let to = self.tell(free, &asked, (!lost).then_some(end), kind);
        self.holders[at].free = to;
        if lost || verb != Verb::Renew {
            self.holders.remove(at);
        }
    }

    fn apply(
        &mut self,
        at: usize,
        verb: Verb,
        mark: Fence,
        attempt: u32,
        result: &(Arc<str>, bool),
        end: &mut Event,
    ) {
        let now = self.now;
        if verb == Verb::Complete && self.slots[at].class == Class::Transactional {
            self.accept(at, mark, result);
        }
        let record = &mut self.slots[at].record;
        match verb {
            Verb::Complete => {
                record.state = State::Completed;
                record.hash = Some(Arc::clone(&result.0));
                record.completed = now;
            }
            Verb::Release if attempt == 1 => {
                *record = Record::default();
                end.answer = Some(Answer::Absent);
                return;
            }
            Verb::Release => {
                record.state = State::Unknown;
                end.answer = Some(Answer::Unknown);
            }
            Verb::Abandon => record.state = State::Unknown,
            _ => {}
        }
        end.fence = Some(Fence(now.into()));
    }
}
