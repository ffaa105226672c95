//! Several faults in one run: every pair, or as many of them as there is time for.
//!
//! The second fault strikes after the first, at a call or an await that is counted in the run in
//! which the first has struck, because these change with what fails. The process that retries is
//! under the faults too, so a crash may be followed by a fault in the recovery from it.

use super::{Enumeration, Fault, Mode, Plan, Scenario, Stores};

/// Every plan with one fault more than its beginning, in an order by chance.
#[derive(Debug)]
pub struct Plans<'a> {
    scenarios: &'a [Scenario],
    /// The number of a scenario, and a plan for it.
    plans: Vec<(usize, Plan)>,
    rng: fastrand::Rng,
}

// === impl Plans ===

impl<'a> Plans<'a> {
    /// Finds every pair of faults of each scenario, by running it with every first one: at two
    /// store calls, or one at a call and the caller dropped before or after it. They are shuffled,
    /// so that a part of them is a fair sample.
    pub fn pairs(
        stores: &dyn Stores,
        scenarios: &'a [Scenario],
        seed: u64,
        counts: &mut Enumeration,
    ) -> Self {
        let mut plans = Vec::new();
        for (number, scenario) in scenarios.iter().enumerate() {
            let none = Plan::none().in_retries();
            let counted = counts.run(stores, scenario, &none);
            for first in all_faults(0..counted.calls).map(|fault| none.then(fault)) {
                let trial = counts.run(stores, scenario, &first);
                let second = all_faults(first.faults[0].call + 1..trial.calls);
                plans.extend(second.map(|fault| (number, first.then(fault))));
                let second = trial.polls_when_struck..trial.polls;
                plans.extend(second.map(|poll| (number, first.clone().dropped(poll))));
            }
            for first in (0..counted.polls).map(|poll| none.clone().dropped(poll)) {
                let trial = counts.run(stores, scenario, &first);
                let second = all_faults(trial.calls_when_dropped..trial.calls);
                plans.extend(second.map(|fault| (number, first.then(fault))));
            }
        }
        let mut rng = fastrand::Rng::with_seed(seed);
        rng.shuffle(&mut plans);
        Self {
            scenarios,
            plans,
            rng,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.plans.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    /// Runs one after the other until `lasts` says that time is over, and has every scenario
    /// answered as often as `floor` of a hundred runs.
    pub fn run(&self, stores: &dyn Stores, floor: u64, lasts: &dyn Fn() -> bool) -> Enumeration {
        let mut all = Enumeration::default();
        let mut by_scenario = vec![(0, 0); self.scenarios.len()];
        for (number, plan) in self.plans.iter().take_while(|_| lasts()) {
            let trial = all.run(stores, &self.scenarios[*number], plan);
            // Nobody goes on with the work of a caller that was dropped.
            let counts = u64::from(plan.dropped_at.is_none());
            let (trials, answered) = &mut by_scenario[*number];
            *trials += counts;
            *answered += counts * u64::from(trial.answered);
        }
        for (scenario, (trials, answered)) in self.scenarios.iter().zip(by_scenario) {
            if answered * 100 < trials * floor {
                let name = scenario.name;
                all.wrong
                    .push(format!("{name}: only {answered} of {trials} are answered"));
            }
        }
        all
    }

    /// Adds a third fault to pairs drawn by lot, anywhere after the second, until time is over.
    /// The runs that count are not among the trials.
    pub fn triples(&mut self, stores: &dyn Stores, lasts: &dyn Fn() -> bool) -> Enumeration {
        let (mut all, mut counts) = (Enumeration::default(), Enumeration::default());
        while !self.plans.is_empty() && lasts() {
            let (number, pair) = &self.plans[self.rng.usize(..self.plans.len())];
            let scenario = &self.scenarios[*number];
            let counted = counts.run(stores, scenario, pair);
            let last = pair.faults.last().map_or(0, |last| last.call + 1);
            let after = last.max(counted.calls_when_dropped);
            if after < counted.calls {
                let fault = Fault {
                    call: self.rng.u64(after..counted.calls),
                    mode: Mode::ALL[self.rng.usize(..Mode::ALL.len())],
                };
                all.run(stores, scenario, &pair.then(fault));
            }
        }
        all.wrong.append(&mut counts.wrong);
        all
    }
}

/// Every way to fail at each of these calls.
fn all_faults(calls: std::ops::Range<u64>) -> impl Iterator<Item = Fault> {
    calls.flat_map(|call| Mode::ALL.map(|mode| Fault { call, mode }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use onceward::testing::ManualClock;
    use onceward::{MemoryStore, Store};

    use super::super::SCENARIOS;
    use super::*;

    struct Memory;

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

    fn pairs_of_one_caller() -> Plans<'static> {
        let mut counts = Enumeration::default();
        let plans = Plans::pairs(&Memory, &SCENARIOS[..1], 1, &mut counts);
        assert_eq!(counts.wrong, [""; 0]);
        assert_eq!(counts.missed, 0);
        plans
    }

    #[test]
    fn the_second_fault_strikes_after_the_first_wherever_it_is_planned() {
        let plans = pairs_of_one_caller();
        assert!(plans.len() > 1_000, "{}", plans.len());
        for (_, plan) in &plans.plans {
            assert!(plan.faults.is_sorted_by(|one, next| one.call < next.call));
        }
        let all = plans.run(&Memory, 50, &|| true);
        assert_eq!(all.trials, plans.len() as u64);
        assert_eq!((all.missed, all.wrong.first()), (0, None));
    }

    #[test]
    fn the_process_that_retries_after_a_crash_is_under_the_faults_too() {
        let plans = pairs_of_one_caller();
        let crashes = |plan: &Plan| {
            let modes = plan.faults.iter().map(|fault| fault.mode);
            modes.eq([Mode::CrashAfter, Mode::CrashBefore])
        };
        assert!(plans.plans.iter().any(|(_, plan)| crashes(plan)));
    }

    #[test]
    fn a_pair_says_what_it_does() {
        let fault = |call, mode| Fault { call, mode };
        let plan = Plan::call(2, Mode::Error).then(fault(5, Mode::CrashAfter));
        assert_eq!(
            plan.to_string(),
            "Error at call 2, then CrashAfter at call 5"
        );
        let plan = Plan::call(2, Mode::Error).dropped(3);
        assert_eq!(plan.to_string(), "dropped at await 3 and Error at call 2");
        assert_eq!(Plan::none().to_string(), "no fault");
    }
}
