//! The history checker, held against histories whose judgement is known; and the corpora of fuzzing.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod fuzz;
mod history_bad;
mod history_good;
mod history_judgement;
mod history_random;
mod world;
