//! Every order of events around one key: by the protocol that ships, and by those that do not.

use std::time::Instant;

use onceward::Effect;
use onceward_rig::model::{
    self, Coverage, Explored, Kind, Operator, VARIANTS, Variant, WORKERS_MAX, What,
};
use onceward_rig::tally::Tally;

use crate::budget::Budget;

/// Steps that only mistakes take.
const MISTAKEN: &[What] = &[
    What::TakesPermission,
    What::Stops,
    What::Deletes,
    What::CachesEarly,
    What::CachesFree,
];

/// The most states of one search: their fingerprints are kept in memory.
const STATES_MAX: u64 = 50_000_000;

#[test]
fn no_order_of_events_breaks_the_promise_around_one_key() {
    let safe: Vec<&Variant> = VARIANTS.iter().filter(|it| it.is_safe()).collect();
    let start = now();
    let mut sum = Sum::default();
    for variant in &safe {
        let explored = model::explore(variant, 3, &|_| true);
        assert!(explored.whole, "{}", variant.name);
        judge_coverage(variant, &explored.coverage);
        sum.add(variant, &explored);
    }
    let (whole, steps) = (sum.states, sum.steps);
    // With more workers there are more states than there is time for.
    for variant in &safe {
        for workers in 4..=WORKERS_MAX {
            let budget = Budget::seconds(1);
            let lasts = |states| states < STATES_MAX && budget.lasts();
            sum.add(variant, &model::explore(variant, workers, &lasts));
        }
    }
    let seconds = now().duration_since(start).as_secs_f64();
    let note = format!(
        "{} variants; every state of 3 workers: {whole}, {steps} steps; 4 and 5 workers: {} \
         states as far as time lasted; {:.0} states/s",
        safe.len(),
        sum.states - whole,
        sum.states as f64 / seconds,
    );
    let wrong = sum.wrong.len() as u64;
    Tally::record("model, safe variants", sum.states, None, wrong, &note);
    println!("{} states: {note}", sum.states);
    assert_eq!(sum.wrong, [""; 0]);
    assert!(whole >= 1_000_000, "only {whole} states");
}

#[test]
fn every_mistake_breaks_the_promise_in_as_many_steps_as_it_takes() {
    let mistakes: Vec<&Variant> = VARIANTS.iter().filter(|it| !it.is_safe()).collect();
    let (mut states, mut escaped) = (0, Vec::new());
    for variant in &mistakes {
        let explored = model::explore(variant, 3, &|_| true);
        states += explored.states;
        println!("{}: {} states", variant.name, explored.states);
        for found in &explored.found {
            println!("{found}");
        }
        if explored.kinds() != variant.finds {
            escaped.push((variant.name, explored.kinds()));
        }
    }
    let letters: Vec<&str> = mistakes.iter().map(|it| it.letter()).collect();
    let note = format!(
        "{} of {} mistakes ({}) found in the expected number of steps",
        mistakes.len() - escaped.len(),
        mistakes.len(),
        letters.join(" ")
    );
    let wrong = escaped.len() as u64;
    Tally::record("model, wrong variants", states, None, wrong, &note);
    assert_eq!(escaped, []);
    let finds = |kind: &Kind| {
        mistakes
            .iter()
            .any(|it| it.finds.iter().any(|(found, _)| found == kind))
    };
    assert!(
        Kind::ALL.iter().all(finds),
        "a kind that no mistake leads to"
    );
    assert!(mistakes.len() >= 12);
}

#[test]
fn every_kind_of_step_is_taken_somewhere() {
    // Apart: a step that only mistakes take shows nothing of what ships.
    let (mut safely, mut wrongly) = (vec![0; What::ALL.len()], vec![0; What::ALL.len()]);
    for variant in VARIANTS {
        // Two workers are enough for every kind of step, as this shows.
        let explored = model::explore(variant, 2, &|_| true);
        let taken = match variant.is_safe() {
            true => &mut safely,
            false => &mut wrongly,
        };
        for (count, what) in taken.iter_mut().zip(What::ALL) {
            *count += explored.acts(*what);
        }
    }
    for (what, (safely, wrongly)) in What::ALL.iter().zip(safely.iter().zip(wrongly)) {
        let is_mistaken = MISTAKEN.contains(what);
        assert_eq!(*safely == 0, is_mistaken, "{}: {safely}", what.words());
        assert!(!is_mistaken || wrongly > 0, "never: {}", what.words());
    }
}

/// What several searches came to.
#[derive(Default)]
struct Sum {
    states: u64,
    steps: u64,
    wrong: Vec<String>,
}

// === impl Sum ===

impl Sum {
    fn add(&mut self, variant: &Variant, explored: &Explored) {
        self.states += explored.states;
        self.steps += explored.steps;
        let told = explored.found.iter();
        self.wrong
            .extend(told.map(|found| format!("{}: {found}", variant.name)));
    }
}

/// A model in which nothing happens is safe too, so what has to be possible is counted.
fn judge_coverage(variant: &Variant, seen: &Coverage) {
    let name = variant.name;
    assert!(seen.completed > 1_000, "{name}: {seen:?}");
    let again = seen.used_again > 1_000;
    assert_eq!(again, variant.generations > 1, "{name}: {seen:?}");
    let transactional = variant.letter() == "U";
    let unknown = seen.unknown_done > 1_000 && seen.unknown_pending > 1_000;
    // What commits with its record is done if the record says so.
    assert_eq!(unknown, !transactional, "{name}: {seen:?}");
    let takes_over = seen.taken_over > 1_000;
    let holds = ["D", "M", "N"].contains(&variant.letter());
    assert_eq!(takes_over, !holds, "{name}: {seen:?}");
    // By an operator, or because the fence of a probe that was released has to stay.
    let opens = variant.operator == Operator::Thorough || variant.effect == Effect::Probed;
    assert_eq!(seen.open > 100, opens, "{name}: {seen:?}");
}

#[expect(
    clippy::disallowed_methods,
    reason = "how fast a search is, is a matter of real time"
)]
fn now() -> Instant {
    Instant::now()
}
