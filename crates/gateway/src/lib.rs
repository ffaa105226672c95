//! The gateway: idempotency keys for any HTTP service.
//!
//! [`serve`] puts a gateway in front of a service: requests with an `Idempotency-Key` are executed
//! at most once, every retry gets the first answer, and where nobody can know whether the work
//! happened the answer says so. `onceward serve` is this with a command line.
//!
//! One request's way: `server` takes it from the wire, `stack` finds its `route`, the guard of
//! `onceward-http` reads its key and asks the engine, and `proxy` sends it to the `upstream` if
//! it is to be executed.

mod access;
mod admin;
mod build;
mod census;
pub mod config;
pub mod forward;
mod http1;
pub mod identity;
mod lanes;
mod net;
mod open;
mod probe;
mod proxy;
pub mod route;
mod scratch;
pub mod server;
mod stack;
mod start;
mod strict;
mod summary;
pub mod telemetry;
mod trouble;
mod tunnel;
pub mod units;
pub mod upstream;

pub use build::upstream_of;
pub use start::{Gateway, Given, StartError, serve};
pub use summary::Summary;
pub use trouble::in_one_line;
