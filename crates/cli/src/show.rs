//! How a record is shown to people: in words, and without anything that a terminal would obey.
//!
//! Keys are not stored, so they cannot be shown; bodies are left to `onceward inspect --body`.

use onceward::record::{Deed, Lasts, Note};
use onceward::{Body, Effect, Ending, Found, Outcome, Record, State, Timestamp};

use crate::{figures, utc};

pub(crate) mod json;

/// Says when something is to be done about the record: `lapses in 12s`, `expired 2h ago`.
pub(crate) fn due(found: &Found) -> String {
    let (due, now) = (found.record.due(), found.now);
    if due == Timestamp::NEVER {
        return "never".into();
    }
    let (comes, came) = match found.record.state {
        State::Claimed(_) => ("lapses", "lapsed"),
        State::Completed(ref outcome) if outcome.keeps_body_for().is_some() => {
            ("sheds its body", "was to shed its body")
        }
        State::Completed(_) | State::Unknown(_) | State::Open => ("expires", "expired"),
        State::Reserved(_) => ("is reviewed", "was to be reviewed"),
    };
    match due > now {
        true => format!("{comes} in {}", figures::about(due.since(now))),
        false => format!("{came} {} ago", figures::about(now.since(due))),
    }
}

/// Says when something happened, and how long ago that is.
pub(crate) fn moment(at: Timestamp, now: Timestamp) -> String {
    match utc::rfc3339(at) {
        Some(date) => format!("{date}  {} ago", figures::about(now.since(at))),
        None => "never".into(),
    }
}

/// Returns why nobody knows, or nothing where somebody does.
pub(crate) fn reason(record: &Record) -> &str {
    match &record.state {
        State::Unknown(reason) => reason.as_str(),
        State::Claimed(_) | State::Completed(_) | State::Open | State::Reserved(_) => "",
    }
}

/// Returns what else there is to say in a line: why nobody knows, or which other slot there is.
pub(crate) fn remark(record: &Record) -> String {
    if let Some(reservation) = record.reservation() {
        let slot = reservation.slot.to_string();
        return format!("for slot {}", &slot[..16]);
    }
    let suspicion = record.audit.iter().find(|note| is_suspicion(note));
    match (reason(record), suspicion) {
        ("", Some(note)) => note.why.to_string(),
        (reason, _) => reason.to_owned(),
    }
}

/// Whether the work was let pass although it looked like that in another slot.
pub(crate) fn is_suspected(record: &Record) -> bool {
    record.audit.iter().any(is_suspicion)
}

fn is_suspicion(note: &Note) -> bool {
    note.deed == Deed::Suspected
}

/// Says how long a business identity stays taken.
pub(crate) const fn lasts(lasts: Lasts) -> &'static str {
    match lasts {
        Lasts::Work => "as long as that work is kept",
        Lasts::Window => "until it is due",
    }
}

/// Returns the name of an effect's class, as configurations write it.
pub(crate) const fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Repeatable => "repeatable",
        Effect::Transactional => "transactional",
        Effect::Keyed => "keyed",
        Effect::Probed => "probed",
        Effect::Opaque => "opaque",
    }
}

/// Returns how work ended, in a word.
pub(crate) const fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Success => "success",
        Ending::Failure => "failure",
    }
}

/// Says what is known of an outcome without showing any of it.
pub(crate) fn outcome(outcome: &Outcome) -> String {
    let head = figures::bytes(outcome.head.len() as u128);
    let body = match &outcome.body {
        Body::Kept(bytes) | Body::KeptFor { bytes, .. } => figures::bytes(bytes.len() as u128),
        Body::NotKept { len, .. } => {
            format!("{}, not kept", figures::bytes((*len).into()))
        }
    };
    format!("{}, head {head}, body {body}", ending(outcome.ending))
}

/// Returns the HTTP status of an outcome that is an answer.
pub(crate) fn status(outcome: &Outcome) -> Option<u16> {
    onceward_http::status_of(outcome).map(|status| status.as_u16())
}

/// Returns `text` with what a terminal would obey, or not show, written out.
///
/// Tenants and operations come from callers: one could otherwise rewrite an operator's screen.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\'' => plain.push(c),
            _ => plain.extend(c.escape_debug()),
        }
    }
    plain
}

/// Returns at most `width` characters of `text`, the last of which says that there were more.
pub(crate) fn cut(text: String, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text,
        Some(_) => text.chars().take(width - 1).chain(['\u{2026}']).collect(),
    }
}

/// Returns `rows` with their columns aligned, two spaces apart and none at the end of a line.
pub(crate) fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [_; N] = std::array::from_fn(|column| width(column).unwrap_or_default());
    let mut table = String::new();
    for row in rows {
        let cells = row.iter().zip(widths);
        let line: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        table.push_str(line.join("  ").trim_end());
        table.push('\n');
    }
    table
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use onceward::testing::records;

    use super::*;

    fn seen(record: Record, after: Duration) -> Found {
        let now = record.written + after;
        Found {
            slot: records::slot("s"),
            record: Arc::new(record),
            now,
        }
    }

    #[test]
    fn due_is_said_in_the_words_of_the_state() {
        let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3600));
        for (record, at, said) in [
            (
                records::claimed(minute),
                Duration::from_secs(48),
                "lapses in 12s",
            ),
            (records::claimed(minute), minute, "lapsed 0s ago"),
            (records::completed(hour), minute, "expires in 59m"),
            (records::open(hour), 2 * hour, "expired 1h ago"),
            (records::unknown(Some(hour)), minute, "expires in 59m"),
            (records::unknown(None), 1000 * hour, "never"),
            (records::shedding(hour), minute, "sheds its body in 59m"),
            (records::reserved(hour), minute, "is reviewed in 59m"),
        ] {
            assert_eq!(due(&seen(record, at)), said);
        }
    }

    #[test]
    fn outcome_is_told_by_its_lengths() {
        let kept = Outcome::failure("4242").with_head("alice");
        assert_eq!(outcome(&kept), "failure, head 5 B, body 4 B");
        let cut = Outcome::success(vec![0; 2048]).keeping(1);
        assert_eq!(outcome(&cut), "success, head 0 B, body 2 KiB, not kept");
    }

    #[test]
    fn text_cannot_move_the_cursor() {
        let text = "a\u{1b}[2J\r\nb\u{202e}c \"d\" \\ caf\u{e9}";
        let shown = plain(text);
        assert_eq!(shown, "a\\u{1b}[2J\\r\\nb\\u{202e}c \"d\" \\\\ caf\u{e9}");
        assert!(!shown.contains(char::is_control));
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(cut("caf\u{e9}s".into(), 5), "caf\u{e9}s");
        assert_eq!(cut("caf\u{e9}s!".into(), 5), "caf\u{e9}\u{2026}");
    }

    #[test]
    fn columns_are_aligned_by_characters() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        let rows = [row(["a", "\u{e9}\u{e9}", "x"]), row(["bbb", "c", ""])];
        assert_eq!(table(&rows), "a    \u{e9}\u{e9}  x\nbbb  c\n");
    }
}
