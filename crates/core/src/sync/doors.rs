//! Doors into what is private, for those who judge schedules.

use crate::fence::Mint;
use crate::{Engine, Fence, Timestamp};

/// Who waits, by all the counts there are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Waiting {
    /// In all.
    pub total: usize,
    /// Slots that somebody waits for.
    pub slots: usize,
    /// The most that wait for one slot.
    pub of_slot: usize,
    /// Tenants that wait.
    pub tenants: usize,
    /// The most that one tenant has waiting.
    pub of_tenant: usize,
}

/// Mints fences as an engine does.
#[derive(Debug)]
pub struct Fences(Mint);

/// Counts who waits in `engine`.
pub fn waiting(engine: &Engine) -> Waiting {
    engine.room().count()
}

// === impl Fences ===

impl Fences {
    /// Returns the fences of a new engine.
    pub fn new() -> Self {
        Self(Mint::random())
    }

    /// Mints a fence for a write over `seen`.
    pub fn next(&self, seen: Option<Fence>, store_time: Timestamp) -> Fence {
        self.0.next(seen, store_time)
    }
}

impl Default for Fences {
    fn default() -> Self {
        Self::new()
    }
}
