//! PostgreSQL with answers cached in Redis, beside PostgreSQL alone and the embedded store.

use super::server::{Persistence, Server};
use crate::Failed;
use crate::figures::{self, Pair, Pairs, Side};
use crate::payer::{Payer, compare};
use crate::plan::Plan;
use crate::postgres::server::Server as Postgres;
use crate::process::DISK;
use crate::report::Report;

/// How many callers there are, and what is asked of replays by so many.
const CALLERS: [(usize, Option<&str>); 2] = [(1, None), (64, Some("rate >= 1.50x"))];

/// How many outcomes replays choose from.
const OUTCOMES: u64 = 20_000;

/// What the database holds of what was paid for through the cache.
const PAID: &str = "SELECT count(*) FROM hybrid.records
    WHERE operation = 'POST /payments' AND state = 2";

/// One payer on each of the stores.
struct Payers {
    hybrid: Payer,
    postgres: Payer,
    embedded: Payer,
}

/// Measures all sides in turn; the median ratio counts.
pub(crate) async fn run(report: &mut Report, plan: Plan) -> Result<(), Failed> {
    let (redis, postgres) = (
        Server::start(Persistence::EverySecond).await?,
        Postgres::start().await?,
    );
    let folder = tempfile::tempdir_in(DISK)?;
    let (url, cache) = (postgres.store("hybrid", ""), redis.store("cache", ""));
    let embedded = format!("embedded:{}/store", folder.path().display());
    let payers = Payers {
        hybrid: Payer::open_with(&url, Some(&cache)).await?,
        postgres: Payer::open(&postgres.store("plain", "")).await?,
        embedded: Payer::open(&embedded).await?,
    };
    payers.claim(report, plan).await;
    payers.replay(report, plan).await;
    // Nothing was paid for by replaying.
    compare(
        "the database",
        postgres.count(PAID).await?,
        payers.hybrid.paid(),
    )
}

// === impl Payers ===

impl Payers {
    /// Claims new keys, and completes them: the cache is asked in vain, and told afterwards.
    async fn claim(&self, report: &mut Report, plan: Plan) {
        let title = "claim + complete with answers cached in Redis, beside PostgreSQL alone";
        figures::table(report, title, "callers", "PostgreSQL");
        for (callers, _) in CALLERS {
            eprintln!("hybrid, claim + complete, {callers} callers");
            let mut pairs = Vec::new();
            for _ in 0..plan.rounds {
                pairs.push(Pair {
                    theirs: self.postgres.keep_paying(callers, plan).await.into(),
                    ours: self.hybrid.keep_paying(callers, plan).await.into(),
                });
            }
            let name = format!("hybrid_pair_{callers}");
            let cells = [callers.to_string(), String::new()];
            Pairs::new(pairs).report(report, &name, "postgres", cells);
        }
        let mut added = Vec::new();
        for _ in 0..plan.rounds {
            let plain: Side = self.postgres.keep_claiming(1, plan).await.into();
            let ours: Side = self.hybrid.keep_claiming(1, plan).await.into();
            added.push(ours.p50 as i64 - plain.p50 as i64);
        }
        added.sort_unstable();
        report.value("hybrid_claim_added_us", added[added.len() / 2]);
    }

    /// Asks for what was paid for.
    async fn replay(&self, report: &mut Report, plan: Plan) {
        for payer in [&self.hybrid, &self.postgres, &self.embedded] {
            payer.finish(OUTCOMES, plan).await;
            // What is not cached by now is cached when it is first asked for.
            payer.keep_replaying(64, OUTCOMES, plan).await;
        }
        let mut beside_embedded = Vec::new();
        let title = "replays with answers cached in Redis, beside those of PostgreSQL alone";
        figures::table(report, title, "callers", "PostgreSQL");
        for (callers, goal) in CALLERS {
            eprintln!("hybrid, replays, {callers} callers");
            let plan = match goal {
                Some(_) => plan.thorough(),
                None => plan,
            };
            let (mut pairs, mut others) = (Vec::new(), Vec::new());
            for _ in 0..plan.rounds {
                let replays = async |payer: &Payer| -> Side {
                    payer.keep_replaying(callers, OUTCOMES, plan).await.into()
                };
                let theirs = replays(&self.postgres).await;
                let ours = replays(&self.hybrid).await;
                pairs.push(Pair { ours, theirs });
                let theirs = replays(&self.embedded).await;
                others.push(Pair { ours, theirs });
            }
            let cells = [callers.to_string(), goal.unwrap_or_default().to_owned()];
            let pairs = Pairs::new(pairs);
            pairs.report(
                report,
                &format!("hybrid_replay_{callers}"),
                "postgres",
                cells,
            );
            if goal.is_some() {
                report.value("hybrid_replay_ratio", crate::report::rounded(pairs.rate()));
            }
            beside_embedded.push((callers, Pairs::new(others)));
        }
        let title = "the same, beside those of the embedded store";
        figures::table(report, title, "callers", "embedded");
        for (callers, pairs) in beside_embedded {
            let name = format!("hybrid_replay_{callers}_beside_embedded");
            let cells = [callers.to_string(), String::new()];
            pairs.report(report, &name, "embedded", cells);
        }
    }
}
