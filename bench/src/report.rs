//! What a benchmark prints: a table for people, or one object for machines.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use tokio::signal::unix::{SignalKind, signal};

use crate::Failed;

/// Figures, in the order they were measured.
#[derive(Debug, Default)]
pub(crate) struct Report {
    sections: Vec<Section>,
    values: Map<String, Value>,
}

#[derive(Debug)]
struct Section {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Measures, and prints the figures unless somebody ends it before.
pub(crate) fn print(
    json: bool,
    measure: impl AsyncFnOnce(&mut Report) -> Result<(), Failed>,
) -> Result<(), Failed> {
    let mut report = Report::default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut ended = signal(SignalKind::terminate())?;
        tokio::select! {
            measured = measure(&mut report) => measured,
            // Dropping what is measured ends its processes.
            _ = ended.recv() => Err("terminated".into()),
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        }
    })?;
    report.print(json);
    Ok(())
}

// === impl Report ===

impl Report {
    /// Starts a table.
    pub(crate) fn table(&mut self, title: &str, head: &[&str]) {
        self.sections.push(Section {
            title: title.to_owned(),
            head: head.iter().map(|&cell| cell.to_owned()).collect(),
            rows: Vec::new(),
        });
    }

    /// Adds a row to the last table.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let last = self.sections.last_mut().expect("a table was started");
        last.rows.push(cells.into_iter().collect());
    }

    /// Names a figure for machines.
    pub(crate) fn value(&mut self, name: &str, value: impl Into<Value>) {
        self.values.insert(name.to_owned(), value.into());
    }

    /// Prints the figures on stdout.
    pub(crate) fn print(self, json: bool) {
        match json {
            true => println!("{}", Value::Object(self.values)),
            false => print!("{}", self.text()),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for section in &self.sections {
            let rows = || std::iter::once(&section.head).chain(&section.rows);
            let columns = section.head.len();
            let width = |column: usize| rows().map(|row| row[column].chars().count()).max();
            let widths: Vec<_> = (0..columns).filter_map(width).collect();
            let _ = writeln!(text, "\n{}", section.title);
            for row in rows() {
                let cells = row.iter().zip(&widths).enumerate();
                let line = cells.fold(
                    String::new(),
                    |line, (column, (cell, &width))| match column {
                        0 => format!("  {cell:<width$}"),
                        _ => format!("{line}  {cell:>width$}"),
                    },
                );
                let _ = writeln!(text, "{}", line.trim_end());
            }
        }
        text
    }
}

/// Rounds to three digits that mean something.
pub(crate) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powf(2.0 - value.abs().log10().floor());
    (value * scale).round() / scale
}

/// A rate in thousands per second.
pub(crate) fn thousands(per_second: f64) -> String {
    format!("{:.1}k/s", per_second / 1e3)
}

/// A span in milliseconds.
pub(crate) fn millis(micros: u64) -> String {
    format!("{:.2} ms", micros as f64 / 1e3)
}
