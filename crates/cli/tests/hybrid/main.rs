//! The gateway from outside, with its records in PostgreSQL and answers cached in Redis: the cases
//! of `tests/http` that do not depend on where records are, those of two gateways on one database,
//! and those that only a cache makes possible.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

use onceward_rig::gateway::{Launch, Origin};

use self::common::{admin, ask, expect_one_original, expect_problem, expect_replay, pay};

#[path = "../http/cases.rs"]
mod cases;
#[path = "../http/common.rs"]
mod common;
mod evidence;
#[path = "../postgres/nodes.rs"]
mod nodes;
mod outage;

/// A gateway before `origin`, with its records in a schema of its own and a cache in front.
fn launch(origin: &Origin) -> Launch {
    durable(origin)
}

/// The same: what is in a database stays there. Nobody but its lease tells that a gateway was
/// killed, so the lease is short.
fn durable(origin: &Origin) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_onceward")).upstream(origin.addr());
    let launch = launch.in_postgres().cached();
    launch.config("[defaults]\nlease = \"1s\"\n")
}
