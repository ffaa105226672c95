//! The table that a tally prints.

use std::fmt;

use super::{Row, Tally};

const HEAD: [&str; 5] = ["proof", "trials", "violations", "bound", "note"];

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![HEAD.map(str::to_owned)];
        lines.extend(self.rows.iter().map(cells));
        let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max();
        let widths: Vec<usize> = (0..HEAD.len()).filter_map(width).collect();
        for [proof, trials, violations, bound, note] in &lines {
            let line = format!(
                "{proof:<0$}  {trials:>1$}  {violations:>2$}  {bound:<3$}  {note}",
                widths[0], widths[1], widths[2], widths[3],
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn cells(row: &Row) -> [String; 5] {
    [
        row.proof.clone(),
        grouped(row.trials),
        grouped(row.violations),
        bound(row),
        note(row),
    ]
}

/// Returns what the trials allow to say, and no more: after N clean ones, a violation is rarer
/// than 3 in N per trial, at 95 %.
fn bound(row: &Row) -> String {
    if row.is_clean() {
        format!("p < 3/{}", grouped(row.trials))
    } else {
        "none".to_owned()
    }
}

fn note(row: &Row) -> String {
    let seeds = row
        .seeds
        .iter()
        .map(|seeds| format!("seeds {}..{}", seeds.start, seeds.end));
    let note = Some(row.note.clone()).filter(|note| !note.is_empty());
    note.into_iter().chain(seeds).collect::<Vec<_>>().join("; ")
}

/// Returns a number with a comma before every third digit.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lines_up() {
        let mut tally = Tally::default();
        tally.add(Row {
            proof: "simulation".to_owned(),
            trials: 1_000_000,
            seeds: vec![0..1000, 5000..6000],
            violations: 0,
            note: "11 years".to_owned(),
        });
        tally.add(Row {
            proof: "kill -9".to_owned(),
            trials: 3000,
            violations: 1,
            ..Row::default()
        });

        let known = "\
proof          trials  violations  bound            note
kill -9         3,000           1  none
simulation  1,000,000           0  p < 3/1,000,000  11 years; seeds 0..1000; seeds 5000..6000
";
        assert_eq!(tally.to_string(), known);
    }

    #[test]
    fn a_proof_without_trials_has_no_bound() {
        assert_eq!(bound(&Row::default()), "none");
    }

    #[test]
    fn digits_are_grouped_by_three() {
        let numbers = [0, 999, 1000, 123_456, 1_234_567];
        let known = ["0", "999", "1,000", "123,456", "1,234,567"];
        assert_eq!(numbers.map(grouped), known);
    }
}
