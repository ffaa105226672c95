//! Stores for Onceward.
//!
//! A store is named by a URL and opened by [`open`]; whoever uses it holds an
//! `Arc<dyn Store>` and knows no driver.
//!
//! | URL | store |
//! |---|---|
//! | `memory:` | in the memory of this process |
//! | `embedded:PATH` | in a folder of this machine, synced on every batch of writes |
//! | `embedded:PATH?durability=os` | the same without syncing: survives kill -9, not power loss |
//! | `postgres://USER@HOST/DATABASE` | in a PostgreSQL database that many nodes share |
//! | `redis://HOST` | in a Redis or Valkey server that many nodes share; `rediss` with TLS |
//! | `redis+sentinel://HOST,HOST/SERVICE` | the same, behind sentinels that name the server |
//! | `redis+cluster://HOST,HOST` | the same, spread over a cluster |
//!
//! In front of a database a cache may remember answers: [`open_with`] takes its [`CacheUrl`].

mod cache;
#[cfg(feature = "embedded")]
pub mod embedded;
#[cfg(all(feature = "postgres", feature = "redis"))]
pub mod hybrid;
mod open;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod reckon;
#[cfg(feature = "redis")]
pub mod redis;
mod report;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod server;
#[cfg(feature = "embedded")]
mod sync;
mod url;

pub use cache::{CacheUrl, InvalidCache, Opened, Regressed, open_with};
pub use open::{OpenError, open};
pub use report::{DurabilityReport, Fact};
pub use url::{InvalidUrl, StoreUrl};

/// The examples of the front page, which compile and run.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
