//! The contract of stores, case by case.

use std::sync::Arc;

use onceward::testing::conformance::{CASES, Case};
use onceward::{MemoryStore, Store};
use onceward_stores::embedded::EmbeddedStore;

use super::scratch;

/// What is in the names of the cases that the embedded store is held to here: those about what it
/// does in ways of its own. All of them are ordinary tests, and opening a store takes longer than
/// most of them.
const OWN_WAYS: [&str; 5] = ["late", "recalled", "stale_fence", "swept", "kept"];

pub(super) fn memory_round() -> u64 {
    CASES.len() as u64
}

pub(super) fn memory(number: u64) -> Option<String> {
    let case = &CASES[(number % memory_round()) as usize];
    hold(case, Arc::new(MemoryStore::new()))
}

pub(super) fn embedded_round() -> u64 {
    own_ways().count() as u64
}

pub(super) fn embedded(number: u64) -> Option<String> {
    let folder = scratch();
    let store = EmbeddedStore::at(folder.path().join("store"))
        .sync(false) // what is held to here does not depend on the disk
        .open()
        .expect("a new store opens");
    let at = (number % embedded_round()) as usize;
    let case = own_ways().nth(at).expect("it is one of them");
    hold(case, Arc::new(store))
}

fn own_ways() -> impl Iterator<Item = &'static Case> {
    let is_one = |case: &&Case| OWN_WAYS.iter().any(|way| case.name.contains(way));
    CASES.iter().filter(is_one)
}

/// Holds a store to one case, which panics when it does not hold.
pub(super) fn hold(case: &'static Case, store: Arc<dyn Store>) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts");
    let held = runtime.block_on(async move {
        let held = async move { (case.run)(&store).await };
        tokio::spawn(held).await
    });
    let panicked = held.err()?.into_panic();
    Some(format!("{}: {}", case.name, super::words(&*panicked)))
}
