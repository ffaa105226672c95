//! kill -9 of a process whose callers make up a new key at every try: each order is paid once.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use onceward_rig::tally::Tally;

use crate::budget::Budget;

/// How many orders of one life are asked for again in the next.
const AGAIN: u64 = 8;

/// The orders that all lives ask for in the end.
const ORDERS_MAX: u64 = 1_000_000;

/// A process that pays orders.
struct Payer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// What was said by all of them, by order.
#[derive(Default)]
struct Ledger {
    effects: BTreeMap<u64, String>,
    answers: BTreeMap<u64, String>,
    unknown: u64,
    answered: u64,
}

#[test]
fn no_order_is_paid_twice_whatever_its_keys_and_whenever_its_process_is_killed() {
    let folder = tempfile::tempdir().expect("a folder for the store");
    // What a process that is killed has written is in the hands of the system.
    let url = format!("embedded:{}/store?durability=os", folder.path().display());
    let budget = Budget::seconds(6);
    let mut random = fastrand::Rng::new();
    let mut ledger = Ledger::default();
    let (mut kills, mut from) = (0, 0);
    while budget.lasts() {
        let mut payer = Payer::start(&url, (from, ORDERS_MAX));
        // From "not even open" to "some orders in", and then anywhere among their writes.
        payer.hear(random.usize(0..120), &mut ledger);
        payer.kill(&mut ledger);
        kills += 1;
        let last = ledger.effects.last_key_value();
        from = last.map_or(0, |(order, _)| order.saturating_sub(AGAIN));
    }
    // Everything there was is asked for once more, under new keys.
    let last = ledger.effects.last_key_value();
    let end = last.map_or(0, |(order, _)| order + 1);
    let before = ledger.answers.clone();
    let mut payer = Payer::start(&url, (0, end));
    let mut again = Ledger {
        effects: ledger.effects.clone(),
        ..Ledger::default()
    };
    payer.hear(usize::MAX, &mut again);
    assert!(payer.child.wait().expect("it ends").success());
    for (order, answer) in &before {
        assert_eq!(again.answers.get(order), Some(answer), "order {order}");
    }
    assert!(kills >= 5 && before.len() > 50, "the payers hardly worked");
    let note = format!(
        "{} orders under new keys at every try, {} answers, {} times unknown, paid twice 0",
        again.effects.len(),
        ledger.answered + again.answered,
        ledger.unknown + again.unknown,
    );
    Tally::record("kill -9, orders under new keys", kills, None, 0, &note);
}

// === impl Payer ===

impl Payer {
    fn start(url: &str, (from, end): (u64, u64)) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_victim"))
            .args(["orders", url, &from.to_string(), &end.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the payer starts");
        let stdout = child.stdout.take().expect("its stdout is a pipe");
        let lines = BufReader::new(stdout).lines();
        Self { child, lines }
    }

    /// Listens until it has said so many lines, or all it has to say.
    fn hear(&mut self, lines: usize, ledger: &mut Ledger) {
        for line in self.lines.by_ref().take(lines) {
            ledger.note(&line.expect("its lines are text"));
        }
    }

    fn kill(mut self, ledger: &mut Ledger) {
        self.child.kill().expect("the payer can be killed");
        // What it said before is still in the pipe.
        self.hear(usize::MAX, ledger);
        self.child.wait().expect("the payer ends");
    }
}

// === impl Ledger ===

impl Ledger {
    fn note(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |order: &str| order.parse::<u64>().expect("an order has a number");
        match words[..] {
            ["ready"] => {}
            ["effect", order, receipt] => {
                let before = self.effects.insert(number(order), receipt.to_owned());
                assert_eq!(before, None, "order {order} is paid twice: {receipt}");
            }
            ["done", order, receipt] => {
                self.answered += 1;
                let paid = self.effects.get(&number(order));
                assert_eq!(paid.map(String::as_str), Some(receipt), "order {order}");
                self.answers.insert(number(order), receipt.to_owned());
            }
            ["unknown", _] => self.unknown += 1,
            // A line that the kill cut off says nothing.
            _ => {}
        }
    }
}
