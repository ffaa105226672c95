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
    /// Who pays for callers that do not pay themselves, and how much of it each added.
    shares: HashMap<Arc<str>, HashMap<Subject, Share>>,
    /// How many shares there are.
    len: usize,
}

/// What one peer has added as one caller.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// Until the last count began, as far as that found it.
    before: Holdings,
    since: Holdings,
}

/// How many shares are kept.
const SHARES_MAX: usize = 100_000;

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
            books.share(payer, tenant, more);
        }
        books.since.entry(payer.clone()).or_default().add(more);
    }

    /// Says that a count begins.
    pub(super) fn begin(&self) {
        let mut books = self.0.lock();
        for (payer, more) in std::mem::take(&mut books.since) {
            books.before.entry(payer).or_default().add(more);
        }
        for share in books.shares.values_mut().flat_map(HashMap::values_mut) {
            share.before.add(std::mem::take(&mut share.since));
        }
    }

    /// Takes the result of the count that began last.
    pub(super) fn end(&self, tenants: HashMap<Arc<str>, Holdings>) {
        let mut books = self.0.lock();
        let mut counted: HashMap<_, Holdings> = HashMap::with_capacity(tenants.len());
        // Who has nothing any more needs nobody to pay for it.
        books.shares.retain(|tenant, shares| {
            tenants.contains_key(tenant)
                || shares
                    .values()
                    .any(|share| share.since != Holdings::default())
        });
        books.len = books.shares.values().map(HashMap::len).sum();
        for (tenant, held) in tenants {
            let Some(shares) = books.shares.get_mut(&tenant) else {
                counted
                    .entry(Subject::Caller(tenant))
                    .or_default()
                    .add(held);
                continue;
            };
            apportion(shares, held);
            for (payer, share) in shares {
                counted.entry(payer.clone()).or_default().add(share.before);
            }
        }
        books.counted = counted;
        books.before.clear();
    }
}

// === impl Books ===

impl Books {
    /// Adds to what this peer has as this caller, if there is room to know it.
    fn share(&mut self, payer: &Subject, tenant: &str, more: Holdings) {
        let full = self.len >= SHARES_MAX;
        let known = self.shares.get_mut(tenant);
        if let Some(share) = known.and_then(|shares| shares.get_mut(payer)) {
            share.since.add(more);
        } else if !full {
            let since = Share {
                since: more,
                ..Share::default()
            };
            let shares = self.shares.entry(tenant.into()).or_default();
            shares.insert(payer.clone(), since);
            self.len += 1;
        }
    }
}

/// Divides what a caller has among those who pay for it. One alone pays for all of it; several for
/// what each has added, as far as that can be there still.
fn apportion(shares: &mut HashMap<Subject, Share>, held: Holdings) {
    let alone = shares.len() == 1;
    let mut sum = Holdings::default();
    for share in shares.values() {
        sum.add(share.before.at_least_nothing());
    }
    let part = |own: i64, held: i64, sum: i64| match sum > held {
        true => (i128::from(own) * i128::from(held) / i128::from(sum)) as i64,
        false => own,
    };
    for share in shares.values_mut() {
        let own = share.before.at_least_nothing();
        share.before = match alone {
            true => held,
            false => Holdings {
                unknown: part(own.unknown, held.unknown, sum.unknown),
                stored: part(own.stored, held.stored, sum.stored),
            },
        };
    }
}

// === impl Holdings ===

impl Holdings {
    /// Adds `more` to these.
    pub fn add(&mut self, more: Self) {
        self.unknown += more.unknown;
        self.stored += more.stored;
    }

    fn at_least_nothing(self) -> Self {
        Self {
            unknown: self.unknown.max(0),
            stored: self.stored.max(0),
        }
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
    fn several_peers_pay_for_what_each_wrote_as_one_caller() {
        let ledger = Ledger::default();
        let [one, two] = [1, 2].map(|last| Subject::peer([10, 0, 0, last].into()));
        ledger.add(&one, "all", unknown(1));
        ledger.add(&two, "all", unknown(3));
        // Others wrote before this process began.
        for counted in [50, 50, 4] {
            ledger.begin();
            ledger.end(HashMap::from([("all".into(), unknown(counted))]));
            assert_eq!(ledger.of(&one), unknown(1));
            assert_eq!(ledger.of(&two), unknown(3));
        }
        // Some was settled, of whomever it was; what is added meanwhile counts besides.
        ledger.begin();
        ledger.add(&one, "all", unknown(1));
        ledger.end(HashMap::from([("all".into(), unknown(2))]));
        assert_eq!(ledger.of(&one), unknown(1));
        assert_eq!(ledger.of(&two), unknown(1));
        ledger.begin();
        ledger.end(HashMap::new());
        assert_eq!(ledger.of(&two), unknown(0));
    }
}
