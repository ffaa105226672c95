//! A page of a list: a table for people once it is complete, or an object per record at once.

use onceward::{Found, SlotId};

use crate::{
    console::Console,
    exit::Failure,
    figures,
    show::{self, json::View},
};

/// What is printed of the records so far.
#[derive(Debug)]
pub(super) struct Page<'a> {
    console: &'a Console,
    json: bool,
    count: usize,
    rows: Vec<Row>,
}

/// A line of the table; how many digits its slot takes is known at the end.
#[derive(Debug)]
struct Row {
    slot: SlotId,
    cells: [String; COLUMNS - 1],
}

const COLUMNS: usize = 8;
const TITLES: [&str; COLUMNS] = [
    "slot",
    "state",
    "tenant",
    "operation",
    "attempt",
    "age",
    "due",
    "reason",
];

/// The digits of a slot that are shown at least.
const DIGITS_MIN: usize = 16;

/// How much of a name is shown. `inspect` shows all of it.
const NAME_WIDTH: usize = 40;
const REASON_WIDTH: usize = 80;

// === impl Page ===

impl<'a> Page<'a> {
    /// Returns a page without records.
    pub(super) fn new(console: &'a Console, json: bool) -> Self {
        Self {
            console,
            json,
            count: 0,
            rows: Vec::new(),
        }
    }

    /// Takes the next record.
    pub(super) fn add(&mut self, found: &Found) -> Result<(), Failure> {
        self.count += 1;
        if self.json {
            return self.console.json(&View::of(found));
        }
        self.rows.push(Row::of(found));
        Ok(())
    }

    /// Prints what is still to be printed, and returns how many records there were.
    pub(super) fn end(self) -> Result<usize, Failure> {
        if !self.rows.is_empty() {
            self.console.data(table(self.rows))?;
        }
        Ok(self.count)
    }
}

/// Returns the table, with its titles first.
fn table(rows: Vec<Row>) -> String {
    let slots: Vec<_> = rows.iter().map(|row| row.slot.to_string()).collect();
    let digits = digits(&slots);
    let titles = TITLES.map(str::to_owned);
    let lines = rows.into_iter().zip(slots).map(|(row, slot)| {
        let [state, tenant, operation, attempt, age, due, reason] = row.cells;
        let slot = slot[..digits].to_owned();
        [slot, state, tenant, operation, attempt, age, due, reason]
    });
    show::table(&std::iter::once(titles).chain(lines).collect::<Vec<_>>())
}

/// Returns how many digits tell the slots apart, which come in their order.
fn digits(slots: &[String]) -> usize {
    let shared = |one: &str, next: &str| {
        let pairs = one.bytes().zip(next.bytes());
        pairs.take_while(|(one, next)| one == next).count()
    };
    let neighbours = slots.windows(2).map(|pair| shared(&pair[0], &pair[1]) + 1);
    neighbours.fold(DIGITS_MIN, usize::max)
}

// === impl Row ===

impl Row {
    fn of(found: &Found) -> Self {
        let record = &found.record;
        let name = |text| show::cut(show::plain(text), NAME_WIDTH);
        Self {
            slot: found.slot,
            cells: [
                record.state.name().to_string(),
                name(record.scope.tenant()),
                name(record.scope.operation()),
                record.attempt.to_string(),
                figures::about(found.now.since(record.written)),
                show::due(found),
                show::cut(show::plain(&show::remark(record)), REASON_WIDTH),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use onceward::{Record, Scope, testing::records};

    use super::*;

    fn row(slot: &str, record: Record) -> Row {
        let now = record.written + Duration::from_secs(65);
        Row::of(&Found {
            slot: SlotId::from_hex(&format!("{slot:0<64}")).unwrap(),
            record: Arc::new(record),
            now,
        })
    }

    #[test]
    fn table_lines_up() {
        let lapsing = Record {
            scope: Scope::new("acct_42", "pay"),
            ..records::claimed(Duration::from_secs(77))
        };
        let rows = vec![row("01", lapsing), row("02", records::unknown(None))];
        assert_eq!(
            table(rows),
            "\
slot              state    tenant   operation  attempt  age    due            reason
0100000000000000  claimed  acct_42  pay        1        1m 5s  lapses in 12s
0200000000000000  unknown  tenant   operation  1        1m 5s  never          the holder fell silent
"
        );
    }

    #[test]
    fn reservations_and_suspects_name_the_other_slot() {
        let reserved = records::reserved(records::LONG);
        let other = reserved.reservation().unwrap().slot.to_string();
        let looks = format!("the same facts stand in slot {other}");
        let mut suspected = records::completed(records::LONG);
        suspected.audit.push(onceward::record::Note {
            deed: onceward::record::Deed::Suspected,
            ..records::note(&looks)
        });
        let table = table(vec![row("01", reserved), row("02", suspected)]);
        let lines: Vec<_> = table.lines().skip(1).collect();
        assert!(lines[0].contains("  reserved  "), "{table}");
        assert!(
            lines[0].contains(&format!("for slot {}", &other[..16])),
            "{table}"
        );
        assert!(lines[1].contains("the same facts stand in slot"), "{table}");
    }

    #[test]
    fn slots_are_shown_as_far_as_they_differ() {
        let slots = |names: &[&str]| -> Vec<_> {
            let padded = names.iter().map(|name| format!("{name:0<64}"));
            padded.collect()
        };
        assert_eq!(digits(&slots(&["01"])), DIGITS_MIN);
        assert_eq!(digits(&slots(&["01", "02"])), DIGITS_MIN);
        let alike = ["0", "0123456789abcdef01", "0123456789abcdef02", "f"];
        assert_eq!(digits(&slots(&alike)), 18);
    }

    #[test]
    fn caller_cannot_forge_a_line() {
        let record = Record {
            scope: Scope::new("a\u{2028}b\u{202e}c", &"o".repeat(1000)),
            ..records::unknown(None)
        };
        let table = table(vec![row("01", record)]);
        assert!(table.contains("a\\u{2028}b\\u{202e}c"), "{table}");
        assert!(table.lines().all(|line| line.chars().count() < 250));
    }
}
