//! The PostgreSQL store on real servers that are killed, paused, cut off, set wrong and replaced.
//!
//! Nodes are engines with stores of their own; what they do is written down at the store and in
//! the ledger of the service, and the judge reads all of it.

mod aged;
mod clocks;
mod crowds;
mod enumeration;
mod failover;
mod outages;
pub(crate) mod site;
mod sweeps;
