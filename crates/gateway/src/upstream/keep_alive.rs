//! Whether, and for how long, the connection that an answer came on may be used again.

use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName};
use http::{Response, StatusCode, Version};

/// The last part of the time that a server says it keeps an idle connection. A request sent then
/// may cross the server's close on the way.
const MARGIN: Duration = Duration::from_secs(1);

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// Returns how long the connection may rest after this answer, at most `idle_max`, or `None` if
/// it is not to be used again.
///
/// What the connection itself knows (a close asked for, a request half written) is not looked at
/// here: this is about the head of the answer.
pub(super) fn good_for<B>(answer: &Response<B>, idle_max: Duration) -> Option<Duration> {
    // To a peer that spoke HTTP/1.0 a chunked request would be sent without its body.
    if answer.version() != Version::HTTP_11 || has_ambiguous_framing(answer) {
        return None;
    }
    let hint = hint(answer.headers()).unwrap_or(Duration::MAX);
    let good_for = hint.saturating_sub(MARGIN).min(idle_max);
    (good_for > Duration::ZERO).then_some(good_for)
}

/// Whether two readers could disagree on where the answer ends.
fn has_ambiguous_framing<B>(answer: &Response<B>) -> bool {
    let headers = answer.headers();
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let (length, coding) = (lengths.next(), codings.next());
    let is_repeated = lengths.next().is_some() || codings.next().is_some();
    let is_both = length.is_some() && coding.is_some();
    let is_odd = coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    let says_body = coding.is_some() || length.is_some_and(|length| length != "0");
    let is_contradicted = answer.status() == StatusCode::NO_CONTENT && says_body;
    is_repeated || is_both || is_odd || is_contradicted
}

/// The `timeout` of the `Keep-Alive` field: how long the server keeps an idle connection.
fn hint(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(KEEP_ALIVE)?.to_str().ok()?;
    let timeout = value.split(',').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_timeout = name.trim().eq_ignore_ascii_case("timeout");
        is_timeout.then_some(value.trim().trim_matches('"'))
    })?;
    // A hint that cannot be read is no promise at all.
    Some(Duration::from_secs(timeout.parse().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn answer(fields: &[(&'static str, &'static str)]) -> Response<()> {
        let mut answer = Response::new(());
        for (name, value) in fields {
            answer.headers_mut().append(
                HeaderName::from_static(name),
                header::HeaderValue::from_static(value),
            );
        }
        answer
    }

    fn seconds(fields: &[(&'static str, &'static str)]) -> Option<u64> {
        good_for(&answer(fields), MINUTE).map(|span| span.as_secs())
    }

    #[test]
    fn the_hint_counts_less_a_second_and_the_settings_are_the_limit() {
        assert_eq!(seconds(&[]), Some(60));
        assert_eq!(seconds(&[("keep-alive", "timeout=5, max=100")]), Some(4));
        assert_eq!(
            seconds(&[("keep-alive", "max=9, Timeout = \"5\"")]),
            Some(4)
        );
        assert_eq!(seconds(&[("keep-alive", "timeout=500")]), Some(60));
        assert_eq!(seconds(&[("keep-alive", "max=100")]), Some(60));
    }

    #[test]
    fn a_hint_too_short_or_unreadable_forbids_reuse() {
        for hint in ["timeout=1", "timeout=0", "timeout=soon", "timeout=-3"] {
            assert_eq!(seconds(&[("keep-alive", hint)]), None, "{hint}");
        }
    }

    #[test]
    fn ambiguous_framing_forbids_reuse() {
        let (length, coding) = ("content-length", "transfer-encoding");
        assert_eq!(seconds(&[(length, "3")]), Some(60));
        assert_eq!(seconds(&[(coding, "Chunked")]), Some(60));
        assert_eq!(seconds(&[(length, "3"), (coding, "chunked")]), None);
        assert_eq!(seconds(&[(length, "3"), (length, "3")]), None);
        assert_eq!(seconds(&[(coding, "chunked"), (coding, "chunked")]), None);
        assert_eq!(seconds(&[(coding, "gzip, chunked")]), None);
    }

    #[test]
    fn a_204_that_speaks_of_a_body_forbids_reuse() {
        for (fields, expected) in [
            (&[("content-length", "0")], Some(MINUTE)),
            (&[("content-length", "2")], None),
            (&[("transfer-encoding", "chunked")], None),
        ] {
            let mut answer = answer(fields);
            *answer.status_mut() = StatusCode::NO_CONTENT;
            assert_eq!(good_for(&answer, MINUTE), expected);
        }
    }

    #[test]
    fn an_http_1_0_peer_forbids_reuse() {
        let mut answer = answer(&[("connection", "keep-alive")]);
        *answer.version_mut() = Version::HTTP_10;
        assert_eq!(good_for(&answer, MINUTE), None);
    }
}
