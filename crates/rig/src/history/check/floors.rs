//! C11: the run was worth judging.

use std::sync::Arc;

use super::{Check, Counts};
use crate::history::{History, report::Findings};

pub(super) fn check(history: &History, counts: &Counts, found: &mut Findings) {
    let expect = &history.expectations;
    let whole: Arc<str> = Arc::default();
    let mut report = |what: String| found.add(Check::C11, (&whole, &whole), what);

    let Counts {
        successes,
        ambiguous,
        faults,
        ..
    } = counts;
    if *successes < expect.successes_min {
        report(format!(
            "{successes} successes, at least {} expected",
            expect.successes_min
        ));
    }
    for (kind, min) in &expect.faults_min {
        let count = history.faults.get(kind).copied().unwrap_or(0);
        if count < *min {
            report(format!(
                "{count} faults of kind {kind}, at least {min} expected"
            ));
        }
    }
    if expect.fault_free && *ambiguous > 0 {
        report(format!(
            "{ambiguous} outcomes unknown in a run without faults"
        ));
    }
    if expect.fault_free && *faults > 0 {
        report(format!(
            "{faults} faults in a run that is said to have none"
        ));
    }
}
