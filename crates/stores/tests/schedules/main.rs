//! Schedules of the embedded store: callers, the writer that batches what they ask, and readers,
//! in every order that a scheduler chooses, on a disk that fails when it is told to.
//!
//! `scripts/schedules` builds and runs this; an ordinary build has none of it.
#![cfg(onceward_shuttle)]

mod close;
#[path = "../../../core/tests/schedules/explore.rs"]
mod explore;
mod poison;
mod recall;
#[path = "../../../core/tests/schedules/tally.rs"]
mod tally;
mod world;
mod writes;
