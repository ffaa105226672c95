//! The ledger: every charge that the sample service made, in order.
//!
//! It is the judge of the demo: what was charged twice stands here twice, whatever anybody was
//! told about it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// What one customer was charged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Charge {
    pub(super) payment: String,
    pub(super) amount: u64,
    pub(super) order: String,
}

/// All charges so far.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    charges: Vec<Charge>,
    /// The charges that were made under a key, by their place.
    by_key: HashMap<String, usize>,
    answers_lost: usize,
}

/// How often the orders of a ledger were charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Balance {
    pub(super) charges: usize,
    /// Orders that were charged exactly once.
    pub(super) charged_once: usize,
    /// Charges beyond the first of their order.
    pub(super) duplicates: usize,
}

// === impl Ledger ===

impl Ledger {
    /// Charges, whatever was charged before.
    pub(super) fn charge(&self, order: &str, amount: u64) -> Charge {
        self.pages().charge(order, amount)
    }

    /// Charges, unless it was done under this key before; returns whether it had to.
    pub(super) fn charge_under(&self, key: &str, order: &str, amount: u64) -> (Charge, bool) {
        let mut pages = self.pages();
        if let Some(&place) = pages.by_key.get(key) {
            return (pages.charges[place].clone(), false);
        }
        let place = pages.charges.len();
        pages.by_key.insert(key.to_owned(), place);
        (pages.charge(order, amount), true)
    }

    /// Notes that a charge was made whose answer nobody got.
    pub(super) fn lose_answer(&self) {
        self.pages().answers_lost += 1;
    }

    /// Returns the charges, oldest first.
    pub(super) fn charges(&self) -> Vec<Charge> {
        self.pages().charges.clone()
    }

    /// How many charges there are.
    pub(super) fn len(&self) -> usize {
        self.pages().charges.len()
    }

    /// How many answers the service lost after it had charged.
    pub(super) fn answers_lost(&self) -> usize {
        self.pages().answers_lost
    }

    /// Counts the charges of each order.
    pub(super) fn balance(&self) -> Balance {
        let pages = self.pages();
        let mut times: HashMap<&str, usize> = HashMap::new();
        for charge in &pages.charges {
            *times.entry(&charge.order).or_default() += 1;
        }
        Balance {
            charges: pages.charges.len(),
            charged_once: times.values().filter(|&&times| times == 1).count(),
            duplicates: pages.charges.len() - times.len(),
        }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        // A charge is one push: a panic elsewhere leaves no page half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Pages ===

impl Pages {
    fn charge(&mut self, order: &str, amount: u64) -> Charge {
        let charge = Charge {
            payment: format!("pay_{}", self.charges.len() + 1),
            amount,
            order: order.to_owned(),
        };
        self.charges.push(charge.clone());
        charge
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_charge_beyond_the_first_of_its_order_is_a_duplicate() {
        let ledger = Ledger::default();
        for order in ["o-1", "o-2", "o-1", "o-1", "o-3"] {
            ledger.charge(order, 100);
        }
        let balance = Balance {
            charges: 5,
            charged_once: 2,
            duplicates: 2,
        };
        assert_eq!(ledger.balance(), balance);
    }

    #[test]
    fn a_key_is_charged_once_and_gets_its_first_charge_back() {
        let ledger = Ledger::default();
        let (first, made) = ledger.charge_under("k1", "o-1", 100);
        assert!(made);
        assert_eq!(
            ledger.charge_under("k1", "o-1", 999),
            (first.clone(), false)
        );
        assert_eq!(ledger.charges(), [first]);
    }

    #[test]
    fn payments_are_numbered_in_order() {
        let ledger = Ledger::default();
        assert_eq!(ledger.charge("o-1", 100).payment, "pay_1");
        assert_eq!(ledger.charge("o-1", 100).payment, "pay_2");
    }
}
