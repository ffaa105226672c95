//! The Redis store, on real servers.
//!
//! Each process starts a server of its own for those tests that leave it whole; tests that kill
//! servers or set them wrong start theirs.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod conformance;
mod network;
mod opening;
mod servers;
mod writes;
