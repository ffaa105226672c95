//! Figures: what is printed of the rounds of a series.

use super::series::{Pair, Series};
use super::site::Side;
use crate::load::Load;
use crate::report::{Report, millis, rounded, thousands};

/// The rounds of a series.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) series: Series,
    pub(crate) connections: usize,
    goal: Option<f64>,
    /// In the order of their ratios.
    pairs: Vec<Pair>,
}

/// Prints requests per second of both sides, and their ratio.
pub(crate) fn ratios(report: &mut Report, measured: &[Measured]) {
    report.table(
        "onceward beside nginx as a plain proxy, in turn; the median ratio counts",
        &[
            "requests",
            "connections",
            "onceward",
            "p50",
            "p99",
            "nginx",
            "p50",
            "p99",
            "ratio",
            "from .. to",
            "goal",
        ],
    );
    for one in measured {
        let middle = one.middle();
        let (least, most) = one.range();
        let mut row = vec![one.series.title.to_owned(), one.connections.to_string()];
        row.extend(cells(&middle.ours.load));
        row.extend(cells(&middle.nginx.load));
        row.extend([
            format!("{:.2}x", middle.ratio()),
            format!("{least:.2} .. {most:.2}"),
            one.goal.map_or(String::new(), |goal| format!("{goal:.2}x")),
        ]);
        report.row(row);

        let name = one.name();
        report.value(&format!("{name}_ratio"), rounded(middle.ratio()));
        report.value(&format!("{name}_ratio_least"), rounded(least));
        report.value(&format!("{name}_ratio_most"), rounded(most));
        for (side, Side { load, .. }) in one.sides() {
            report.value(&format!("{name}{side}_per_s"), rounded(load.rate));
            report.value(&format!("{name}{side}_p50_us"), load.p50());
            report.value(&format!("{name}{side}_p99_us"), load.p99());
        }
    }
}

/// Prints what a request costs each process.
pub(crate) fn costs(report: &mut Report, measured: &[Measured]) {
    report.table(
        "processor time per request, which all share",
        &[
            "requests",
            "connections",
            "onceward",
            "upstream",
            "callers",
            "nginx",
            "upstream",
            "callers",
        ],
    );
    for one in measured {
        let mut row = vec![one.series.title.to_owned(), one.connections.to_string()];
        let name = one.name();
        for (side, Side { spent, .. }) in one.sides() {
            for (process, micros) in [
                ("cpu", spent.proxy),
                ("upstream_cpu", spent.upstream),
                ("callers_cpu", spent.callers),
            ] {
                row.push(format!("{micros:.1} us"));
                report.value(&format!("{name}{side}_{process}_us"), rounded(micros));
            }
        }
        report.row(row);
    }
}

/// Prints the latency of both sides, and what the gateway adds.
pub(crate) fn latencies(report: &mut Report, title: &str, measured: &[(Series, Vec<Pair>)]) {
    report.table(
        title,
        &[
            "requests",
            "onceward p50",
            "nginx p50",
            "added",
            "onceward p99",
            "nginx p99",
            "added",
        ],
    );
    for (series, pairs) in measured {
        let (mut ours, mut nginx) = (Load::empty(), Load::empty());
        for pair in pairs {
            ours.add(&pair.ours.load);
            nginx.add(&pair.nginx.load);
        }
        let name = series.name;
        let mut row = vec![series.title.to_owned()];
        for (quantile, ours, nginx) in [
            ("p50", ours.p50(), nginx.p50()),
            ("p99", ours.p99(), nginx.p99()),
        ] {
            let added = ours as i64 - nginx as i64;
            let signed = format!("{:+.2} ms", added as f64 / 1e3);
            row.extend([millis(ours), millis(nginx), signed]);
            report.value(&format!("latency_{name}_{quantile}_us"), ours);
            report.value(&format!("latency_{name}_nginx_{quantile}_us"), nginx);
            report.value(&format!("latency_{name}_added_{quantile}_us"), added);
        }
        report.row(row);
    }
}

/// Requests per second and latencies, as they stand in a row.
pub(crate) fn cells(load: &Load) -> [String; 3] {
    [thousands(load.rate), millis(load.p50()), millis(load.p99())]
}

// === impl Measured ===

impl Measured {
    /// Keeps at least one round of a series.
    pub(crate) fn new(
        series: Series,
        connections: usize,
        goal: Option<f64>,
        mut pairs: Vec<Pair>,
    ) -> Self {
        pairs.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
        Self {
            series,
            connections,
            goal,
            pairs,
        }
    }

    /// Returns the round with the median ratio.
    pub(crate) fn middle(&self) -> &Pair {
        &self.pairs[self.pairs.len() / 2]
    }

    fn range(&self) -> (f64, f64) {
        (
            self.pairs[0].ratio(),
            self.pairs[self.pairs.len() - 1].ratio(),
        )
    }

    fn name(&self) -> String {
        format!("{}_{}", self.series.name, self.connections)
    }

    fn sides(&self) -> [(&'static str, &Side); 2] {
        let Pair { ours, nginx } = self.middle();
        [("", ours), ("_nginx", nginx)]
    }
}
