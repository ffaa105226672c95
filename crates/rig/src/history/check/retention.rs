//! C12: nothing expires before its retention ends.

use super::{Case, Check, Report, terminal};

pub(super) fn check(case: &Case<'_>, report: Report<'_>) {
    let Some(retention) = case.expect.retention_ns else {
        return;
    };
    for breach in terminal::breaches(case).into_iter().filter(|it| it.gone) {
        report(
            Check::C12,
            format!("{}, within its retention of {retention} ns", breach.what),
        );
    }
}
