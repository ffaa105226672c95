//! The Redis store, on real servers.
//!
//! Each process starts a server of its own for those tests that leave it whole; tests that kill
//! servers or set them wrong start theirs.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "../postgres/across.rs"]
mod across;
#[path = "../postgres/authority.rs"]
mod authority;
mod conformance;
mod network;
#[path = "../postgres/nodes.rs"]
mod nodes;
mod opening;
mod orders;
mod outages;
mod servers;
mod shared;
mod tls;
mod writes;
