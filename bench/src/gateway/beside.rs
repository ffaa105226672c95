//! The gateway on servers, beside the same gateway on the embedded store.

use std::path::PathBuf;

use super::callers::{Order, Pace};
use super::peers::{self, Gateway};
use super::series::Kind;
use super::site::{self, Site};
use crate::Failed;
use crate::figures::{self, Pair, Pairs, Side};
use crate::plan::Plan;
use crate::report::Report;

/// Where a gateway keeps its records.
#[derive(Debug)]
pub(crate) struct Store {
    /// What it is called beside others; empty if it is alone.
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) cache: Option<String>,
}

const CONNECTIONS: usize = 64;

const KINDS: [(&str, &str, Kind); 2] = [
    ("gateway_first", "first executions", Kind::First),
    ("gateway_replay", "replays", Kind::Replay),
];

/// Measures a gateway on each of the stores and one on the embedded store in turn; the median
/// ratio counts.
///
/// Every answer is checked, and after each round the upstream must have been reached exactly once
/// per key.
pub(crate) async fn run(
    report: &mut Report,
    program: Option<PathBuf>,
    stores: &[Store],
    plan: Plan,
) -> Result<(), Failed> {
    let program = match program {
        Some(program) => program,
        None => peers::executable()?,
    };
    let site = Site::start().await?;
    let upstream = site.upstream();
    let mut gateways = vec![Gateway::start(&program, upstream, peers::Store::Fsync).await?];
    for Store { url, cache, .. } in stores {
        let gateway = Gateway::start_on(&program, upstream, url, cache.as_deref()).await?;
        gateways.push(gateway);
    }
    figures::table(
        report,
        "the gateway, 64 connections, beside itself on the embedded store, in turn",
        "requests",
        "embedded",
    );
    for (name, title, kind) in KINDS {
        eprintln!("gateway, {title}");
        let rounds = alternate(&site, &gateways, kind, plan).await;
        // A dead process explains more than the answer that it left out.
        for gateway in &mut gateways {
            gateway.process.alive()?;
        }
        let rounds = rounds?;
        for (nth, store) in stores.iter().enumerate() {
            let pairs = rounds.iter().map(|round| Pair {
                ours: round[nth + 1],
                theirs: round[0],
            });
            let (name, title) = (store.figure(name), store.title(title));
            let cells = [title, String::new()];
            Pairs::new(pairs.collect()).report(report, &name, "embedded", cells);
        }
    }
    Ok(())
}

/// Returns what each of the gateways did in each round.
async fn alternate(
    site: &Site,
    gateways: &[Gateway],
    kind: Kind,
    plan: Plan,
) -> Result<Vec<Vec<Side>>, Failed> {
    let hard = site::Plan {
        connections: CONNECTIONS,
        pace: Pace::Closed,
        rounds: plan.rounds,
        warm: plan.warm,
        span: plan.span,
    };
    let mut orders: Vec<Order> = Vec::new();
    for gateway in gateways {
        let order = site.ours(gateway.address, kind, hard).await;
        orders.push(order.map_err(|error| gateway.process.explain(&error))?);
    }
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let mut round = Vec::new();
        for (gateway, order) in gateways.iter().zip(&orders) {
            let turn = site.turn(order.clone(), Some(&gateway.process)).await;
            let (_, side) = turn.map_err(|error| gateway.process.explain(&error))?;
            round.push(side.load.into());
        }
        rounds.push(round);
    }
    Ok(rounds)
}

// === impl Store ===

impl Store {
    /// What machines call a figure of this store.
    fn figure(&self, name: &str) -> String {
        match self.name.as_str() {
            "" => name.to_owned(),
            store => format!("{store}_{name}"),
        }
    }

    fn title(&self, title: &str) -> String {
        match self.name.as_str() {
            "" => title.to_owned(),
            store => format!("{title}, {store}"),
        }
    }
}
