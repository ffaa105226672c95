//! kill -9 of a process whose callers make up a new key at every try: each order is paid once.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use onceward_rig::postgres::scratch;
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

/// What came of it.
struct Told {
    kills: u64,
    orders: usize,
    answered: u64,
    unknown: u64,
}

#[test]
fn no_order_is_paid_twice_whatever_its_keys_and_whenever_its_process_is_killed() {
    let folder = tempfile::tempdir().expect("a folder for the store");
    // What a process that is killed has written is in the hands of the system.
    let url = format!("embedded:{}/store?durability=os", folder.path().display());
    let told = kill_payers(&url, 1, &Budget::seconds(6));
    told.record("kill -9, orders under new keys");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_is_paid_twice_by_two_processes_on_one_database_that_are_killed() {
    let (url, _scratch) = scratch().await;
    let killed = tokio::task::spawn_blocking(move || kill_payers(&url, 2, &Budget::seconds(5)));
    let told = killed.await.expect("every order is paid once");
    told.record("kill -9, orders under new keys, two processes on PostgreSQL");
}

/// Lets so many processes at once pay orders, kills them one after the other, and asks for
/// everything once more in the end.
fn kill_payers(url: &str, at_once: usize, budget: &Budget) -> Told {
    let mut random = fastrand::Rng::new();
    let mut ledger = Ledger::default();
    let (mut kills, mut from) = (0_u64, 0);
    // On a busy machine the budget is over before much was done.
    let patience = Budget::seconds(120);
    let is_enough = |kills, ledger: &Ledger| kills >= 5 && ledger.answers.len() > 50;
    while budget.lasts() || !is_enough(kills, &ledger) {
        assert!(patience.lasts(), "the payers hardly work");
        let start = || Payer::start(url, (from, ORDERS_MAX));
        let payers: Vec<_> = (0..at_once).map(|_| start()).collect();
        for mut payer in payers {
            // From "not even open" to "some orders in", and then anywhere among their writes.
            payer.hear(random.usize(0..120), &mut ledger);
            payer.kill(&mut ledger);
            kills += 1;
        }
        ledger.check();
        let last = ledger.effects.last_key_value();
        from = last.map_or(0, |(order, _)| order.saturating_sub(AGAIN));
    }
    // Everything there was is asked for once more, under new keys.
    let last = ledger.effects.last_key_value();
    let end = last.map_or(0, |(order, _)| order + 1);
    let before = ledger.answers.clone();
    let mut payer = Payer::start(url, (0, end));
    let mut again = Ledger {
        effects: ledger.effects.clone(),
        ..Ledger::default()
    };
    payer.hear(usize::MAX, &mut again);
    assert!(payer.child.wait().expect("it ends").success());
    again.check();
    for (order, answer) in &before {
        assert_eq!(again.answers.get(order), Some(answer), "order {order}");
    }
    Told {
        kills,
        orders: again.effects.len(),
        answered: ledger.answered + again.answered,
        unknown: ledger.unknown + again.unknown,
    }
}

// === impl Told ===

impl Told {
    fn record(&self, name: &str) {
        let note = format!(
            "{} orders under new keys at every try, {} answers, {} times unknown, paid twice 0",
            self.orders, self.answered, self.unknown,
        );
        Tally::record(name, self.kills, None, 0, &note);
    }
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
                let before = self.answers.insert(number(order), receipt.to_owned());
                let same = before.is_none_or(|before| before == receipt);
                assert!(same, "order {order} has two answers");
            }
            ["unknown", _] => self.unknown += 1,
            // A line that the kill cut off says nothing.
            _ => {}
        }
    }

    /// Sees that every answer is that of the order's one payment, whoever made it.
    fn check(&self) {
        for (order, answer) in &self.answers {
            assert_eq!(self.effects.get(order), Some(answer), "order {order}");
        }
    }
}
