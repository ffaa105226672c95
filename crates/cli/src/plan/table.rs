//! The plan for people: an aligned table.

use std::fmt::Write as _;

use super::capacity::{Capacity, Load, OVERHEAD};
use crate::figures;

/// What is planned, how much of it, and where the number comes from.
struct Row {
    what: &'static str,
    amount: String,
    note: String,
}

/// Returns the table, a line per row.
pub(super) fn of(load: &Load, capacity: &Capacity) -> String {
    let needs = needs(load, capacity);
    let bytes = bytes(load, capacity);
    let rows = || needs.iter().chain(&bytes);
    let width = |of: fn(&Row) -> usize| rows().map(of).max().unwrap_or_default();
    let label = width(|row| row.what.len());
    let figure = width(|row| row.amount.len());

    let line = |row: &Row| {
        let Row { what, amount, note } = row;
        format!("{what:label$}  {amount:>figure$}  {note}\n")
    };
    let lines = |rows: &[Row]| rows.iter().map(line).collect::<String>();
    format!("{}\nbytes (estimate)\n{}", lines(&needs), lines(&bytes))
}

/// Returns the rows that hold for every store.
fn needs(load: &Load, capacity: &Capacity) -> Vec<Row> {
    let bodies = capacity.bodies.map(|bodies| {
        Row::new(
            "with bodies",
            figures::grouped(bodies.records),
            format!("of them, which are younger than {}", kept(load)),
        )
    });
    let mut rows = vec![
        Row::new("retention", figures::seconds(load.retention), reason(load)),
        Row::new(
            "records",
            figures::grouped(capacity.records),
            format!(
                "{} at a time, and {} margin",
                figures::grouped(capacity.records_steady),
                load.margin
            ),
        ),
        Row::new(
            "originals",
            format!("{}/s", capacity.originals_per_s.text()),
            format!("of {} requests/s", load.rate),
        ),
        Row::new(
            "duplicates",
            format!("{}/s", capacity.duplicates_per_s.text()),
            format!(
                "{} of requests; {} in 10 minutes",
                load.duplicates,
                capacity.duplicates_in_10_min.text()
            ),
        ),
        Row::new(
            "collision risk",
            capacity.collision_probability.text(),
            format!("that two random keys are equal, {} bits", load.key_bits),
        ),
    ];
    rows.splice(2..2, bodies);
    rows
}

fn kept(load: &Load) -> String {
    load.keep_body.map(figures::seconds).unwrap_or_default()
}

/// Says where the retention comes from.
fn reason(load: &Load) -> String {
    let window = &load.window;
    let needed = window.retention();
    if load.retention != needed {
        return format!("as given; callers need {}", figures::seconds(needed));
    }
    format!(
        "{}: deadline {} + retry horizon {} + network {} + clock {}",
        figures::span(needed),
        figures::seconds(window.deadline),
        figures::seconds(window.retry_horizon),
        figures::seconds(window.network),
        figures::seconds(window.clock),
    )
}

/// Returns a row for each store.
fn bytes(load: &Load, capacity: &Capacity) -> Vec<Row> {
    let overheads = OVERHEAD.by_store();
    let stayed = capacity.bodies.iter();
    let stayed: Vec<_> = stayed
        .flat_map(|bodies| bodies.bytes_if_they_stayed.by_store())
        .collect();
    let totals = capacity.bytes.by_store().into_iter();
    totals
        .zip(overheads)
        .map(|((store, total), (_, overhead))| {
            let each = figures::bytes(overhead);
            let answer = figures::bytes(load.answer.into());
            let mut note = format!("{each} a record, and an answer of {answer}");
            if let Some(stayed) = stayed.iter().find(|(name, _)| *name == store) {
                let _ = write!(note, "; {} if bodies stayed", figures::bytes(stayed.1));
            }
            Row::new(store, figures::bytes(total), note)
        })
        .collect()
}

// === impl Row ===

impl Row {
    fn new(what: &'static str, amount: String, note: String) -> Self {
        Self { what, amount, note }
    }
}
