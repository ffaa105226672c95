//! The report of a drive: a table for people, an object for machines.

use serde_json::json;

use super::super::ledger::Balance;
use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::figures;

/// What came of one run of the schedule.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    pub(super) attempts: usize,
    /// What the ledger says.
    pub(super) balance: Balance,
    /// Answers that were the first one once more.
    pub(super) replays: usize,
    /// Attempts that were refused because their payload had changed.
    pub(super) refusals: usize,
    /// Attempts whose answer the client never had.
    pub(super) cut: usize,
    /// Operations whose client was told that nobody knows, and stopped.
    pub(super) unknown: usize,
    /// Answers that the service lost after it had charged.
    pub(super) answers_lost: usize,
    /// Attempts that were made beside another one.
    pub(super) in_parallel: usize,
    /// Attempts with another amount.
    pub(super) changed: usize,
}

/// What came of the same schedule without and with the gateway.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Report {
    pub(super) seed: u64,
    pub(super) operations: usize,
    /// The operations that went where the service knows keys itself.
    pub(super) keyed: usize,
    pub(super) without: Run,
    pub(super) with: Run,
    /// Retries that waited in the gateway for the first answer.
    pub(super) waits: u64,
}

// === impl Report ===

impl Report {
    /// Fails if too little went wrong to show anything.
    pub(super) fn check(&self) -> Result<(), Failure> {
        for (run, name) in [(&self.without, "without"), (&self.with, "with")] {
            for (count, what) in [
                (run.answers_lost, "answer was lost"),
                (run.in_parallel, "retry came in parallel"),
                (run.changed, "payload was changed"),
            ] {
                if count == 0 {
                    return Err(Failure::new(
                        format!("no {what} {name} the gateway, so nothing is shown"),
                        "use more --operations, or another --seed",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether customers were charged twice without the gateway, and none with it.
    fn is_shown(&self) -> bool {
        self.with.balance.duplicates == 0 && self.without.balance.duplicates > 0
    }

    /// Prints the report, and says whether it shows what it should.
    pub(in super::super) fn show(&self, json: bool, console: &Console) -> Result<Exit, Failure> {
        match json {
            true => console.json(&self.object())?,
            false => console.data(self.table())?,
        }
        if self.is_shown() {
            return Ok(Exit::Done);
        }
        console.say(match self.with.balance.duplicates {
            0 => "nobody was charged twice without the gateway, so nothing is shown",
            _ => "customers were charged twice behind the gateway: please tell us the seed",
        });
        Ok(Exit::No)
    }

    fn object(&self) -> serde_json::Value {
        let Self { without, with, .. } = self;
        json!({
            "operations": self.operations,
            "operations_keyed": self.keyed,
            "attempts": with.attempts,
            "attempts_without": without.attempts,
            "charges_without": without.balance.charges,
            "charges_with": with.balance.charges,
            "charged_once": with.balance.charged_once,
            "duplicates": with.balance.duplicates,
            "duplicates_without": without.balance.duplicates,
            "cut": with.cut,
            "answers_lost": with.answers_lost,
            "in_parallel": with.in_parallel,
            "changed": with.changed,
            "replays": with.replays,
            "waits": self.waits,
            "refusals": with.refusals,
            "unknown": with.unknown,
            "seed": self.seed,
        })
    }

    fn table(&self) -> String {
        let Self { without, with, .. } = self;
        let row = |what: &str, counts: [Option<usize>; 2], note: &str| {
            let [before, after] = counts.map(|count| match count {
                Some(count) => figures::grouped(count as u128),
                None => "-".into(),
            });
            let line = format!("{what:<18}{before:>10}{after:>10}  {note}");
            format!("{}\n", line.trim_end())
        };
        let both = |what: &str, of: fn(&Run) -> usize, note: &str| {
            row(what, [Some(of(without)), Some(of(with))], note)
        };
        let only = |what: &str, count: usize, note: &str| row(what, [None, Some(count)], note);
        let operations = [Some(self.operations); 2];
        let keyed = format!(
            "{} to /payments, {} to /orders, where the service knows keys itself",
            self.operations - self.keyed,
            self.keyed
        );
        [
            format!("{:<18}{:>10}{:>10}\n", "gateway", "without", "with"),
            row("operations", operations, &keyed),
            both("attempts", |run| run.attempts, "each until it was answered"),
            both(
                "  broken off",
                |run| run.cut,
                "no answer reached the client",
            ),
            both("  in parallel", |run| run.in_parallel, "beside another one"),
            both("  changed", |run| run.changed, "same key, other amount"),
            both(
                "answers lost",
                |run| run.answers_lost,
                "by the service, after it had charged",
            ),
            both("charges", |run| run.balance.charges, "in the ledger"),
            both(
                "duplicates",
                |run| run.balance.duplicates,
                "charges beyond one per operation",
            ),
            both("charged once", |run| run.balance.charged_once, "operations"),
            only("replays", with.replays, "retries that got the first answer"),
            only("waits", self.waits as usize, "retries that waited for it"),
            only("refusals", with.refusals, "changed payloads, 422"),
            only(
                "unknown outcomes",
                with.unknown,
                "on /payments: charged at most once, never retried blindly, 409",
            ),
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(charges: usize, duplicates: usize) -> Run {
        Run {
            attempts: 100,
            balance: Balance {
                charges,
                charged_once: charges - duplicates,
                duplicates,
            },
            answers_lost: 1,
            in_parallel: 1,
            changed: 1,
            ..Run::default()
        }
    }

    fn report(without: Run, with: Run) -> Report {
        Report {
            seed: 1,
            operations: 60,
            keyed: 30,
            without,
            with,
            waits: 0,
        }
    }

    #[test]
    fn it_is_shown_by_duplicates_without_the_gateway_and_none_with_it() {
        assert!(report(run(80, 20), run(60, 0)).is_shown());
        assert!(!report(run(80, 20), run(61, 1)).is_shown());
        assert!(!report(run(60, 0), run(60, 0)).is_shown());
    }

    #[test]
    fn a_run_in_which_nothing_went_wrong_shows_nothing() {
        let calm = Run {
            answers_lost: 0,
            ..run(60, 0)
        };
        assert!(report(run(80, 20), calm).check().is_err());
        assert!(report(run(80, 20), run(60, 0)).check().is_ok());
    }

    #[test]
    fn table_has_both_runs_side_by_side() {
        let table = report(run(1_080, 20), run(60, 0)).table();
        let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("charges 1,080 60"), "{table}");
        assert!(words.contains("duplicates 20 0"), "{table}");
        assert!(words.contains("replays - 0"), "{table}");
    }
}
