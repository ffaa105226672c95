//! The Redis store beside what the same server does without it, in turn, in one run.

use std::path::PathBuf;

use crate::Failed;
use crate::gateway::beside;
use crate::plan::Plan;
use crate::postgres::server::Server as Postgres;
use crate::report::{self, Report};

use claims::{CALLERS, Claims};
use server::{Persistence, Server};

mod benchmark;
mod claims;
mod hybrid;
mod replays;
mod server;
mod settings;

/// Measure the Redis store beside redis-benchmark
///
/// Starts servers of its own, and sends the same server the same work in turn: a claim through the
/// store, claim and complete, and one plain SET NX by redis-benchmark, with as many connections as
/// there are callers and no pipelining. What the server holds afterwards is compared with what was
/// acknowledged. Then replays beside a plain GET; PostgreSQL with answers cached in Redis beside
/// PostgreSQL alone and the embedded store; and the gateway on each store beside itself on the
/// embedded one.
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
    /// Keys never used before: claimed, and claimed and completed
    Claims,
    /// The same with other settings of the server, with a replica, and on the embedded store
    Settings,
    /// Keys whose work is done
    Replays,
    /// PostgreSQL with answers cached in Redis, beside PostgreSQL alone and the embedded store
    Hybrid,
    /// The gateway on each store, beside itself on the embedded one
    Gateway,
}

// === impl Args ===

impl Args {
    pub(crate) fn run(self) -> Result<(), Failed> {
        report::print(self.json, async |report| self.measure(report).await)
    }

    async fn measure(&self, report: &mut Report) -> Result<(), Failed> {
        let plan = self.plan();
        if self.wants(Part::Claims) {
            let callers: Vec<_> = self.chosen(&CALLERS).collect();
            self.claims(report, Persistence::EverySecond, "redis", &callers, plan)
                .await?;
        }
        if self.wants(Part::Settings) {
            // What is asked of a claim is asked of the usual settings.
            let few = [CALLERS[0].0, CALLERS[2].0].map(|callers| (callers, None));
            let callers: Vec<_> = self.chosen(&few).collect();
            for persistence in [Persistence::Always, Persistence::Memory] {
                let name = format!("redis_{}", persistence.name());
                self.claims(report, persistence, &name, &callers, plan)
                    .await?;
            }
            settings::run(report, &self.with, plan).await?;
        }
        if self.wants(Part::Replays) {
            let mut server = Server::start(Persistence::EverySecond).await?;
            let measured = replays::run(report, &server, &self.with, plan).await;
            server.process.alive()?;
            measured.map_err(|error| server.process.explain(&error))?;
        }
        if self.wants(Part::Hybrid) {
            hybrid::run(report, plan).await?;
        }
        if self.wants(Part::Gateway) {
            self.gateways(report, plan).await?;
        }
        Ok(())
    }

    async fn claims(
        &self,
        report: &mut Report,
        persistence: Persistence,
        name: &str,
        callers: &[(usize, Option<&str>)],
        plan: Plan,
    ) -> Result<(), Failed> {
        if callers.is_empty() {
            return Ok(());
        }
        let mut server = Server::start(persistence).await?;
        let claims = Claims {
            server: &server,
            persistence,
            name,
            settings: &self.with,
        };
        let measured = claims.run(report, callers, plan).await;
        server.process.alive()?;
        measured.map_err(|error| server.process.explain(&error))
    }

    async fn gateways(&self, report: &mut Report, plan: Plan) -> Result<(), Failed> {
        let server = Server::start(Persistence::EverySecond).await?;
        let postgres = Postgres::start().await?;
        let store = |name: &str, url: String, cache: Option<String>| beside::Store {
            name: name.to_owned(),
            url,
            cache,
        };
        let cache = server.store("cache", "");
        let stores = [
            store("redis", server.store("gateway", &self.with), None),
            store("hybrid", postgres.store("hybrid", ""), Some(cache)),
            store("postgres", postgres.store("gateway", ""), None),
        ];
        beside::run(report, self.gateway.clone(), &stores, plan).await
    }

    fn chosen<'a>(
        &self,
        all: &'a [(usize, Option<&'a str>)],
    ) -> impl Iterator<Item = (usize, Option<&'a str>)> {
        let wanted = |callers| self.callers.is_empty() || self.callers.contains(&callers);
        all.iter()
            .copied()
            .filter(move |(callers, _)| wanted(*callers))
    }

    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    /// Rounds are short where there are so many of them.
    fn plan(&self) -> Plan {
        let plan = Plan::new(self.quick);
        match self.quick {
            true => plan.scaled(0.4),
            false => plan,
        }
    }
}
