//! The `onceward` command.
//!
//! One file per command. Data goes to stdout and talk to stderr; the exit status is 0 for done,
//! 1 for no and 2 for failed.

use std::process::ExitCode;

use clap::Parser as _;

use crate::{args::Cli, console::Console};

mod args;
mod console;
mod exit;
mod figures;
mod inspect;
mod list;
mod plan;
mod prefix;
mod release;
mod repair;
mod resolve;
mod runtime;
mod secret;
mod select;
mod settle;
mod show;
mod store;
mod sweep;
mod trouble;
mod units;
mod utc;
mod walk;

fn main() -> ExitCode {
    let console = Console;
    let ended = match Cli::try_parse() {
        Ok(cli) => cli.command.run(&console),
        Err(refusal) => args::refuse(refusal, &console),
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(&console),
    }
}
