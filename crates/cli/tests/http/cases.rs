//! The cases that hold whatever store the records are in. Each binary that has them says in
//! `launch` and `durable` which one it is.

mod bodies;
mod crash;
mod derived;
mod edges;
mod expiry;
mod keys;
mod mismatch;
mod once;
mod probed;
mod replay;
mod secrecy;
mod shutdown;
mod statuses;
mod streams;
mod tenants;
mod truncation;
mod unique;
mod unknown;
