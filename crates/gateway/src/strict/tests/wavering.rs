//! A store whose class falls and rises.

use std::sync::atomic::{AtomicBool, Ordering};

use onceward::{Durability, MemoryStore, Store};

/// A store in memory that says of itself to be on a disk, until it says otherwise.
#[derive(Debug, Default)]
pub(super) struct Wavering {
    inner: MemoryStore,
    forgets: AtomicBool,
}

// === impl Wavering ===

impl Wavering {
    /// Sets whether what was acknowledged can be forgotten.
    pub(super) fn forgets(&self, forgets: bool) {
        self.forgets.store(forgets, Ordering::Relaxed);
    }
}

impl Store for Wavering {
    onceward::forward!(
        insert, replace, remove, get, recall, forget, list, sweep, watch
    );

    fn durability(&self) -> Durability {
        match self.forgets.load(Ordering::Relaxed) {
            true => Durability::D1,
            false => Durability::D2,
        }
    }

    fn kind(&self) -> &'static str {
        "wavering"
    }
}
