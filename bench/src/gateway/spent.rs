//! Processor time: what a request costs each process that it passes.
//!
//! Where all of them share the processors, the rates tell only what is left for whom; this tells
//! who used it, and it is the steadier figure on a machine that does other work too.

use std::time::Duration;

/// What a request cost in each process, in microseconds of one processor.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) proxy: f64,
    pub(crate) upstream: f64,
    pub(crate) callers: f64,
}

/// What `/proc` tells of a process.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    process: u32,
    parent: u32,
    ticks: u64,
}

/// The processor time of a process and its children until now, without the children that ended.
///
/// Zero where the system does not tell by `/proc`.
pub(crate) fn until_now(process: u32) -> Duration {
    spent_by(|stat| stat.process == process || stat.parent == process)
}

/// The processor time of this process until now, without its children.
pub(crate) fn own_until_now() -> Duration {
    spent_by(|stat| stat.process == std::process::id())
}

fn spent_by(counts: impl Fn(&Stat) -> bool) -> Duration {
    let Ok(all) = std::fs::read_dir("/proc") else {
        return Duration::ZERO;
    };
    let stats = all.filter_map(|one| std::fs::read_to_string(one.ok()?.path().join("stat")).ok());
    let ticks: u64 = stats
        .filter_map(|stat| Stat::parse(&stat))
        .filter(counts)
        .map(|stat| stat.ticks)
        .sum();
    let per_second = rustix::param::clock_ticks_per_second();
    Duration::from_secs_f64(ticks as f64 / per_second as f64)
}

// === impl Spent ===

impl Spent {
    /// Returns what one of `requests` cost, of the times before and after all of them.
    pub(crate) fn per_request(before: [Duration; 3], after: [Duration; 3], requests: u64) -> Self {
        let each = |at: usize| {
            let all = after[at].saturating_sub(before[at]);
            all.as_secs_f64() * 1e6 / requests.max(1) as f64
        };
        Self {
            proxy: each(0),
            upstream: each(1),
            callers: each(2),
        }
    }
}

// === impl Stat ===

impl Stat {
    /// Reads a line of `/proc/PID/stat`; the program's name in it may hold blanks and brackets.
    fn parse(line: &str) -> Option<Self> {
        let (process, rest) = line.split_once(' ')?;
        let (_, rest) = rest.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let parent = fields.nth(1)?.parse().ok()?;
        let mut ticks = fields.skip(9);
        let user: u64 = ticks.next()?.parse().ok()?;
        let system: u64 = ticks.next()?.parse().ok()?;
        Some(Self {
            process: process.parse().ok()?,
            parent,
            ticks: user + system,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Spent, Stat};

    #[test]
    fn line_of_a_process_with_an_odd_name_is_read() {
        let line = "42 (a ) b) S 7 42 42 0 -1 4194560 1 2 3 4 150 25 9 9 20 0 1 0 8 9";
        let expected = Stat {
            process: 42,
            parent: 7,
            ticks: 175,
        };
        assert_eq!(Stat::parse(line), Some(expected));
    }

    #[test]
    fn time_is_shared_among_the_requests() {
        let before = [1, 2, 3].map(Duration::from_secs);
        let after = [3, 3, 3].map(Duration::from_secs);
        let spent = Spent::per_request(before, after, 1_000);
        assert_eq!(spent.proxy, 2_000.0);
        assert_eq!(spent.upstream, 1_000.0);
        assert_eq!(spent.callers, 0.0);
    }
}
