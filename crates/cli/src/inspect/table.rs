//! A record for people: a line per fact.

use std::time::Duration;

use onceward::{Found, Outcome, Record, State, Timestamp, record::Note};

use crate::{figures, show, utc};

/// A fact and its name.
type Line = [String; 2];

/// Returns the table of a record.
pub(super) fn of(found: &Found) -> String {
    let mut lines = work(found);
    lines.extend(times(found));
    lines.extend(writes(&found.record));
    lines.extend(leavings(&found.record));
    show::table(&lines)
}

/// Says which work this is, and how far it has come.
fn work(found: &Found) -> Vec<Line> {
    let record = &found.record;
    let mut lines = vec![
        line("slot", found.slot.to_string()),
        line("state", record.state.name().to_string()),
    ];
    if let State::Unknown(reason) = &record.state {
        lines.push(line("reason", show::plain(reason.as_str())));
    }
    if let Some(reservation) = record.reservation() {
        lines.extend([
            line("taken by", format!("slot {}", reservation.slot)),
            line("its generation", reservation.generation.to_string()),
            line("lasts", show::lasts(reservation.lasts)),
        ]);
    }
    lines.extend([
        line("tenant", show::plain(record.scope.tenant())),
        line("operation", show::plain(record.scope.operation())),
        line("effect", show::effect(record.effect)),
        line("attempt", record.attempt.to_string()),
    ]);
    lines
}

/// Says what happened when, and what will.
fn times(found: &Found) -> Vec<Line> {
    let record = &found.record;
    let mut lines = vec![
        line("began", show::moment(record.began(), found.now)),
        line("written", show::moment(record.written, found.now)),
        line("due", due(found)),
    ];
    if let State::Claimed(lease) = &record.state {
        lines.push(line("lease", figures::span(lease.length)));
    }
    if let Some(keep) = record.outcome().and_then(Outcome::keeps_body_for) {
        lines.push(line("body kept", figures::span(keep)));
    }
    lines.extend([
        line("retention", kept_for(Some(record.retention), "for ever")),
        line(
            "if unknown",
            kept_for(record.unknown_retention, "until it is settled"),
        ),
    ]);
    lines
}

/// Says which write this is.
fn writes(record: &Record) -> [Line; 3] {
    let mark = record.mark.map_or("none".into(), |mark| mark.to_string());
    [
        line("fence", record.fence.to_string()),
        line("mark", mark),
        line("generation", record.generation.to_string()),
    ]
}

/// Says what the work and its operators left.
fn leavings(record: &Record) -> Vec<Line> {
    let point = record.point.iter().map(|point| {
        let size = figures::bytes(point.data.len() as u128);
        line("point", format!("{}, {size}", show::plain(&point.name)))
    });
    let status = record.outcome().and_then(show::status);
    let status = status.map(|status| line("status", status.to_string()));
    let outcome = record.outcome().map(show::outcome);
    let outcome = outcome.map(|told| line("outcome", told));
    let notes = record.audit.iter().map(note);
    point.chain(status).chain(outcome).chain(notes).collect()
}

fn note(note: &Note) -> Line {
    let Note { deed, who, why, at } = note;
    let at = utc::rfc3339(*at).unwrap_or_default();
    let (who, why) = (show::plain(who), show::plain(why));
    line("note", format!("{at}  {} by {who}: {why}", deed.as_str()))
}

fn due(found: &Found) -> String {
    let due = found.record.due();
    match utc::rfc3339(due) {
        Some(date) => format!("{date}  {}", show::due(found)),
        None => show::due(found),
    }
}

/// Says how long something is kept, where a span that ends with time itself is endless.
fn kept_for(span: Option<Duration>, endless: &str) -> String {
    let span = span.filter(|span| Timestamp::ZERO + *span < Timestamp::NEVER);
    span.map_or_else(|| endless.into(), figures::span)
}

fn line(name: &str, fact: impl Into<String>) -> Line {
    [name.into(), fact.into()]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use onceward::testing::records;

    use super::*;

    fn shown(record: Record) -> String {
        of(&Found {
            slot: records::slot("s"),
            now: record.written + Duration::from_secs(65),
            record: Arc::new(record),
        })
    }

    /// Returns the facts under `name`.
    fn facts<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
        let lines = table.lines().filter_map(|line| line.split_once("  "));
        let facts = lines.filter(|(it, _)| *it == name);
        facts.map(|(_, fact)| fact.trim_start()).collect()
    }

    #[test]
    fn claim_shows_its_lease_and_when_it_lapses() {
        let table = shown(records::claimed(Duration::from_secs(77)));
        assert_eq!(facts(&table, "state"), ["claimed"]);
        assert_eq!(facts(&table, "lease"), ["1m 17s"]);
        let due = "1970-01-01T00:01:17.000001Z  lapses in 12s";
        assert_eq!(facts(&table, "due"), [due]);
        let written = "1970-01-01T00:00:00.000001Z  1m 5s ago";
        assert_eq!(facts(&table, "written"), [written]);
    }

    #[test]
    fn unknown_record_shows_why_and_that_it_stays() {
        let table = shown(records::unknown(None));
        assert_eq!(facts(&table, "reason"), ["the holder fell silent"]);
        assert_eq!(facts(&table, "due"), ["never"]);
        assert_eq!(facts(&table, "if unknown"), ["until it is settled"]);
    }

    #[test]
    fn outcome_is_measured_and_not_shown() {
        let table = shown(records::completed(Duration::MAX));
        assert_eq!(facts(&table, "outcome"), ["success, head 3 B, body 4 B"]);
        assert_eq!(facts(&table, "retention"), ["for ever"]);
        assert_eq!(facts(&table, "status"), [""; 0]);
    }

    #[test]
    fn a_reservation_says_for_which_work_and_how_long() {
        let record = records::reserved(records::LONG);
        let reservation = *record.reservation().unwrap();
        let table = shown(record);
        assert_eq!(facts(&table, "state"), ["reserved"]);
        let slot = format!("slot {}", reservation.slot);
        assert_eq!(facts(&table, "taken by"), [&*slot]);
        let generation = reservation.generation.to_string();
        assert_eq!(facts(&table, "its generation"), [&*generation]);
        assert_eq!(facts(&table, "lasts"), ["as long as that work is kept"]);
    }

    #[test]
    fn both_retentions_are_told() {
        let table = shown(records::shedding(Duration::from_secs(77)));
        assert_eq!(facts(&table, "state"), ["completed"]);
        assert_eq!(facts(&table, "body kept"), ["1m 17s"]);
        let due = "1970-01-01T00:01:17.000001Z  sheds its body in 12s";
        assert_eq!(facts(&table, "due"), [due]);
        assert_eq!(facts(&table, "retention").len(), 1);
    }

    #[test]
    fn answer_has_its_status() {
        let headers = http::HeaderMap::new();
        let answer = onceward_http::outcome(http::StatusCode::NOT_FOUND, &headers, "");
        let table = shown(Record {
            state: State::Completed(answer),
            ..records::completed(records::LONG)
        });
        assert_eq!(facts(&table, "status"), ["404"]);
    }

    #[test]
    fn points_and_notes_are_told() {
        let mut record = records::open(records::LONG);
        record.point = Some(Box::new(records::point(12)));
        record.audit.push(records::note("looked\nagain"));
        let table = shown(record);
        assert_eq!(facts(&table, "point"), ["charged, 12 B"]);
        assert_eq!(facts(&table, "mark"), ["none"]);
        let note = "2026-05-03T03:08:20.000000Z  not executed by operator@example.com: ";
        let notes = ["not in the ledger", "looked\\nagain"].map(|why| format!("{note}{why}"));
        assert_eq!(facts(&table, "note"), notes);
    }
}
