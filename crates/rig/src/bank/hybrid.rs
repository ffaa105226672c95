//! Seeds of two nodes on a database with a cache in front of it.

use crate::hybrid;

/// How many seeds there are in a round; a hundred times that in the long form.
pub(super) fn round() -> u64 {
    let is_long = std::env::var("ONCEWARD_PROOF").is_ok_and(|form| form == "long");
    if is_long { 50_000 } else { 500 }
}

pub(super) fn trial(number: u64) -> Option<String> {
    let wrong = hybrid::run(number).wrong;
    (!wrong.is_empty()).then(|| format!("seed {number}: {}", wrong.join("\n")))
}
