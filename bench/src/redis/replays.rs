//! Replays through the store, beside a plain `GET`.

use super::benchmark::GET;
use super::server::Server;
use crate::Failed;
use crate::figures::{self, Pair, Pairs};
use crate::payer::Payer;
use crate::plan::Plan;
use crate::report::Report;

const CALLERS: [usize; 2] = [1, 64];

/// How many outcomes there are to choose from, on both sides.
const OUTCOMES: u32 = 20_000;

/// Measures both sides in turn; the median ratio counts.
pub(crate) async fn run(
    report: &mut Report,
    server: &Server,
    settings: &str,
    plan: Plan,
) -> Result<(), Failed> {
    let payer = Payer::open(&server.store("replays", settings)).await?;
    payer.finish(OUTCOMES.into(), plan).await;
    server.fill(OUTCOMES.into()).await?;
    figures::table(
        report,
        "replays, beside a plain GET by redis-benchmark, in turn",
        "callers",
        "GET",
    );
    for callers in CALLERS {
        eprintln!("replays, {callers} callers");
        let mut pairs = Vec::new();
        for _ in 0..plan.rounds {
            let ran = GET.run(server, callers, OUTCOMES, plan).await?;
            let ours = payer.keep_replaying(callers, OUTCOMES.into(), plan).await;
            pairs.push(Pair {
                ours: ours.into(),
                theirs: ran.side,
            });
        }
        let name = format!("redis_replay_{callers}");
        let cells = [callers.to_string(), String::new()];
        Pairs::new(pairs).report(report, &name, "get", cells);
    }
    Ok(())
}
