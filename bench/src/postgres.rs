//! The PostgreSQL store beside what the same server does without it, in turn, in one run.

use std::path::PathBuf;

use crate::Failed;
use crate::gateway::beside;
use crate::plan::Plan;
use crate::report::{self, Report};

use server::Server;

mod claims;
mod cores;
mod pgbench;
mod replays;
pub(crate) mod server;
mod transactions;

/// Measure the PostgreSQL store beside pgbench
///
/// Starts a server of its own that syncs every commit, and sends it the same work in turn: claim
/// and complete through the store, and the two plain prepared statements of such a pair by
/// pgbench, with as many connections as there are callers. Then replays beside a plain read, the
/// caller's own transaction with a key beside the same without one, and the gateway beside itself
/// on the embedded store. One caller's transactions are measured with the caller on one core and
/// the server on another, as if they were two machines, and wherever the scheduler puts them. What
/// the tables hold afterwards is compared with what was acknowledged.
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

// === impl Args ===

impl Args {
    pub(crate) fn run(self) -> Result<(), Failed> {
        report::print(self.json, async |report| self.measure(report).await)
    }

    async fn measure(&self, report: &mut Report) -> Result<(), Failed> {
        let mut server = Server::start().await?;
        let measured = self.parts(&server, report).await;
        server.process.alive()?;
        measured.map_err(|error| server.process.explain(&error))
    }

    async fn parts(&self, server: &Server, report: &mut Report) -> Result<(), Failed> {
        let plan = Plan::new(self.quick);
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
            let store = beside::Store {
                name: String::new(),
                url: server.store("gateway", &self.with),
                cache: None,
            };
            beside::run(report, self.gateway.clone(), &[store], plan).await?;
        }
        Ok(())
    }

    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}
