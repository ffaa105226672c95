//! Reports: what was found out about a server, and what it makes of a write.

use onceward::Durability;

/// What was found out about a server, and what follows from it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DurabilityReport {
    /// What an acknowledged write survives.
    pub class: Durability,
    /// Each setting that was looked at. Of several servers, that of the one with the weakest class.
    pub facts: Vec<Fact>,
}

/// One setting of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Fact {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What that means here.
    pub verdict: &'static str,
    /// Whether it is as it should be.
    pub is_good: bool,
}
