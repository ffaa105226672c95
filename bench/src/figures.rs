//! Figures: what is printed of two sides that were measured in turn.

use crate::load::Load;
use crate::report::{Report, millis, rounded, thousands};

/// What one side did in a round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side {
    /// Operations per second.
    pub(crate) rate: f64,
    /// What half of them took at the most, in microseconds.
    pub(crate) p50: u64,
    /// What all but one in a hundred took at the most, in microseconds.
    pub(crate) p99: u64,
}

/// One round: both sides, one straight after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) ours: Side,
    pub(crate) theirs: Side,
}

/// The rounds of one comparison, in the order of their ratios.
#[derive(Debug)]
pub(crate) struct Pairs(Vec<Pair>);

/// Starts a table of comparisons; `what` heads its first column.
pub(crate) fn table(report: &mut Report, title: &str, what: &str, theirs: &str) {
    report.table(
        title,
        &[
            what,
            "onceward",
            "p50",
            "p99",
            theirs,
            "p50",
            "p99",
            "rate",
            "from .. to",
            "p50",
            "goal",
        ],
    );
}

// === impl Side ===

impl From<Load> for Side {
    fn from(load: Load) -> Self {
        Self {
            rate: load.rate,
            p50: load.p50(),
            p99: load.p99(),
        }
    }
}

impl Side {
    /// Names the figures for machines, each of which begins with `name`.
    pub(crate) fn report(&self, report: &mut Report, name: &str) {
        report.value(&format!("{name}_per_s"), rounded(self.rate));
        report.value(&format!("{name}_p50_us"), self.p50);
        report.value(&format!("{name}_p99_us"), self.p99);
    }
}

// === impl Pair ===

impl Pair {
    /// How many times as much ours did in the same time.
    fn rate(&self) -> f64 {
        self.ours.rate / self.theirs.rate
    }

    /// How many times as long ours took, half of the time.
    fn latency(&self) -> f64 {
        self.ours.p50 as f64 / self.theirs.p50 as f64
    }
}

// === impl Pairs ===

impl Pairs {
    /// Keeps at least one round.
    pub(crate) fn new(mut pairs: Vec<Pair>) -> Self {
        pairs.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
        Self(pairs)
    }

    /// Returns the median ratio of the rates.
    pub(crate) fn rate(&self) -> f64 {
        self.middle().rate()
    }

    /// Returns the median ratio of the medians of what one took; of two, the greater.
    pub(crate) fn latency(&self) -> f64 {
        let mut all: Vec<_> = self.0.iter().map(Pair::latency).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    }

    /// Adds a row to the table, and names its figures for machines: those of the comparison begin
    /// with `name`, and `peer` tells the other side's apart.
    pub(crate) fn report(&self, report: &mut Report, name: &str, peer: &str, cells: [String; 2]) {
        let [first, goal] = cells;
        let Pair { ours, theirs } = self.middle();
        let side = |side: &Side| [thousands(side.rate), millis(side.p50), millis(side.p99)];
        let (least, most) = (self.0[0].rate(), self.0[self.0.len() - 1].rate());
        let ratios = [
            format!("{:.2}x", self.rate()),
            format!("{least:.2} .. {most:.2}"),
            format!("{:.2}x", self.latency()),
        ];
        let row = [first].into_iter().chain(side(ours)).chain(side(theirs));
        report.row(row.chain(ratios).chain([goal]));

        report.value(&format!("{name}_ratio"), rounded(self.rate()));
        report.value(&format!("{name}_latency_ratio"), rounded(self.latency()));
        for (whose, side) in [(String::new(), ours), (format!("_{peer}"), theirs)] {
            side.report(report, &format!("{name}{whose}"));
        }
    }

    /// Returns the round with the median ratio of the rates; of two, the one with the lesser.
    fn middle(&self) -> &Pair {
        &self.0[(self.0.len() - 1) / 2]
    }
}

#[cfg(test)]
mod tests {
    use super::{Pair, Pairs, Side};

    fn side(rate: f64, millis: u64) -> Side {
        Side {
            rate,
            p50: millis * 1_000,
            p99: millis * 1_000,
        }
    }

    #[test]
    fn of_an_even_number_of_rounds_the_less_flattering_counts() {
        let pair = |rate, millis| Pair {
            ours: side(rate, millis),
            theirs: side(10.0, 10),
        };
        let pairs = Pairs::new(vec![
            pair(30.0, 20),
            pair(10.0, 12),
            pair(20.0, 10),
            pair(15.0, 11),
        ]);
        assert_eq!(pairs.rate(), 1.5);
        assert!(
            (1.19..=1.21).contains(&pairs.latency()),
            "{}",
            pairs.latency()
        );
    }
}
