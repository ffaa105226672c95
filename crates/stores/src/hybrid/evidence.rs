//! Evidence: what a memo is worth beside what the truth holds.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, counter};
use onceward::record::Deed;
use onceward::{Record, SlotId, State};
use parking_lot::Mutex;

use super::Memo;

/// What a memo that counts is worth beside what the truth holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Worth {
    /// The truth has the answer, too, perhaps with a later fence.
    Held,
    /// The truth goes by something newer: an operator's word, or other work under the same key.
    Overruled,
    /// The truth acknowledged it once and lacks it now.
    Lost,
}

/// Decides what the memo of `record` is worth beside what the truth holds at the same time.
pub(super) fn worth(record: &Record, found: Option<&Record>) -> Worth {
    let Some(found) = found else {
        return Worth::Lost;
    };
    if found.generation > record.generation {
        return Worth::Overruled;
    }
    if found.generation < record.generation {
        return Worth::Lost;
    }
    let is_settled = |deed| matches!(deed, Deed::Completed | Deed::NotExecuted);
    match found.state {
        State::Completed(_) => Worth::Held,
        // An operator settled what the truth had lost, and said so to the cache first; a cache that
        // has the memo again was restored from before.
        _ if found.audit.iter().any(|note| is_settled(note.deed)) => Worth::Overruled,
        _ => Worth::Lost,
    }
}

/// Acknowledged answers that the truth was found to lack: a proof that it lost writes.
///
/// That none were found proves nothing: only answers that were remembered and asked for are
/// compared.
#[derive(Debug)]
pub struct Regressions {
    count: AtomicU64,
    /// Those that were told of.
    told: Mutex<HashSet<SlotId>>,
    counter: Counter,
}

// === impl Regressions ===

impl Regressions {
    /// How many slots are told apart. What comes after is counted each time it is found.
    const SLOTS_MAX: usize = 10_000;

    /// How many answers were found lacking so far.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Tells of one, once.
    pub(super) fn tell(&self, slot: SlotId, memo: &Memo) {
        let mut told = self.told.lock();
        let is_known = told.contains(&slot);
        let has_room = told.len() < Self::SLOTS_MAX;
        if is_known {
            return;
        }
        if has_room {
            told.insert(slot);
        }
        drop(told);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.counter.increment(1);
        if has_room {
            tracing::error!(
                ?slot,
                generation = %memo.record.generation,
                "the database lacks an answer that it acknowledged: it was restored from an older \
                 state or failed over without it. The cache goes on answering; keys whose answers \
                 it does not hold may be executed again"
            );
        }
    }
}

impl Default for Regressions {
    fn default() -> Self {
        Self {
            count: AtomicU64::new(0),
            told: Mutex::default(),
            counter: counter!("onceward_store_regressed_total"),
        }
    }
}

#[cfg(test)]
mod tests {
    use onceward::Fence;
    use onceward::testing::records::{self, LONG};

    use super::*;

    fn of(generation: u128, record: Record) -> Record {
        let generation = Fence::from_bits(generation << 64);
        Record {
            generation,
            ..record
        }
    }

    #[test]
    fn the_truth_with_the_same_answer_holds_it() {
        let memo = of(5, records::completed(LONG));
        let extended = records::rewritten(&memo);
        for found in [memo.clone(), extended, of(5, records::shedding(LONG))] {
            assert_eq!(worth(&memo, Some(&found)), Worth::Held);
        }
    }

    #[test]
    fn a_truth_without_it_lost_it() {
        let memo = of(5, records::completed(LONG));
        assert_eq!(worth(&memo, None), Worth::Lost);
        for found in [
            of(5, records::claimed(LONG)),
            of(5, records::unknown(None)),
            of(4, records::completed(LONG)),
            of(4, records::claimed(LONG)),
        ] {
            assert_eq!(worth(&memo, Some(&found)), Worth::Lost, "{found:?}");
        }
    }

    #[test]
    fn an_operator_and_later_work_overrule_it() {
        let memo = of(5, records::completed(LONG));
        for found in [
            of(5, records::open(LONG)),
            of(6, records::claimed(LONG)),
            of(6, records::completed(LONG)),
        ] {
            assert_eq!(worth(&memo, Some(&found)), Worth::Overruled, "{found:?}");
        }
    }

    #[test]
    fn each_slot_is_counted_once() {
        let regressions = Regressions::default();
        let record = std::sync::Arc::new(records::completed(LONG));
        let memo = Memo {
            until: record.expires(),
            record,
            is_evidence: false,
        };
        for slot in ["a", "b", "a"] {
            regressions.tell(records::slot(slot), &memo);
        }
        assert_eq!(regressions.count(), 2);
    }
}
