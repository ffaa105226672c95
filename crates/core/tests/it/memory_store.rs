//! The memory store is the reference for the contract of stores.

use onceward::{MemoryStore, conformance};

conformance!(contract, MemoryStore::new());
