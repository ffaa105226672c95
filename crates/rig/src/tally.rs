//! Tallies: how many trials every proof has made, and how many broke the promise.
//!
//! Proofs run in many processes. Each adds its lines to one file, and `onceward-tally` reads them
//! as one table, which is all that a clean run has to show for itself.

mod table;

use std::{
    env,
    fs::OpenOptions,
    io::{self, BufRead, Write},
    ops::Range,
    path::Path,
};

use serde::{Deserialize, Serialize};

/// The environment variable that names the file. Without it nothing is counted.
pub const FILE_VAR: &str = "ONCEWARD_TALLY";

/// One row of the table: a proof, and the sum of its trials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// What was proved.
    pub proof: String,
    /// How often it was tried.
    pub trials: u64,
    /// The seeds that were tried, if the trials have seeds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seeds: Vec<Range<u64>>,
    /// How often the promise was broken.
    pub violations: u64,
    /// What a reader should know about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// The rows of a run, one per proof, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The rows.
    pub rows: Vec<Row>,
}

/// Why a file is not a tally.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A line is not a row.
    #[error("line {line} is not a row of a tally")]
    Line {
        /// Counted from one.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },

    /// The file could not be read to its end.
    #[error("tally cannot be read")]
    Io(#[from] io::Error),
}

// === impl Row ===

impl Row {
    /// Adds the trials of another row of the same proof.
    pub fn merge(&mut self, other: Self) {
        self.trials += other.trials;
        self.violations += other.violations;
        self.seeds.extend(other.seeds);
        join(&mut self.seeds);
        if !other.note.is_empty() && !self.note.split("; ").any(|note| note == other.note) {
            let between = if self.note.is_empty() { "" } else { "; " };
            self.note = format!("{}{between}{}", self.note, other.note);
        }
    }

    /// Whether it shows anything, and nothing bad.
    pub fn is_clean(&self) -> bool {
        self.trials > 0 && self.violations == 0
    }
}

// === impl Tally ===

impl Tally {
    /// Adds a row to the file that [`FILE_VAR`] names; does nothing if it names none.
    ///
    /// # Panics
    ///
    /// Panics if the file cannot be written: a proof that was not counted has not been made.
    pub fn record(
        proof: &str,
        trials: u64,
        seeds: Option<Range<u64>>,
        violations: u64,
        note: &str,
    ) {
        let Some(file) = env::var_os(FILE_VAR) else {
            return;
        };
        let row = Row {
            proof: proof.to_owned(),
            trials,
            seeds: seeds.into_iter().collect(),
            violations,
            note: note.to_owned(),
        };
        append(Path::new(&file), &row).expect("the file of the tally can be written");
    }

    /// Reads rows, one JSON object per line, and merges those of one proof.
    pub fn read(reader: impl BufRead) -> Result<Self, ReadError> {
        let mut tally = Self::default();
        for (at, line) in reader.lines().enumerate() {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            let row = serde_json::from_str(&line).map_err(|source| ReadError::Line {
                line: at + 1,
                source,
            })?;
            tally.add(row);
        }
        Ok(tally)
    }

    /// Adds a row, or its trials to the row of the same proof.
    pub fn add(&mut self, row: Row) {
        match self.rows.binary_search_by(|it| it.proof.cmp(&row.proof)) {
            Ok(at) => self.rows[at].merge(row),
            Err(at) => self.rows.insert(at, row),
        }
    }

    /// Whether there is something to show, and nothing bad.
    pub fn is_clean(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(Row::is_clean)
    }
}

/// Writes a row in one call at the end of the file, so that processes do not cut into each other.
fn append(file: &Path, row: &Row) -> io::Result<()> {
    let mut line = serde_json::to_vec(row)?;
    line.push(b'\n');
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    file.write_all(&line)
}

/// Joins seeds that touch or overlap.
fn join(seeds: &mut Vec<Range<u64>>) {
    seeds.sort_by_key(|range| range.start);
    seeds.dedup_by(|next, range| {
        let touches = next.start <= range.end;
        if touches {
            range.end = range.end.max(next.end);
        }
        touches
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(proof: &str, trials: u64, seeds: Range<u64>, note: &str) -> Row {
        Row {
            proof: proof.to_owned(),
            trials,
            seeds: vec![seeds],
            violations: 0,
            note: note.to_owned(),
        }
    }

    #[test]
    fn rows_of_one_proof_are_one_row() {
        let mut tally = Tally::default();
        tally.add(row("model", 5, 0..5, "3 workers"));
        tally.add(row("crash", 7, 0..7, ""));
        tally.add(row("model", 3, 5..8, "3 workers"));
        tally.add(row("model", 1, 20..21, "4 workers"));

        let model = Row {
            seeds: vec![0..8, 20..21],
            ..row("model", 9, 0..0, "3 workers; 4 workers")
        };
        assert_eq!(tally.rows, [row("crash", 7, 0..7, ""), model]);
    }

    #[test]
    fn violations_add_up() {
        let mut clean = row("model", 5, 0..5, "");
        assert!(clean.is_clean());

        clean.merge(Row {
            violations: 2,
            ..row("model", 5, 5..10, "")
        });
        assert_eq!((clean.violations, clean.is_clean()), (2, false));
    }

    #[test]
    fn nothing_tried_is_nothing_shown() {
        assert!(!Tally::default().is_clean());
        assert!(!row("model", 0, 0..0, "").is_clean());
    }

    #[test]
    fn rows_written_by_many_at_once_read_back_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let long = "a note that is long enough to be cut in two ".repeat(50);
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let (long, path) = (&long, file.path());
                scope.spawn(move || {
                    for _ in 0..50 {
                        append(path, &row(&format!("proof {writer}"), 1, 0..1, long)).unwrap();
                    }
                });
            }
        });

        let tally = Tally::read(io::BufReader::new(file.reopen().unwrap())).unwrap();
        let trials: Vec<u64> = tally.rows.iter().map(|row| row.trials).collect();
        assert_eq!(trials, [50; 8]);
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        let error = Tally::read("\n{\"proof\": 3}\n".as_bytes()).unwrap_err();

        assert_eq!(error.to_string(), "line 2 is not a row of a tally");
    }
}
