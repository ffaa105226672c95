//! What tests need: a world with a clock moved by hand and a store that fails on demand, and the
//! suite that holds every store to its contract.

mod clock;
pub mod conformance;
mod expect;
mod faults;
mod host;
pub mod moves;
pub mod records;
mod world;

pub use clock::ManualClock;
pub use expect::{ExpectLost, ExpectRun, ExpectVerdict};
pub use faults::{Call, Fault, FaultyStore};
pub use host::{Admission, Host, Hosted};
pub use world::World;
