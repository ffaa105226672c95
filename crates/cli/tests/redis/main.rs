//! The gateway from outside, with its records in Redis: the cases of `tests/http` that do not
//! depend on where records are, and those that only a server makes possible.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

use onceward_rig::gateway::{Launch, Origin};

use self::common::{admin, ask, expect_one_original, expect_problem, expect_replay, pay};

#[path = "../http/bodies.rs"]
mod bodies;
#[path = "../http/common.rs"]
mod common;
#[path = "../http/crash.rs"]
mod crash;
#[path = "../http/derived.rs"]
mod derived;
#[path = "../http/edges.rs"]
mod edges;
#[path = "../http/expiry.rs"]
mod expiry;
#[path = "../http/keys.rs"]
mod keys;
#[path = "../http/mismatch.rs"]
mod mismatch;
#[path = "../postgres/nodes.rs"]
mod nodes;
#[path = "../http/once.rs"]
mod once;
mod outage;
#[path = "../http/probed.rs"]
mod probed;
#[path = "../http/replay.rs"]
mod replay;
#[path = "../http/secrecy.rs"]
mod secrecy;
#[path = "../http/shutdown.rs"]
mod shutdown;
#[path = "../http/statuses.rs"]
mod statuses;
#[path = "../http/streams.rs"]
mod streams;
mod strict;
#[path = "../http/tenants.rs"]
mod tenants;
#[path = "../http/truncation.rs"]
mod truncation;
#[path = "../http/unique.rs"]
mod unique;
#[path = "../http/unknown.rs"]
mod unknown;

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
