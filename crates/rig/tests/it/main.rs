//! The history checker, held against histories whose judgement is known; the corpora of fuzzing;
//! and races for orders, on the stores that run in this process.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod fuzz;
mod history_bad;
mod history_good;
mod history_judgement;
mod history_random;
mod orders;
mod world;
