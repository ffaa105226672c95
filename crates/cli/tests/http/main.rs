//! The gateway from outside: the real executable, between a scripted service and raw sockets.
//!
//! Each module holds properties that anyone can test without knowing how the gateway works. Most of
//! them hold whatever store the records are in: `tests/postgres` and its like have the same `cases`.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

use onceward_rig::gateway::{Launch, Origin};

use self::common::{admin, ask, expect_one_original, expect_problem, expect_replay, pay};

#[path = "cases.rs"]
mod cases;
mod common;
mod embedded;
mod frames;
mod http2;
mod load;
mod outage;
mod quotas;
mod refusals;
mod smuggling;
mod startup;
mod unkeyed;

/// A gateway before `origin`, with its records in memory.
fn launch(origin: &Origin) -> Launch {
    durable(origin).in_memory()
}

/// A gateway before `origin`, with its records on disk.
fn durable(origin: &Origin) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_onceward")).upstream(origin.addr())
}
