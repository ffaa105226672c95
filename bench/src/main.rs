//! Benchmarks: how fast, beside a limit or a peer measured in the same run.
//!
//! Every figure asserts the semantic result of what it measured. Absolute numbers hold for the
//! machine they were taken on; the ratios are what to compare.

use std::process::ExitCode;

use clap::Parser;

mod engine;
mod figures;
mod gateway;
mod load;
mod payer;
mod plan;
mod postgres;
mod process;
mod redis;
mod report;

/// What went wrong, from whichever thread.
type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Measure Onceward beside a limit or a peer, in one run
#[derive(Parser, Debug)]
#[command(name = "onceward-bench")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Engine(engine::Args),
    Gateway(gateway::Args),
    Postgres(postgres::Args),
    Redis(redis::Args),
    #[command(hide = true)]
    Upstream(gateway::upstream::Args),
}

fn main() -> ExitCode {
    let Cli { command } = Cli::parse();
    let ended = match command {
        Command::Engine(args) => args.run(),
        Command::Gateway(args) => args.run().map_err(|error| error as _),
        Command::Postgres(args) => args.run().map_err(|error| error as _),
        Command::Redis(args) => args.run().map_err(|error| error as _),
        Command::Upstream(args) => args.run().map_err(|error| error as _),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
