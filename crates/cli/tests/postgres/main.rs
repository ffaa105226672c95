//! The gateway from outside, with its records in PostgreSQL: the cases of `tests/http` that do not
//! depend on where records are, and those that only a database makes possible.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

use onceward_rig::gateway::{Launch, Origin};
use onceward_rig::postgres::Server;

use self::common::{admin, ask, expect_one_original, expect_problem, expect_replay, pay};

#[path = "../http/cases.rs"]
mod cases;
#[path = "../http/common.rs"]
mod common;
mod nodes;
mod outage;
mod rights;
mod strict;

/// A gateway before `origin`, with its records in a schema of its own.
fn launch(origin: &Origin) -> Launch {
    durable(origin)
}

/// The same: what is in a database stays there. Nobody but its lease tells that a gateway was
/// killed, so the lease is short.
fn durable(origin: &Origin) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_onceward")).upstream(origin.addr());
    launch.in_postgres().config("[defaults]\nlease = \"1s\"\n")
}

/// A database server that can be killed.
async fn server() -> Server {
    Server::start().await
}
