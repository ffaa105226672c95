//! Describing kept answers to operators, and what may be kept of theirs.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use onceward::Outcome;

use crate::snapshot::{self, Keeping, Snapshot};

/// Whether a header of this name is kept with an answer, on a route that says nothing about it.
///
/// What is not kept holds for one connection or one moment, frames the body, is a cookie, or is
/// said by Onceward itself.
///
/// ```
/// use http::header;
///
/// assert!(onceward_http::is_kept(&header::CONTENT_TYPE));
/// assert!(!onceward_http::is_kept(&header::SET_COOKIE));
/// ```
pub fn is_kept(name: &HeaderName) -> bool {
    // Asked of the very function that records answers: a list beside it could differ from it.
    let one = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static("x"))]);
    let head = snapshot::record(StatusCode::OK, &one, None, &Keeping::default());
    snapshot::read(&head).is_ok_and(|kept| kept.headers.contains_key(name))
}

/// The status of the answer that an outcome keeps; `None` if its head is not that of an answer.
///
/// ```
/// use http::{HeaderMap, StatusCode};
///
/// let outcome = onceward_http::outcome(StatusCode::CREATED, &HeaderMap::new(), "{}");
/// assert_eq!(onceward_http::status_of(&outcome), Some(StatusCode::CREATED));
/// ```
pub fn status_of(outcome: &Outcome) -> Option<StatusCode> {
    Some(answer(outcome)?.status)
}

/// The headers of the answer that an outcome keeps, in order within a name; `None` if its head is
/// not that of an answer.
pub fn headers_of(outcome: &Outcome) -> Option<HeaderMap> {
    Some(answer(outcome)?.headers)
}

fn answer(outcome: &Outcome) -> Option<Snapshot> {
    // Without a head there is a body alone, and whoever replays it chooses the rest.
    match outcome.head.is_empty() {
        true => None,
        false => snapshot::read(&outcome.head).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_for_one_moment_or_one_caller_is_not_kept() {
        for name in [
            "content-length",
            "transfer-encoding",
            "connection",
            "keep-alive",
            "proxy-authenticate",
            "trailer",
            "date",
            "age",
            "set-cookie",
            "idempotent-replayed",
            "idempotency-expires",
        ] {
            assert!(!is_kept(&HeaderName::from_static(name)), "{name}");
        }
        for name in ["content-type", "location", "etag", "x-anything"] {
            assert!(is_kept(&HeaderName::from_static(name)), "{name}");
        }
    }

    #[test]
    fn status_and_headers_read_back() {
        let mut headers = HeaderMap::new();
        headers.append("link", HeaderValue::from_static("</a>"));
        headers.append("link", HeaderValue::from_static("</b>"));
        let outcome = snapshot::outcome(StatusCode::ACCEPTED, &headers, "");
        assert_eq!(status_of(&outcome), Some(StatusCode::ACCEPTED));
        assert_eq!(headers_of(&outcome), Some(headers));
    }

    #[test]
    fn head_of_something_else_is_no_answer() {
        for outcome in [
            Outcome::success("7"),
            Outcome::success("7").with_head("abc"),
            Outcome::success("7").with_head(&b"\x01\xc8"[..]),
        ] {
            assert_eq!(status_of(&outcome), None);
            assert_eq!(headers_of(&outcome), None);
        }
    }
}
