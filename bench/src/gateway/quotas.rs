//! What quotas cost replays, which they never limit: a gateway without any beside one with all.

use super::figures::cells;
use super::peers::{Gateway, Store};
use super::series::{Kind, Lab};
use super::site::{Plan, Side};
use crate::Failed;
use crate::report::{Report, rounded};

/// One round: the same replays from both gateways, one straight after the other.
#[derive(Debug)]
pub(crate) struct Twins {
    plain: Side,
    limited: Side,
}

/// Every quota there is, so high that nothing is refused.
const QUOTAS: &str = "\
[quotas]
claims_per_second = 1000000
claims_per_day = 100000000
running = 10000
unknown = 1000000
stored = \"1TiB\"
mismatches_per_minute = 1000
";

/// Measures replays of a gateway without quotas and of one with them, in turn.
///
/// # Errors
///
/// Returns an error if any answer was wrong, or if the upstream was reached by a replay.
pub(crate) async fn measure(lab: &Lab, plan: Plan) -> Result<Vec<Twins>, Failed> {
    let (site, program) = (&lab.site, &lab.program);
    let plain = Gateway::start(program, site.upstream(), Store::Fsync).await?;
    let limited = Gateway::start_with(program, site.upstream(), Store::Fsync, QUOTAS).await?;
    let to_plain = site.ours(plain.address, Kind::Replay, plan).await?;
    let to_limited = site.ours(limited.address, Kind::Replay, plan).await?;
    let mut rounds = Vec::new();
    for round in 0..plan.rounds {
        let first = async || site.turn(to_plain.clone(), Some(&plain.process)).await;
        let second = async || site.turn(to_limited.clone(), Some(&limited.process)).await;
        // Whoever comes second finds the machine warmer.
        let ((_, plain), (_, limited)) = if round % 2 == 0 {
            (first().await?, second().await?)
        } else {
            let limited = second().await?;
            (first().await?, limited)
        };
        rounds.push(Twins { plain, limited });
    }
    rounds.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    Ok(rounds)
}

/// Prints both rates and their ratio; `rounds` are in the order of their ratios.
pub(crate) fn report(report: &mut Report, rounds: &[Twins]) {
    let (Some(least), Some(most)) = (rounds.first(), rounds.last()) else {
        return;
    };
    let middle = &rounds[rounds.len() / 2];
    report.table(
        "replays of a gateway with quotas beside one without, in turn; the median ratio counts",
        &[
            "with",
            "p50",
            "p99",
            "without",
            "p50",
            "p99",
            "ratio",
            "from .. to",
        ],
    );
    let mut row = Vec::from(cells(&middle.limited.load));
    row.extend(cells(&middle.plain.load));
    row.extend([
        format!("{:.2}x", middle.ratio()),
        format!("{:.2} .. {:.2}", least.ratio(), most.ratio()),
    ]);
    report.row(row);
    report.value("replay_quotas_ratio", rounded(middle.ratio()));
    report.value("replay_quotas_per_s", rounded(middle.limited.load.rate));
    report.value("replay_no_quotas_per_s", rounded(middle.plain.load.rate));
}

// === impl Twins ===

impl Twins {
    fn ratio(&self) -> f64 {
        self.limited.load.rate / self.plain.load.rate
    }
}
