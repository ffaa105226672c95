//! A record for machines: one object, with all that is known of it but the outcome's bytes.

use std::time::Duration;

use onceward::{
    Body, Fence, Found, Outcome, Record, State, Timestamp,
    record::{Lasts, Note, Point, Reservation},
};
use serde::{Serialize, Serializer};

use super::{effect, ending};
use crate::{figures::Figure, utc};

/// A record as `list` and `inspect` give it with `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct View<'a> {
    slot: String,
    state: &'static str,
    reason: Option<&'a str>,
    tenant: &'a str,
    operation: &'a str,
    effect: &'static str,
    attempt: u32,
    began: Moment,
    written: Moment,
    /// When a claim lapses and everything else expires; null is never.
    due: Moment,
    /// The store's clock when it was read.
    now: Moment,
    lease_s: Option<Figure>,
    retention_s: Option<Figure>,
    /// How long the body is kept, if not as long as the rest.
    keep_body_s: Option<Figure>,
    unknown_retention_s: Option<Figure>,
    fence: String,
    mark: Option<String>,
    generation: String,
    point: Option<PointView<'a>>,
    /// The HTTP status of the answer, if the outcome is one.
    status: Option<u16>,
    outcome: Option<OutcomeView>,
    /// Which work has taken the business identity that this stands for.
    reservation: Option<ReservationView>,
    notes: Vec<NoteView<'a>>,
}

/// A moment as RFC 3339 writes it, or null where it never comes.
#[derive(Debug)]
struct Moment(Timestamp);

#[derive(Debug, Serialize)]
struct PointView<'a> {
    name: &'a str,
    bytes: usize,
}

#[derive(Debug, Serialize)]
struct OutcomeView {
    ending: &'static str,
    head_bytes: usize,
    body_bytes: u64,
    body_kept: bool,
}

#[derive(Debug, Serialize)]
struct ReservationView {
    slot: String,
    generation: String,
    /// Whether it is for as long as that work is kept, or for a window.
    lasts: &'static str,
}

#[derive(Debug, Serialize)]
struct NoteView<'a> {
    deed: &'static str,
    who: &'a str,
    why: &'a str,
    at: Moment,
}

// === impl View ===

impl<'a> View<'a> {
    /// Returns the view of a record that was found.
    pub(crate) fn of(found: &'a Found) -> Self {
        let record: &Record = &found.record;
        let (reason, lease) = match &record.state {
            State::Unknown(reason) => (Some(reason.as_str()), None),
            State::Claimed(lease) => (None, Some(lease.length)),
            State::Completed(_) | State::Open | State::Reserved(_) => (None, None),
        };
        Self {
            slot: found.slot.to_string(),
            state: record.state.name().as_str(),
            reason,
            tenant: record.scope.tenant(),
            operation: record.scope.operation(),
            effect: effect(record.effect),
            attempt: record.attempt,
            began: Moment(record.began()),
            written: Moment(record.written),
            due: Moment(record.due()),
            now: Moment(found.now),
            lease_s: seconds(lease),
            retention_s: seconds(Some(record.retention)),
            keep_body_s: seconds(record.outcome().and_then(Outcome::keeps_body_for)),
            unknown_retention_s: seconds(record.unknown_retention),
            fence: record.fence.to_string(),
            mark: record.mark.as_ref().map(Fence::to_string),
            generation: record.generation.to_string(),
            point: record.point.as_deref().map(PointView::of),
            status: record.outcome().and_then(super::status),
            outcome: record.outcome().map(OutcomeView::of),
            reservation: record.reservation().map(ReservationView::of),
            notes: record.audit.iter().map(NoteView::of).collect(),
        }
    }
}

/// Returns a span in seconds, or `None` where it is endless.
fn seconds(span: Option<Duration>) -> Option<Figure> {
    // Stores keep microseconds, so the longest span does not come back as it went.
    let endless = Duration::from_micros(u64::MAX);
    let span = span.filter(|span| *span < endless)?;
    Some(Figure(span.as_secs_f64()))
}

// === impl Moment ===

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        utc::rfc3339(self.0).serialize(serializer)
    }
}

// === impl PointView ===

impl<'a> PointView<'a> {
    fn of(point: &'a Point) -> Self {
        Self {
            name: &point.name,
            bytes: point.data.len(),
        }
    }
}

// === impl OutcomeView ===

impl OutcomeView {
    fn of(outcome: &Outcome) -> Self {
        let (body_bytes, body_kept) = match &outcome.body {
            Body::Kept(bytes) | Body::KeptFor { bytes, .. } => (bytes.len() as u64, true),
            Body::NotKept { len, .. } => (*len, false),
        };
        Self {
            ending: ending(outcome.ending),
            head_bytes: outcome.head.len(),
            body_bytes,
            body_kept,
        }
    }
}

// === impl ReservationView ===

impl ReservationView {
    fn of(reservation: &Reservation) -> Self {
        Self {
            slot: reservation.slot.to_string(),
            generation: reservation.generation.to_string(),
            lasts: match reservation.lasts {
                Lasts::Work => "work",
                Lasts::Window => "window",
            },
        }
    }
}

// === impl NoteView ===

impl<'a> NoteView<'a> {
    fn of(note: &'a Note) -> Self {
        Self {
            deed: note.deed.as_str(),
            who: &note.who,
            why: &note.why,
            at: Moment(note.at),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use onceward::testing::records;
    use serde_json::{Value, json};

    use super::*;

    fn shown(record: Record) -> Value {
        let now = Timestamp::from_micros(1_777_777_777_000_000);
        let found = Found {
            slot: records::slot("s"),
            record: Arc::new(record),
            now,
        };
        serde_json::to_value(View::of(&found)).unwrap()
    }

    #[test]
    fn claim_has_its_lease_and_its_fences() {
        let record = records::claimed(Duration::from_millis(1500));
        let fence = record.fence.to_string();
        let view = shown(record);
        assert_eq!(view["slot"], records::slot("s").to_string());
        assert_eq!(view["state"], "claimed");
        assert_eq!(view["lease_s"], 1.5);
        assert_eq!(view["fence"], json!(fence));
        assert_eq!(view["mark"], json!(fence));
        assert_eq!(view["written"], "1970-01-01T00:00:00.000001Z");
        assert_eq!(view["due"], "1970-01-01T00:00:01.500001Z");
        assert_eq!(view["now"], "2026-05-03T03:09:37.000000Z");
        assert_eq!(view["outcome"], Value::Null);
    }

    #[test]
    fn unknown_record_says_why_and_never_comes_due() {
        let view = shown(records::unknown(None));
        assert_eq!(view["reason"], "the holder fell silent");
        assert_eq!(view["due"], Value::Null);
        assert_eq!(view["unknown_retention_s"], Value::Null);
    }

    #[test]
    fn outcome_is_measured_and_not_shown() {
        let view = shown(records::completed(Duration::MAX));
        let outcome = json!({
            "ending": "success", "head_bytes": 3, "body_bytes": 4, "body_kept": true,
        });
        assert_eq!(view["outcome"], outcome);
        assert_eq!(view["status"], Value::Null);
        assert_eq!(view["retention_s"], Value::Null);
        assert!(!view.to_string().contains("done"), "{view}");
    }

    #[test]
    fn a_reservation_names_the_work_and_a_body_its_own_time() {
        let record = records::reserved(records::LONG);
        let reservation = *record.reservation().unwrap();
        let view = shown(record);
        assert_eq!(view["state"], "reserved");
        let wanted = json!({
            "slot": reservation.slot.to_string(),
            "generation": reservation.generation.to_string(),
            "lasts": "work",
        });
        assert_eq!(view["reservation"], wanted);
        assert_eq!(view["keep_body_s"], Value::Null);
        let view = shown(records::shedding(Duration::from_secs(60)));
        assert_eq!(
            (&view["state"], &view["keep_body_s"]),
            (&json!("completed"), &json!(60))
        );
    }

    #[test]
    fn answer_has_its_status() {
        let headers = http::HeaderMap::new();
        let answer = onceward_http::outcome(http::StatusCode::CREATED, &headers, "{}");
        let view = shown(Record {
            state: State::Completed(answer),
            ..records::completed(records::LONG)
        });
        assert_eq!(view["status"], 201);
    }

    #[test]
    fn notes_and_points_are_told() {
        let record = Record {
            point: Some(Box::new(records::point(12))),
            ..records::open(records::LONG)
        };
        let view = shown(record);
        assert_eq!(view["point"], json!({"name": "charged", "bytes": 12}));
        assert_eq!(view["mark"], Value::Null);
        let note = &view["notes"][0];
        assert_eq!(note["deed"], "not executed");
        assert_eq!(note["who"], "operator@example.com");
        assert_eq!(note["why"], "not in the ledger");
        assert_eq!(note["at"], "2026-05-03T03:08:20.000000Z");
    }
}
