//! The Redis store on real servers that are killed, paused, cut off, set wrong and replaced: alone,
//! under Sentinels and in a cluster.
//!
//! Nodes are engines with stores of their own; what they do is written down at the store and in
//! the ledger of the service, and the judge reads all of it.

mod aged;
mod clocks;
mod cluster;
mod enumeration;
mod failover;
mod kill;
mod network;
mod sentinel;
mod site;
