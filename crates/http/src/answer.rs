//! Answers that nobody executed anything for: replays, and where to look for one.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use onceward::{Elsewhere, Ending, Replay, SlotId, Timestamp, Twin};
use std::cell::RefCell;
use std::time::{Duration, UNIX_EPOCH};

use crate::body::AnswerBody;
use crate::headers::{
    IDEMPOTENCY_EXPIRES, IDEMPOTENT_REPLAYED, PREFERENCE_APPLIED, REPEATABILITY_RESULT,
};
use crate::operations::OPERATIONS;
use crate::problem::{Problem, set_should_retry};
use crate::{Handled, Profile, snapshot};

/// Returns the first answer once more, or why it cannot be given.
pub(crate) fn replay<B>(
    replay: &Replay,
    profile: Profile,
    slot: SlotId,
) -> Result<Response<AnswerBody<B>>, Problem> {
    let mut snapshot = snapshot::read(&replay.outcome.head).map_err(|error| {
        tracing::error!(?slot, %error, "a stored answer cannot be read");
        Problem::StoreUnavailable
    })?;
    if replay.outcome.head.is_empty() && replay.outcome.ending == Ending::Failure {
        // Whoever settled it named no status, and a failure must not read as a success.
        snapshot.status = StatusCode::INTERNAL_SERVER_ERROR;
    }
    // An interim status is no answer, and 101 made a tunnel of a connection that is gone.
    let is_final = !snapshot.status.is_informational();
    let Some(body) = replay.outcome.body().filter(|_| is_final) else {
        return Err(Problem::AnswerNotKept {
            status: snapshot.status,
            location: snapshot.headers.get(header::LOCATION).cloned(),
        });
    };
    let mut response = Response::new(AnswerBody::whole(body.clone(), None));
    *response.status_mut() = snapshot.status;
    *response.headers_mut() = snapshot.headers;
    let headers = response.headers_mut();
    if let Some(trailers) = snapshot.trailers {
        announce(headers, &trailers);
        *response.body_mut() = AnswerBody::whole(body.clone(), Some(trailers));
    }
    let headers = response.headers_mut();
    headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    if snapshot.status.is_client_error() || snapshot.status.is_server_error() {
        // Some clients retry whatever carries it, and would only ever get this answer again.
        headers.remove(header::RETRY_AFTER);
    }
    if snapshot.status.is_server_error() {
        // Nearly every client retries a 5xx.
        set_should_retry(headers, false);
    }
    mark_kept(headers, replay.expires, profile);
    response.extensions_mut().insert(Handled {
        outcome: "replay",
        slot: Some(slot),
        attempt: 0,
    });
    Ok(response)
}

/// What the caller is told whose work stands under another key.
pub(crate) fn elsewhere(elsewhere: &Elsewhere, slot: SlotId) -> Problem {
    let rule = elsewhere.rule.clone();
    let replay = match &elsewhere.twin {
        Twin::Suspected => return Problem::SuspectedDuplicate { rule },
        Twin::Done(replay) => replay,
    };
    match snapshot::read(&replay.outcome.head) {
        Ok(snapshot) => Problem::AlreadyDone {
            rule,
            status: snapshot.status,
            location: snapshot.headers.get(header::LOCATION).cloned(),
        },
        Err(error) => {
            tracing::error!(?slot, %error, "a stored answer cannot be read");
            Problem::StoreUnavailable
        }
    }
}

/// Says until when the answer is kept.
pub(crate) fn mark_kept(headers: &mut HeaderMap, expires: Timestamp, profile: Profile) {
    if let Some(date) = date_of(expires) {
        headers.insert(IDEMPOTENCY_EXPIRES, date);
    }
    mark_accepted(headers, profile);
}

thread_local! {
    /// The date that was written last, and its second: many answers end in the same one.
    static WRITTEN: RefCell<Option<(u64, HeaderValue)>> = const { RefCell::new(None) };
}

/// A time as headers have it. One past the year 9999 cannot be written, and means never.
fn date_of(time: Timestamp) -> Option<HeaderValue> {
    let second = time.as_micros() / 1_000_000;
    WRITTEN.with_borrow_mut(|written| {
        if let Some((last, date)) = written
            && *last == second
        {
            return Some(date.clone());
        }
        let since = Duration::from_secs(second);
        let date = UNIX_EPOCH.checked_add(since)?;
        if since >= Duration::from_secs(253_402_300_800) {
            return None;
        }
        let date = HeaderValue::from_str(&httpdate::fmt_http_date(date)).ok()?;
        *written = Some((second, date.clone()));
        Some(date)
    })
}

/// Says that the request was executed, where callers are told so.
pub(crate) fn mark_accepted(headers: &mut HeaderMap, profile: Profile) {
    if profile == Profile::Oasis {
        headers.insert(REPEATABILITY_RESULT, HeaderValue::from_static("accepted"));
    }
}

/// Names the trailers in the head: HTTP/1.1 sends none that were not announced, and none after a
/// body of known length.
pub(crate) fn announce(headers: &mut HeaderMap, trailers: &HeaderMap) {
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::TRAILER);
    for name in trailers.keys() {
        headers.append(header::TRAILER, HeaderValue::from(name.clone()));
    }
}

/// Says that the work is under way, and where to look for its answer.
pub(crate) fn accepted<B>(slot: SlotId, preferred: bool) -> Response<AnswerBody<B>> {
    let location = format!("{OPERATIONS}{slot}");
    let body = serde_json::json!({ "status": "running", "operation": location });
    let mut response = Response::new(AnswerBody::from(Bytes::from(body.to_string())));
    *response.status_mut() = StatusCode::ACCEPTED;
    let headers = response.headers_mut();
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    if let Ok(location) = HeaderValue::from_str(&location) {
        headers.insert(header::LOCATION, location);
    }
    if preferred {
        let applied = HeaderValue::from_static("respond-async");
        headers.insert(PREFERENCE_APPLIED, applied);
    }
    response.extensions_mut().insert(Handled {
        outcome: "accepted",
        slot: Some(slot),
        attempt: 0,
    });
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[test]
    fn a_switch_of_protocols_is_not_repeated_on_another_connection() {
        let status = StatusCode::SWITCHING_PROTOCOLS;
        let stored = Replay {
            outcome: snapshot::outcome(status, &HeaderMap::new(), ""),
            completed: Timestamp::ZERO,
            expires: Timestamp::NEVER,
            copied: false,
        };
        let again = replay::<Full<Bytes>>(&stored, Profile::Ietf, SlotId::RESERVED);
        assert!(matches!(again, Err(Problem::AnswerNotKept { status: it, .. }) if it == status));
    }
}
