//! `onceward demo`: a sample payments service behind a gateway, to be tried with curl.
//!
//! - `service` is the payments service, and `ledger` what it charged;
//! - `front` is the gateway before it, and `numbers` what that counts;
//! - `guide` is what to try;
//! - `drive` tries it all at once, with and without the gateway.

use std::io::{self, IsTerminal as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use onceward_gateway::config::{AdminListen, listen};

use self::front::Front;
use self::guide::Guide;
use self::numbers::Line;
use self::service::Service;
use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::serve::told_to_end;
use crate::{limits, runtime};

mod drive;
mod front;
mod guide;
mod ledger;
mod numbers;
mod service;

/// Try a gateway before a sample payments service
///
/// Both run in this process; nothing else is needed and nothing is left behind. What to try is
/// printed as lines for curl, and counters show what comes of it. Ctrl-C ends it.
///
/// With `--drive` a noisy client does the trying: connections break, answers are lost, retries
/// come in parallel and with other amounts. It does so twice, without and with the gateway, and
/// the ledger of the service tells how many customers were charged twice.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where the gateway listens [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR", value_parser = listen, conflicts_with = "drive")]
    listen: Option<SocketAddr>,

    /// Let a noisy client try it, with and without the gateway
    #[arg(long)]
    drive: bool,

    /// How many operations the client performs, 50 or more
    #[arg(long, value_name = "N", default_value_t = 60, requires = "drive")]
    #[arg(value_parser = clap::value_parser!(u32).range(drive::OPERATIONS_MIN..=100_000))]
    operations: u32,

    /// What the client's noise is drawn from: the same seed makes the same noise
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "drive")]
    seed: u64,

    /// End with one object for machines
    #[arg(long, requires = "drive")]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  onceward demo
  onceward demo --listen 127.0.0.1:8181
  onceward demo --drive
  onceward demo --drive --operations 200 --seed 7 --json

Exit status of --drive: 0 if customers were charged twice without the gateway and none with it; \
1 if not; 2 if it could not be tried.";

/// How often the counters are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

// === impl Args ===

impl Args {
    /// Serves until it is told to end, or drives until everything is tried.
    pub(crate) fn run(self, console: &Console) -> Result<Exit, Failure> {
        limits::raise_open_files();
        if self.drive {
            let report = runtime::block_on(drive::run(self.operations, self.seed, console))?;
            return report.show(self.json, console);
        }
        let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
        let listen = self.listen.unwrap_or(usual);
        if !listen.ip().is_loopback() {
            return Err(Failure::new(
                format!("the demo is for this machine alone, and {listen} is not"),
                "listen on a loopback address, such as 127.0.0.1:8181",
            ));
        }
        runtime::block_on(tour(listen, console))?;
        Ok(Exit::Done)
    }
}

/// Runs service and gateway, shows what to try and counts what comes of it.
async fn tour(listen: SocketAddr, console: &Console) -> Result<(), Failure> {
    let service = start_service().await?;
    // On any free port: the usual one may be that of a gateway that matters.
    let operators = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let front = Front::start(&service, listen, AdminListen::At(operators)).await?;
    let shown = tokio::select! {
        // First, so that somebody who has read the guide can end it in good order.
        biased;
        () = told_to_end() => Ok(()),
        shown = show(&service, &front, console) => shown,
    };
    let total = Line {
        numbers: front.end().await?,
        charges: service.ledger.len(),
    };
    shown?;
    console.data(format_args!("\nIn total: {total}\n"))
}

async fn start_service() -> Result<Service, Failure> {
    Service::start().await.map_err(|error| {
        Failure::new(
            format!("the sample service cannot listen on 127.0.0.1: {error}"),
            "look at the limits on open files and on memory",
        )
    })
}

/// Prints the guide, and then the counters whenever they change, until stdout is closed.
async fn show(service: &Service, front: &Front, console: &Console) -> Result<(), Failure> {
    let guide = Guide {
        service: service.addr,
        gateway: front.addr,
        admin: front.admin,
    };
    console.data(&guide)?;
    let redraws = io::stdout().is_terminal();
    let mut last = None;
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        let line = Line {
            numbers: front.numbers(),
            charges: service.ledger.len(),
        };
        if last.replace(line) == Some(line) {
            continue;
        }
        match redraws {
            // To the start of the line, and clear what stands there.
            true => console.data(format_args!("\r\x1b[K{line}"))?,
            false => console.data(format_args!("{line}\n"))?,
        }
    }
}
