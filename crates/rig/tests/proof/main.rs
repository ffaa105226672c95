//! The proofs: what takes many trials, in a build that is optimised where it matters.
//!
//! Each reports how often it tried; `scripts/test` ends with the table. `ONCEWARD_PROOF=long`
//! gives each of them many times its minutes.

mod aged;
mod budget;
mod crash;
mod engine;
mod enumeration;
mod exhaustion;
mod hybrid;
mod kill;
mod model;
mod orders;
mod postgres;
mod redis;
mod site;
mod victim;
