//! The PostgreSQL store beside what the same server does without it, in turn, in one run.

use std::path::PathBuf;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::Failed;
use crate::report::Report;

use server::Server;

mod claims;
mod figures;
mod gateways;
mod pgbench;
mod replays;
mod server;
mod transactions;

/// Measure the PostgreSQL store beside pgbench
///
/// Starts a server of its own that syncs every commit, and sends it the same work in turn: claim
/// and complete through the store, and the two plain prepared statements of such a pair by
/// pgbench, with as many connections as there are callers. Then replays beside a plain read, the
/// caller's own transaction with a key beside the same without one, and the gateway beside itself
/// on the embedded store. What the tables hold afterwards is compared with what was acknowledged.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,

    /// Take under two minutes: fewer and shorter rounds
    #[arg(long)]
    quick: bool,

    /// Measure only these parts
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,

    /// Claim with these numbers of callers only
    #[arg(long, value_delimiter = ',')]
    callers: Vec<usize>,

    /// Add these settings to the store's URL, such as `connections=8`
    #[arg(long, value_name = "SETTINGS", default_value = "")]
    with: String,

    /// Measure this executable as the gateway instead of building one
    #[arg(long, value_name = "PATH")]
    gateway: Option<PathBuf>,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// Claim + complete of keys never used before
    Claims,
    /// Keys whose work is done
    Replays,
    /// Keys inside the caller's own transaction
    Transactions,
    /// The gateway, beside itself on the embedded store
    Gateway,
}

/// How often both sides of a comparison are measured in turn, and for how long.
#[derive(Debug, Clone, Copy)]
struct Plan {
    rounds: usize,
    /// How long a side runs before it is measured.
    warm: Duration,
    span: Duration,
}

// === impl Args ===

impl Args {
    pub(crate) fn run(self) -> Result<(), Failed> {
        let mut report = Report::default();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let mut ended = signal(SignalKind::terminate())?;
            tokio::select! {
                measured = self.measure(&mut report) => measured,
                // Dropping what is measured ends its processes.
                _ = ended.recv() => Err("terminated".into()),
                _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
            }
        })?;
        report.print(self.json);
        Ok(())
    }

    async fn measure(&self, report: &mut Report) -> Result<(), Failed> {
        let mut server = Server::start().await?;
        let measured = self.parts(&server, report).await;
        server.process.alive()?;
        measured.map_err(|error| server.process.explain(&error))
    }

    async fn parts(&self, server: &Server, report: &mut Report) -> Result<(), Failed> {
        let plan = self.plan();
        if self.wants(Part::Claims) {
            claims::run(report, server, &self.with, &self.callers, plan).await?;
        }
        if self.wants(Part::Replays) {
            replays::run(report, server, &self.with, plan).await?;
        }
        if self.wants(Part::Transactions) {
            transactions::run(report, server, &self.with, plan).await?;
        }
        if self.wants(Part::Gateway) {
            gateways::run(report, server, &self.with, self.gateway.clone(), plan).await?;
        }
        Ok(())
    }

    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    fn plan(&self) -> Plan {
        let (rounds, warm, span) = if self.quick {
            (2, 500, 1_500)
        } else {
            (7, 1_000, 4_000)
        };
        Plan {
            rounds,
            warm: Duration::from_millis(warm),
            span: Duration::from_millis(span),
        }
    }
}

// === impl Plan ===

impl Plan {
    /// Returns a plan with more rounds, for a ratio that has a goal.
    fn thorough(self) -> Self {
        Self {
            rounds: self.rounds + 2,
            ..self
        }
    }
}
