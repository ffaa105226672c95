//! The `onceward` command.
//!
//! One file per command. Data goes to stdout and talk to stderr; the exit status is 0 for done,
//! 1 for no and 2 for failed.

use std::process::ExitCode;

use crate::console::Console;

mod args;
mod config;
mod console;
mod demo;
mod doctor;
mod exit;
mod figures;
mod inspect;
mod limits;
mod list;
#[cfg(feature = "postgres")]
mod migrate;
mod plan;
mod prefix;
mod release;
mod repair;
mod resolve;
mod runtime;
mod secret;
mod select;
mod serve;
mod settle;
mod show;
mod store;
mod sweep;
mod trouble;
mod utc;
mod walk;

/// A gateway allocates for every request, most of it on one thread and freed on another, which
/// this one does at half the price of the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let console = Console;
    match args::run(&console) {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(&console),
    }
}
