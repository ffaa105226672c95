//! The proofs of the executable: crowds, shortages, attacks and tenants, in an optimised build.
//!
//! Each reports how often it tried; `scripts/test` ends with the table. `ONCEWARD_PROOF=long`
//! gives each of them many times its minutes.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

use onceward_rig::gateway::{Ask, Gateway, Launch, Origin, Received, raise_file_limit};
use tokio::sync::{Mutex, MutexGuard};

#[path = "../../../rig/tests/proof/budget.rs"]
mod budget;
mod canary;
mod dos;
mod exhaustion;
#[allow(dead_code, reason = "the tests that it belongs to use the rest")]
#[path = "../http/frames.rs"]
mod frames;
mod nodes;
mod spread;
mod storm;

/// What the gateway may take at the most, whatever is done to it.
const MEMORY_MAX: u64 = 512 << 20;

/// Proofs take turns: each needs most of the files that a process may have, and the machine.
async fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    let turn = TURN.lock().await;
    raise_file_limit();
    turn
}

/// A gateway before `origin`, with its records on disk.
fn durable(origin: &Origin) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_onceward")).upstream(origin.addr())
}

/// A payment with this key.
fn pay(key: &str) -> Ask {
    Ask::post("/payments").key(key)
}

/// Asks on a connection of its own.
async fn ask(gateway: &Gateway, ask: &Ask) -> Received {
    let answer = onceward_rig::gateway::ask(gateway.addr(), ask).await;
    answer.unwrap_or_else(|error| panic!("no answer: {error}\n{}", gateway.log()))
}

/// Asks the admin listener.
async fn admin(gateway: &Gateway, path: &str) -> Received {
    let answer = onceward_rig::gateway::ask(gateway.admin(), &Ask::get(path)).await;
    answer.expect("the admin listener answers")
}

/// A number that the gateway tells about itself; 0 if it has not come to tell it.
async fn number(gateway: &Gateway, name: &str) -> f64 {
    let text = admin(gateway, "/metrics").await.text();
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.map_or(0.0, |value| value.trim().parse().unwrap())
}

/// In whole MiB, for a note.
fn mib(bytes: u64) -> u64 {
    bytes >> 20
}
