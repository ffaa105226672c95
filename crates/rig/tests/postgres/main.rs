//! The PostgreSQL store, on real servers.
//!
//! `ONCEWARD_TEST_POSTGRES` may name a server for those tests that leave it whole; without it each
//! process starts one of its own. Tests that kill servers start their own in any case.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod across;
mod authority;
mod conformance;
mod guests;
mod hosts;
mod network;
mod nodes;
mod opening;
mod orders;
mod servers;
mod shared;
mod store;
mod sweeps;
mod tls;
mod transaction;
mod versions;
