//! Claim + complete through the store, beside the two plain statements of such a pair.

use super::pgbench::Script;
use super::server::Server;
use crate::Failed;
use crate::figures::{self, Pair, Pairs};
use crate::payer::{Payer, compare};
use crate::plan::Plan;
use crate::report::Report;

/// How many callers there are, and what is asked of the comparison with so many.
const CALLERS: [(usize, Option<&str>); 4] = [
    (1, Some("p50 <= 1.15x")),
    (16, None),
    (64, Some("rate >= 2.00x")),
    (256, None),
];

/// A table such as services make for themselves: a key, an index of what expires, an outcome.
pub(crate) const TABLE: &str = "
    CREATE TABLE plain (
        slot bytea PRIMARY KEY,
        fence uuid NOT NULL,
        state smallint NOT NULL,
        due bigint NOT NULL,
        outcome bytea
    );
    CREATE INDEX plain_due ON plain (due);
";

/// The two statements, each its own transaction, as they are prepared: the claim of a key never
/// used before, and its completion with 300 bytes.
const PAIR: Script = Script {
    text: r"
\set number random(1000000000, 9000000000000000000)
\set lapses 1800000000000000 + :number % 1000000
\set expires 1800086400000000 + :number % 1000000
INSERT INTO plain (slot, fence, state, due) VALUES (sha256(int8send(:number)), :fence::uuid, 1, :lapses) ON CONFLICT (slot) DO NOTHING;
UPDATE plain SET state = 2, due = :expires, outcome = :outcome::bytea WHERE slot = sha256(int8send(:number)) AND fence = :fence::uuid;
",
    variables: &[
        ("fence", "8e03978e-40d5-43e8-bc93-000000000001"),
        ("outcome", OUTCOME),
    ],
};

/// 300 bytes.
pub(crate) const OUTCOME: &str = concat!(
    "777777777777777777777777777777777777777777777777777777777777777777777777777",
    "777777777777777777777777777777777777777777777777777777777777777777777777777",
    "777777777777777777777777777777777777777777777777777777777777777777777777777",
    "777777777777777777777777777777777777777777777777777777777777777777777777777",
);

/// The schema of the store, and what it holds of what was paid for.
const SCHEMA: &str = "claims";
const PAID: &str = "SELECT count(*) FROM claims.records
    WHERE operation = 'POST /payments' AND state = 2";
const PAID_PLAIN: &str = "SELECT count(*) FROM plain WHERE state = 2 AND length(outcome) = 300";

/// Measures both sides in turn; the median ratio counts.
pub(crate) async fn run(
    report: &mut Report,
    server: &Server,
    settings: &str,
    only: &[usize],
    plan: Plan,
) -> Result<(), Failed> {
    server.execute(TABLE).await?;
    let payer = Payer::open(&server.store(SCHEMA, settings)).await?;
    figures::table(
        report,
        "claim + complete with fsync, beside the two plain statements by pgbench, in turn",
        "callers",
        "pgbench",
    );
    let mut plain = 0;
    let wanted = |callers| only.is_empty() || only.contains(&callers);
    for (callers, goal) in CALLERS.into_iter().filter(|(callers, _)| wanted(*callers)) {
        eprintln!("claim + complete, {callers} callers");
        let plan = if goal.is_some() {
            plan.thorough()
        } else {
            plan
        };
        let mut pairs = Vec::new();
        for _ in 0..plan.rounds {
            let ran = PAIR.run(server, callers, plan).await?;
            plain += ran.transactions;
            pairs.push(Pair {
                ours: payer.keep_paying(callers, plan).await.into(),
                theirs: ran.load.into(),
            });
        }
        let cells = [callers.to_string(), goal.unwrap_or_default().to_owned()];
        let name = format!("postgres_{callers}");
        Pairs::new(pairs).report(report, &name, "pgbench", cells);
        compare("the store", server.count(PAID).await?, payer.paid())?;
        compare("the plain table", server.count(PAID_PLAIN).await?, plain)?;
    }
    payer.replay_some().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::OUTCOME;

    #[test]
    fn outcome_has_three_hundred_bytes() {
        assert_eq!(OUTCOME.len(), 300);
    }
}
