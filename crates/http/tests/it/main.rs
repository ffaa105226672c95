//! The layer from outside: what a caller sees, whatever happens behind it.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

#[cfg(feature = "axum")]
mod axum;
mod bodies;
mod busy;
mod crowds;
mod derived;
mod effects;
#[cfg(feature = "axum")]
mod examples;
mod fates;
mod keys;
mod leaving;
mod mismatch;
mod pass;
mod problems;
mod quotas;
mod replay;
mod scope;
mod store;
mod streams;
mod unique;
mod wire;
mod world;
