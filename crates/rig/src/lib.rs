//! The rig: what proves that Onceward keeps its promise.
//!
//! - [`history`] judges what a run's processes saw against what the promise allows;
//! - [`lab`] runs engines on a recorded store, with a service behind that keeps a ledger;
//! - [`crash`] builds what a power loss may leave of a store, and opens it;
//! - [`enumerate`] fails at every step of every scenario, in every way;
//! - [`model`] tries every order of events around one key;
//! - [`sim`] plays many engines on one store under one seed, with everything going wrong;
//! - `bank`, with the feature `bugbank`, makes mistakes on purpose and sees each of them caught;
//! - [`fuzz`] holds readers of untrusted bytes, and orders of operations, against what must hold;
//! - [`hybrid`] plays two nodes on a database with a cache in front of it, under one seed;
//! - [`gateway`] runs the real gateway between a scripted service and a raw client;
//! - [`postgres`] starts real database servers, and kills, pauses, clones and cuts them off;
//! - [`redis`] does the same with servers of Redis, alone, under Sentinels and in clusters;
//! - [`proxy`] stands between a store and its server, and does what networks do;
//! - [`tally`] counts the trials of every proof, so that a clean run says how much it has shown.

// It has the gateway on the machine's own network.
#[cfg(all(feature = "bugbank", not(onceward_simulated)))]
pub mod bank;
pub mod crash;
pub mod enumerate;
pub mod fuzz;
pub mod gateway;
mod guard;
pub mod history;
pub mod hybrid;
pub mod lab;
pub mod model;
pub mod postgres;
pub mod proxy;
pub mod redis;
pub mod sim;
pub mod tally;
