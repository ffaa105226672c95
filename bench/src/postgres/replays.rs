//! Replays through the store, beside a plain read of an outcome.

use super::pgbench::Script;
use super::server::Server;
use crate::Failed;
use crate::figures::{self, Pair, Pairs};
use crate::payer::{Payer, compare};
use crate::plan::Plan;
use crate::report::Report;

const CALLERS: [usize; 2] = [1, 64];

/// How many outcomes the plain reads choose from.
const OUTCOMES: u64 = 20_000;

/// The table in which they stand, in the shape of the one that is claimed in.
const TABLE: &str = "
    CREATE TABLE outcomes AS
        SELECT sha256(int8send(number)) AS slot, gen_random_uuid() AS fence, 2::smallint AS state,
            1800086400000000 + number AS due, convert_to(repeat('7', 300), 'UTF8') AS outcome
        FROM generate_series(1, 20000) AS number;
    ALTER TABLE outcomes ADD PRIMARY KEY (slot);
    ANALYZE outcomes;
";

const READ: Script = Script {
    text: r"
\set number random(1, 20000)
SELECT fence, state, due, outcome FROM outcomes WHERE slot = sha256(int8send(:number));
",
    variables: &[],
};

const SCHEMA: &str = "replays";
const PAID: &str = "SELECT count(*) FROM replays.records
    WHERE operation = 'POST /payments' AND state = 2";

/// Measures both sides in turn; the median ratio counts.
pub(crate) async fn run(
    report: &mut Report,
    server: &Server,
    settings: &str,
    plan: Plan,
) -> Result<(), Failed> {
    server.execute(TABLE).await?;
    let payer = Payer::open(&server.store(SCHEMA, settings)).await?;
    payer.finish(OUTCOMES, plan).await;
    figures::table(
        report,
        "replays, beside a plain read by pgbench, in turn",
        "callers",
        "pgbench",
    );
    for callers in CALLERS {
        eprintln!("replays, {callers} callers");
        let mut pairs = Vec::new();
        for _ in 0..plan.rounds {
            let ran = READ.run(server, callers, plan).await?;
            pairs.push(Pair {
                ours: payer.keep_replaying(callers, OUTCOMES, plan).await.into(),
                theirs: ran.load.into(),
            });
        }
        let name = format!("postgres_replay_{callers}");
        let cells = [callers.to_string(), String::new()];
        Pairs::new(pairs).report(report, &name, "pgbench", cells);
    }
    // Nothing was paid for by replaying.
    compare("the store", server.count(PAID).await?, payer.paid())
}
