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

#[cfg(feature = "embedded")]
pub mod embedded;
mod open;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "embedded")]
mod sync;
mod url;

pub use open::{OpenError, open};
pub use url::{InvalidUrl, StoreUrl};

/// The examples of the front page, which compile and run.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
