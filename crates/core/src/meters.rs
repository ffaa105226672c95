//! Meters: the numbers that tell operators how the work goes.
//!
//! Names start with `onceward_`; labels are the route and an outcome, never keys or callers.
//! Handles are made once per policy, because looking one up costs more than a replay.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::store::Durability;

/// What is counted per route.
#[derive(Clone)]
pub(crate) struct Meters {
    /// First executions.
    pub(crate) originals: Counter,
    pub(crate) replays: Counter,
    pub(crate) waits: Counter,
    pub(crate) mismatches: Counter,
    /// Duplicates refused because the first was running, or too many were waiting.
    pub(crate) busy: Counter,
    /// Duplicates answered that nobody knows.
    pub(crate) unknown: Counter,
    pub(crate) takeovers: Counter,
    /// Results that came after the claim was lost.
    pub(crate) late: Counter,
    pub(crate) released: Counter,
    pub(crate) abandoned: Counter,
    /// Callers told that the same had succeeded under another key, with its answer or without.
    pub(crate) already_done: Counter,
    /// Callers whose work looked like that under another key, whatever came of it.
    pub(crate) suspected: Counter,
}

/// What is counted per store.
#[derive(Clone)]
pub(crate) struct StoreMeters {
    pub(crate) seconds: Histogram,
    pub(crate) errors: Counter,
    pub(crate) waiters: Gauge,
    pub(crate) swept: Counter,
    pub(crate) lapsed: Counter,
    /// Bodies that went before their records.
    pub(crate) shed: Counter,
}

// === impl Meters ===

impl Meters {
    pub(crate) fn new(route: &str) -> Self {
        let route = route.to_owned();
        let count = |name: &'static str| counter!(name, "route" => route.clone());
        Self {
            originals: count("onceward_originals_total"),
            replays: count("onceward_replays_total"),
            waits: count("onceward_waits_total"),
            mismatches: count("onceward_mismatches_total"),
            busy: count("onceward_busy_refusals_total"),
            unknown: count("onceward_unknown_total"),
            takeovers: count("onceward_takeovers_total"),
            late: count("onceward_late_completions_total"),
            released: count("onceward_released_total"),
            abandoned: count("onceward_abandoned_total"),
            already_done: count("onceward_already_done_total"),
            suspected: count("onceward_suspected_total"),
        }
    }
}

impl std::fmt::Debug for Meters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meters")
    }
}

// === impl StoreMeters ===

impl StoreMeters {
    pub(crate) fn new(store: &'static str, durability: Durability) -> Self {
        // 0 to 3, as the classes are named: an alarm can tell D1 from D2.
        gauge!("onceward_store_durability", "store" => store).set(durability as u8);
        Self {
            seconds: histogram!("onceward_store_seconds", "store" => store),
            errors: counter!("onceward_store_errors_total", "store" => store),
            waiters: gauge!("onceward_waiters"),
            swept: counter!("onceward_sweep_removed_total"),
            lapsed: counter!("onceward_sweep_lapsed_total"),
            shed: counter!("onceward_sweep_bodies_total"),
        }
    }

    pub(crate) fn answered(&self, took: Duration) {
        self.seconds.record(took.as_secs_f64());
    }
}

impl std::fmt::Debug for StoreMeters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoreMeters")
    }
}
