//! Every single fault at every step of every scenario, on the memory store.

use std::sync::{Arc, LazyLock};

use onceward::testing::ManualClock;
use onceward::{MemoryStore, Store};

use crate::enumerate::{self, Mode, Plan, SCENARIOS, Scenario, Stores};

/// A fresh store for each trial.
struct Memory;

/// Every trial, as the runs without a fault counted them: those without a fault come first.
static PLANS: LazyLock<Vec<(&Scenario, Plan)>> = LazyLock::new(plans);

/// How many trials there are.
pub(super) fn round() -> u64 {
    PLANS.len() as u64
}

pub(super) fn trial(number: u64) -> Option<String> {
    let (scenario, plan) = &PLANS[(number % round()) as usize];
    let wrong = enumerate::trial(&Memory, scenario, plan, number).wrong?;
    Some(format!("{}, {plan}: {wrong}", scenario.name))
}

fn plans() -> Vec<(&'static Scenario, Plan)> {
    let mut plans: Vec<_> = SCENARIOS.iter().map(|it| (it, Plan::none())).collect();
    for (number, scenario) in SCENARIOS.iter().enumerate() {
        let counted = enumerate::trial(&Memory, scenario, &Plan::none(), number as u64);
        for call in 0..counted.calls {
            let modes = Mode::ALL.into_iter();
            plans.extend(modes.map(|mode| (scenario, Plan::call(call, mode))));
        }
        let awaits = 0..counted.polls;
        plans.extend(awaits.map(|poll| (scenario, Plan::none().dropped(poll))));
    }
    plans
}

// === impl Memory ===

impl Stores for Memory {
    fn store(&self, clock: &Arc<ManualClock>) -> Arc<dyn Store> {
        Arc::new(MemoryStore::with_clock(clock.clone()))
    }

    fn clock(&self) -> Arc<ManualClock> {
        Arc::new(ManualClock::new())
    }

    fn is_threaded(&self) -> bool {
        false
    }
}
