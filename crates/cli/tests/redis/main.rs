//! The gateway from outside, with its records in Redis: the cases of `tests/http` that do not
//! depend on where records are, and those that only a server makes possible.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

use onceward_rig::gateway::{Launch, Origin};
use onceward_rig::redis::RedisServer as Server;

use self::common::{admin, ask, expect_one_original, expect_problem, expect_replay, pay};

#[path = "../http/cases.rs"]
mod cases;
#[path = "../http/common.rs"]
mod common;
#[path = "../postgres/nodes.rs"]
mod nodes;
#[path = "../postgres/outage.rs"]
mod outage;
mod strict;

/// A gateway before `origin`, with its records under names of its own.
fn launch(origin: &Origin) -> Launch {
    durable(origin)
}

/// The same: what is on a server stays there. Nobody but its lease tells that a gateway was
/// killed, so the lease is short.
fn durable(origin: &Origin) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_onceward")).upstream(origin.addr());
    launch.in_redis().config("[defaults]\nlease = \"1s\"\n")
}

/// A server that can be killed, and forgets nothing.
async fn server() -> Server {
    Server::durable().await
}
