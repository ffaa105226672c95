//! The gateway from outside: the real executable, between a scripted service and raw sockets.
//!
//! Each module holds properties that anyone can test without knowing how the gateway works. Most of
//! them hold whatever store the records are in: `tests/postgres` has the same modules.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

use onceward_rig::gateway::{Launch, Origin};

use self::common::{admin, ask, expect_one_original, expect_problem, expect_replay, pay};

mod bodies;
mod common;
mod crash;
mod derived;
mod edges;
mod embedded;
mod expiry;
mod frames;
mod http2;
mod keys;
mod load;
mod mismatch;
mod once;
mod outage;
mod probed;
mod quotas;
mod refusals;
mod replay;
mod secrecy;
mod shutdown;
mod smuggling;
mod startup;
mod statuses;
mod streams;
mod tenants;
mod truncation;
mod unique;
mod unkeyed;
mod unknown;

/// A gateway before `origin`, with its records in memory.
fn launch(origin: &Origin) -> Launch {
    durable(origin).in_memory()
}

/// A gateway before `origin`, with its records on disk.
fn durable(origin: &Origin) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_onceward")).upstream(origin.addr())
}
