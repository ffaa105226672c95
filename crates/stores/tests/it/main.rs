//! What the stores promise, against real folders.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]
#![cfg(feature = "embedded")]

mod conformance;
mod damage;
mod disk;
mod filing;
mod folder;
mod image;
mod journal;
mod kill;
mod lists;
mod poison;
mod recall;
mod reopen;
mod salvage;
