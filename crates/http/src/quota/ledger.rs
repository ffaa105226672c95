//! The ledger: what callers have in the store, as far as it was counted.
//!
//! The last count says what was there when it was taken. What this process has added since that
//! count began is added to it, so that what was written while it went on may count twice until the
//! next one, and never less than once.

use std::collections::HashMap;
use std::sync::Arc;

use onceward::Scope;
use parking_lot::Mutex;

use super::Subject;

/// What a caller has in the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holdings {
    /// Records whose outcome nobody knows.
    pub unknown: i64,
    /// Bytes of all its records.
    pub stored: i64,
}

/// What callers have in the store.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Books>);

#[derive(Debug, Default)]
struct Books {
    counted: HashMap<Subject, Holdings>,
    /// What was added before the count began that is going on.
    before: HashMap<Subject, Holdings>,
    /// What was added since.
    since: HashMap<Subject, Holdings>,
    /// Who pays for callers that do not pay themselves; nobody, where there are several who might.
    payers: HashMap<Arc<str>, Option<Subject>>,
}

/// How many callers are known by who pays for them.
const PAYERS_MAX: usize = 100_000;

/// What a record takes besides the names and the answer in it.
const RECORD: usize = 160;

/// Returns about how many bytes a record takes in a store, of which `outcome` are its outcome's.
pub fn weight(scope: &Scope, outcome: usize) -> u64 {
    let names = scope.tenant().len() + scope.operation().len();
    (RECORD + names + outcome) as u64
}

// === impl Ledger ===

impl Ledger {
    /// What `payer` has.
    pub(super) fn of(&self, payer: &Subject) -> Holdings {
        let books = self.0.lock();
        let all = [&books.counted, &books.before, &books.since];
        let mut sum = Holdings::default();
        for held in all.iter().filter_map(|book| book.get(payer)) {
            sum.add(*held);
        }
        sum
    }

    /// Adds what `payer` has more, or less, for this tenant.
    pub(super) fn add(&self, payer: &Subject, tenant: &str, more: Holdings) {
        let mut books = self.0.lock();
        if let Subject::Peer(_) = payer {
            let room = books.payers.len() < PAYERS_MAX;
            match books.payers.get_mut(tenant) {
                Some(known) if known.as_ref() == Some(payer) => {}
                Some(known) => *known = None,
                None if room => {
                    books.payers.insert(tenant.into(), Some(payer.clone()));
                }
                None => {}
            }
        }
        books.since.entry(payer.clone()).or_default().add(more);
    }

    /// Says that a count begins.
    pub(super) fn begin(&self) {
        let mut books = self.0.lock();
        for (payer, more) in std::mem::take(&mut books.since) {
            books.before.entry(payer).or_default().add(more);
        }
    }

    /// Takes the result of the count that began last.
    pub(super) fn end(&self, tenants: HashMap<Arc<str>, Holdings>) {
        let mut books = self.0.lock();
        let mut counted = HashMap::with_capacity(tenants.len());
        // Who has nothing any more needs no payer.
        books
            .payers
            .retain(|tenant, _| tenants.contains_key(tenant));
        for (tenant, held) in tenants {
            let payer = match books.payers.get(&tenant) {
                Some(None) => continue,
                Some(Some(peer)) => peer.clone(),
                None => Subject::Caller(tenant),
            };
            counted
                .entry(payer)
                .or_insert_with(Holdings::default)
                .add(held);
        }
        books.counted = counted;
        books.before.clear();
    }
}

// === impl Holdings ===

impl Holdings {
    /// Adds `more` to these.
    pub fn add(&mut self, more: Self) {
        self.unknown += more.unknown;
        self.stored += more.stored;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str) -> Subject {
        Subject::Caller(name.into())
    }

    fn unknown(unknown: i64) -> Holdings {
        Holdings { unknown, stored: 0 }
    }

    #[test]
    fn what_is_added_counts_until_a_count_has_seen_it() {
        let (ledger, alice) = (Ledger::default(), caller("alice"));
        ledger.add(&alice, "alice", unknown(2));
        assert_eq!(ledger.of(&alice), unknown(2));
        ledger.begin();
        ledger.add(&alice, "alice", unknown(1));
        assert_eq!(ledger.of(&alice), unknown(3));
        // The count saw the first two, and may have missed the third.
        ledger.end(HashMap::from([("alice".into(), unknown(2))]));
        assert_eq!(ledger.of(&alice), unknown(3));
        ledger.begin();
        ledger.end(HashMap::from([("alice".into(), unknown(3))]));
        assert_eq!(ledger.of(&alice), unknown(3));
        ledger.begin();
        ledger.end(HashMap::new());
        assert_eq!(ledger.of(&alice), unknown(0));
    }

    #[test]
    fn callers_of_one_peer_are_counted_together() {
        let (ledger, peer) = (Ledger::default(), Subject::peer([10, 0, 0, 1].into()));
        ledger.add(&peer, "one", unknown(1));
        ledger.add(&peer, "two", unknown(1));
        ledger.begin();
        let counted = ["one", "two", "three"].map(|name| (name.into(), unknown(1)));
        ledger.end(HashMap::from(counted));
        assert_eq!(ledger.of(&peer), unknown(2));
        assert_eq!(ledger.of(&caller("three")), unknown(1));
    }

    #[test]
    fn nobody_pays_for_what_several_peers_wrote_as_one_caller() {
        let ledger = Ledger::default();
        let peers = [1, 2].map(|last| Subject::peer([10, 0, 0, last].into()));
        for peer in &peers {
            ledger.add(peer, "all", unknown(1));
        }
        ledger.begin();
        ledger.end(HashMap::from([("all".into(), unknown(50))]));
        for peer in &peers {
            assert_eq!(ledger.of(peer), unknown(0));
        }
    }
}
