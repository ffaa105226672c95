//! The history checker, held against histories whose judgement is known.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod history_bad;
mod history_good;
mod history_judgement;
mod history_random;
mod world;
