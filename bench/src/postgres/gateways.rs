//! The gateway on PostgreSQL, beside the same gateway on the embedded store.

use std::path::PathBuf;

use super::Plan;
use super::figures::{self, Pair, Pairs};
use super::server::Server;
use crate::Failed;
use crate::gateway::callers::Pace;
use crate::gateway::peers::{self, Gateway, Store};
use crate::gateway::series::Kind;
use crate::gateway::site::{self, Site};
use crate::report::Report;

const CONNECTIONS: usize = 64;

const KINDS: [(&str, &str, Kind); 2] = [
    ("gateway_first", "first executions", Kind::First),
    ("gateway_replay", "replays", Kind::Replay),
];

/// Measures both gateways in turn; the median ratio counts.
///
/// Every answer is checked, and after each round the upstream must have been reached exactly once
/// per key.
pub(crate) async fn run(
    report: &mut Report,
    server: &Server,
    settings: &str,
    program: Option<PathBuf>,
    plan: Plan,
) -> Result<(), Failed> {
    let program = match program {
        Some(program) => program,
        None => peers::executable()?,
    };
    let site = Site::start().await?;
    let url = server.store("gateway", settings);
    let mut ours = Gateway::start_on(&program, site.upstream(), &url).await?;
    let mut theirs = Gateway::start(&program, site.upstream(), Store::Fsync).await?;
    figures::table(
        report,
        "the gateway, 64 connections, beside itself on the embedded store, in turn",
        "requests",
        "embedded",
    );
    for (name, title, kind) in KINDS {
        eprintln!("gateway, {title}");
        let measured = alternate(&site, [&ours, &theirs], kind, plan).await;
        // A dead process explains more than the answer that it left out.
        ours.process.alive()?;
        theirs.process.alive()?;
        let pairs = measured.map_err(|error| ours.process.explain(&error))?;
        let cells = [title.to_owned(), String::new()];
        Pairs::new(pairs).report(report, name, "embedded", cells);
    }
    Ok(())
}

async fn alternate(
    site: &Site,
    [ours, theirs]: [&Gateway; 2],
    kind: Kind,
    plan: Plan,
) -> Result<Vec<Pair>, Failed> {
    let hard = site::Plan {
        connections: CONNECTIONS,
        pace: Pace::Closed,
        rounds: plan.rounds,
        warm: plan.warm,
        span: plan.span,
    };
    let our_load = site.ours(ours.address, kind, hard).await?;
    let their_load = site.ours(theirs.address, kind, hard).await?;
    let mut pairs = Vec::new();
    for _ in 0..plan.rounds {
        let (_, embedded) = site.turn(their_load.clone(), Some(&theirs.process)).await?;
        let (_, postgres) = site.turn(our_load.clone(), Some(&ours.process)).await?;
        pairs.push(Pair {
            ours: postgres.load,
            theirs: embedded.load,
        });
    }
    Ok(pairs)
}
