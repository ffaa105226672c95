//! What the gateway counts about itself, read from the page that Prometheus would read.

use std::fmt;

/// How callers were answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Numbers {
    /// Retries that got the first answer back.
    pub(super) replays: u64,
    /// Retries that came while the first was running, and waited for it.
    pub(super) waits: u64,
    /// Requests that had no right to their key, or came too early.
    pub(super) refusals: u64,
    /// Requests that were told that nobody knows.
    pub(super) unknown: u64,
}

/// The gateway's numbers beside the service's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Line {
    pub(super) charges: usize,
    pub(super) numbers: Numbers,
}

// === impl Numbers ===

impl Numbers {
    /// Reads the numbers in `page`; what is not there is zero.
    pub(super) fn read(page: &str) -> Self {
        let answered = |outcome: &str| {
            let label = format!("outcome=\"{outcome}\"");
            sum(page, "onceward_requests_total{", &label)
        };
        Self {
            replays: answered("replay"),
            waits: sum(page, "onceward_waits_total{", ""),
            refusals: answered("key-reused") + answered("in-progress"),
            unknown: answered("outcome-unknown"),
        }
    }
}

/// Sums the samples of one metric that have the label, over all routes.
fn sum(page: &str, metric: &str, label: &str) -> u64 {
    page.lines()
        .filter(|line| line.starts_with(metric) && line.contains(label))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum()
}

// === impl Line ===

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { charges, numbers } = self;
        let Numbers {
            replays,
            waits,
            refusals,
            unknown,
        } = numbers;
        write!(
            f,
            "charges {charges}   replays {replays}   waits {waits}   refusals {refusals}   \
             unknown {unknown}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_routes_are_summed() {
        let page = "\
# TYPE onceward_requests_total counter
onceward_requests_total{route=\"default\",outcome=\"replay\"} 3
onceward_requests_total{route=\"POST /orders\",outcome=\"replay\"} 4
onceward_requests_total{route=\"default\",outcome=\"key-reused\"} 1
onceward_requests_total{route=\"default\",outcome=\"in-progress\"} 1
onceward_requests_total{route=\"default\",outcome=\"outcome-unknown\"} 2
onceward_requests_total{route=\"default\",outcome=\"original\"} 9
onceward_waits_total{route=\"default\"} 5
";
        let wanted = Numbers {
            replays: 7,
            waits: 5,
            refusals: 2,
            unknown: 2,
        };
        assert_eq!(Numbers::read(page), wanted);
        assert_eq!(Numbers::read(""), Numbers::default());
    }

    #[test]
    fn line_names_every_number() {
        let line = Line {
            charges: 1,
            numbers: Numbers {
                replays: 2,
                waits: 3,
                refusals: 4,
                unknown: 5,
            },
        };
        let wanted = "charges 1   replays 2   waits 3   refusals 4   unknown 5";
        assert_eq!(line.to_string(), wanted);
    }
}
