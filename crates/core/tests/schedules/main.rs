//! Schedules: what tasks and threads of an engine may do to each other, in every order that a
//! scheduler chooses, or in every order there is.
//!
//! `scripts/schedules` builds and runs this; an ordinary build has none of it.
#![cfg(any(onceward_shuttle, onceward_loom))]

#[cfg(onceward_shuttle)]
mod cancel;
#[cfg(onceward_shuttle)]
mod claims;
#[cfg(onceward_loom)]
mod exhaustive;
#[cfg(onceward_shuttle)]
mod explore;
#[cfg(onceward_shuttle)]
mod judge;
#[cfg(onceward_shuttle)]
mod memory;
mod tally;
#[cfg(onceward_shuttle)]
mod waiters;
#[cfg(onceward_shuttle)]
mod world;
