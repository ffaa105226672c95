//! The gateway beside nginx: the same requests, in turn, in one run.

use std::path::PathBuf;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::Failed;
use crate::report::{Report, rounded};

use callers::Pace;
use figures::Measured;
use peers::Store;
use series::{Kind, Lab, Series};
use site::Plan;

pub(crate) mod beside;
pub(crate) mod callers;
mod figures;
mod message;
pub(crate) mod mix;
mod nginx;
mod payment;
pub(crate) mod peers;
mod quotas;
pub(crate) mod series;
pub(crate) mod site;
mod spent;
pub(crate) mod upstream;

#[cfg(test)]
mod tests;

/// Measure the gateway beside nginx as a plain proxy
///
/// Starts an upstream, nginx and the gateway, each in a process of its own, and sends both the
/// same requests in turn. Every answer is checked, and after each round the upstream must have
/// been reached exactly once per key. Prints requests per second as ratios to nginx, and the
/// latency that the gateway adds to nginx's at a fixed rate.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,

    /// Take under two minutes: 256 connections only, fewer and shorter rounds
    #[arg(long)]
    quick: bool,

    /// Measure only these parts
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,

    /// Measure this executable instead of building one
    #[arg(long, value_name = "PATH")]
    gateway: Option<PathBuf>,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// The callers straight at the upstream, without a proxy
    Ceiling,
    /// Keys never used before, each record synced to the disk
    FirstFsync,
    /// The same, left to the operating system
    FirstOs,
    /// The same, in memory
    FirstMemory,
    /// Keys whose work is done
    Replay,
    /// Every key twice
    Half,
    /// No keys
    Unkeyed,
    /// What is added at a fixed rate
    Latency,
    /// Replays with quotas and without
    Quotas,
}

const SERIES: [(Part, Series); 6] = [
    (
        Part::FirstFsync,
        Series {
            name: "first_fsync",
            title: "first, synced",
            store: Store::Fsync,
            kind: Kind::First,
            goal: Some(0.6),
        },
    ),
    (
        Part::FirstOs,
        Series {
            name: "first_os",
            title: "first, not synced",
            store: Store::Os,
            kind: Kind::First,
            goal: None,
        },
    ),
    (
        Part::FirstMemory,
        Series {
            name: "first_memory",
            title: "first, in memory",
            store: Store::Memory,
            kind: Kind::First,
            goal: None,
        },
    ),
    (
        Part::Replay,
        Series {
            name: "replay",
            title: "replays",
            store: Store::Fsync,
            kind: Kind::Replay,
            goal: Some(1.5),
        },
    ),
    (
        Part::Half,
        Series {
            name: "half",
            title: "50 % duplicates",
            store: Store::Fsync,
            kind: Kind::Half,
            goal: None,
        },
    ),
    (
        Part::Unkeyed,
        Series {
            name: "unkeyed",
            title: "without key",
            store: Store::Fsync,
            kind: Kind::Unkeyed,
            goal: Some(0.75),
        },
    ),
];

/// The parts of [`SERIES`] whose latency is measured too.
const SLOWED: [Part; 3] = [Part::FirstFsync, Part::Replay, Part::Unkeyed];

/// The number of connections that the goals are meant for.
const MANY: usize = 256;

/// The fixed rate at which latencies are taken: a fraction of what either side can do.
const RATE: u32 = 2_000;
const RATE_CONNECTIONS: usize = 64;

// === impl Args ===

impl Args {
    pub(crate) fn run(self) -> Result<(), Failed> {
        let program = match &self.gateway {
            Some(program) => program.clone(),
            None => peers::executable()?,
        };
        let mut report = Report::default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let mut ended = signal(SignalKind::terminate())?;
            tokio::select! {
                measured = self.measure(&mut report, program) => measured,
                // Dropping what is measured ends its processes.
                _ = ended.recv() => Err("terminated".into()),
                _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
            }
        })?;
        report.print(self.json);
        Ok(())
    }

    async fn measure(&self, report: &mut Report, program: PathBuf) -> Result<(), Failed> {
        let mut lab = Lab::start(program).await?;
        if self.wants(Part::Ceiling) {
            self.ceiling(&lab, report).await?;
        }
        if SERIES.iter().any(|&(part, _)| self.wants(part)) {
            self.ratios(&mut lab, report).await?;
        }
        if self.wants(Part::Latency) {
            self.latencies(&mut lab, report).await?;
        }
        if self.wants(Part::Quotas) {
            eprintln!("replays with quotas and without, {MANY} connections");
            let rounds = quotas::measure(&lab, self.plan(MANY)).await?;
            quotas::report(report, &rounds);
        }
        Ok(())
    }

    async fn ceiling(&self, lab: &Lab, report: &mut Report) -> Result<(), Failed> {
        report.table(
            "callers straight at the upstream, without a proxy",
            &["connections", "requests", "p50", "p99"],
        );
        for &connections in self.connections() {
            eprintln!("ceiling, {connections} connections");
            let load = lab.ceiling(self.plan(connections)).await?;
            let [rate, p50, p99] = figures::cells(&load);
            report.row([connections.to_string(), rate, p50, p99]);
            report.value(&format!("ceiling_{connections}_per_s"), rounded(load.rate));
        }
        Ok(())
    }

    async fn ratios(&self, lab: &mut Lab, report: &mut Report) -> Result<(), Failed> {
        let mut measured = Vec::new();
        for &connections in self.connections() {
            for (part, series) in SERIES {
                if self.wants(part) {
                    eprintln!("{}, {connections} connections", series.title);
                    let pairs = lab.measure(series, self.plan(connections)).await?;
                    let goal = series.goal.filter(|_| connections == MANY);
                    measured.push(Measured::new(series, connections, goal, pairs));
                }
            }
        }
        figures::ratios(report, &measured);
        figures::costs(report, &measured);
        for one in measured.iter().filter(|one| one.connections == MANY) {
            let name = format!("{}_ratio", one.series.name);
            report.value(&name, rounded(one.middle().ratio()));
        }
        Ok(())
    }

    async fn latencies(&self, lab: &mut Lab, report: &mut Report) -> Result<(), Failed> {
        let mut measured = Vec::new();
        for (_, series) in SERIES.into_iter().filter(|(part, _)| SLOWED.contains(part)) {
            eprintln!("{}, latency", series.title);
            let pairs = lab.measure(series, self.slow_plan()).await?;
            measured.push((series, pairs));
        }
        let title = format!(
            "latency at {RATE} requests/s over {RATE_CONNECTIONS} connections, sent when they are due"
        );
        figures::latencies(report, &title, &measured);
        Ok(())
    }

    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    fn connections(&self) -> &[usize] {
        if self.quick { &[MANY] } else { &[64, MANY] }
    }

    /// How throughput is measured.
    fn plan(&self, connections: usize) -> Plan {
        let (rounds, warm, span) = if self.quick {
            (3, 300, 1_600)
        } else {
            (5, 1_000, 5_000)
        };
        Plan {
            connections,
            pace: Pace::Closed,
            rounds,
            warm: Duration::from_millis(warm),
            span: Duration::from_millis(span),
        }
    }

    /// How latency is measured.
    fn slow_plan(&self) -> Plan {
        let plan = self.plan(RATE_CONNECTIONS);
        Plan {
            pace: Pace::PerSecond(RATE),
            rounds: if self.quick { 2 } else { plan.rounds },
            ..plan
        }
    }
}
