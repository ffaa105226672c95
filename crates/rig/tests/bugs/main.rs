//! The bug bank: every mistake that can be made on purpose is noticed by the layer of the proof
//! that is meant for it.
//!
//! One test, because a mistake is made by the whole process.

use std::collections::BTreeMap;
use std::{env, panic};

use onceward::bugs::Bug;
use onceward_rig::bank::{self, Clean, Outcome};
use onceward_rig::tally::Tally;

mod process;
#[expect(dead_code, reason = "the proofs do more with it than the bank")]
#[path = "../proof/victim.rs"]
mod victim;

/// The environment variable with which only some mistakes are made: those whose name has it.
const ONLY: &str = "ONCEWARD_BANK";

#[test]
fn every_mistake_is_noticed_by_the_layer_that_is_meant_for_it() {
    let mut entries = bank::entries(process::LAYER);
    for bug in Bug::ALL {
        let count = entries.iter().filter(|entry| entry.bug == *bug).count();
        assert_eq!(count, 1, "{bug:?} stands in the bank once");
    }
    assert!(entries.len() >= 30, "only {} mistakes", entries.len());
    let only = env::var(ONLY).unwrap_or_default();
    entries.retain(|entry| entry.bug.name().contains(&only));

    // Trials say what is wrong by panicking, hundreds of times.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let layers: BTreeMap<_, _> = { entries.iter() }
        .map(|entry| (entry.layer.name, entry.layer))
        .collect();
    let clean: Vec<_> = { layers.values() }
        .map(|layer| (layer.name, layer.clean()))
        .collect();
    let outcomes: Vec<Outcome> = entries.into_iter().map(|it| it.run(bank::LIMIT)).collect();
    panic::set_hook(hook);

    println!("{}", bank::table(&clean, &outcomes));
    let wrong = clean.iter().filter_map(|(_, clean)| clean.as_ref().err());
    let missed = outcomes.iter().filter_map(Outcome::missed);
    let wrong: Vec<String> = wrong.cloned().chain(missed).collect();
    if only.is_empty() {
        record(&clean, &outcomes, wrong.len());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Adds the row of the bank to the tally.
fn record(clean: &[Clean], outcomes: &[Outcome], violations: usize) {
    let caught = outcomes.iter().filter(|it| it.said.is_ok()).count();
    let proof = format!("bug bank: {caught} of {} caught", outcomes.len());
    let trials = outcomes.iter().map(|it| it.trials).sum();
    let quiet: u64 = clean
        .iter()
        .flat_map(|(_, clean)| clean)
        .map(|it| it.trials)
        .sum();
    let note = format!(
        "{} layers, silent in {quiet} trials without a mistake",
        clean.len()
    );
    Tally::record(&proof, trials, None, violations as u64, &note);
}
