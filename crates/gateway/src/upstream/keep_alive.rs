//! How long the connection that an answer came on may rest.

use std::time::Duration;

use http::header::{HeaderMap, HeaderName};

/// The last part of the time that a server says it keeps an idle connection. A request sent then
/// may cross the server's close on the way.
const MARGIN: Duration = Duration::from_secs(1);

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// Returns how long a connection may rest after an answer with these headers, at most `idle_max`,
/// or `None` if it is not to be used again.
///
/// Whether it may be used again at all is decided with the head, in `answer`.
pub(super) fn good_for(headers: &HeaderMap, idle_max: Duration) -> Option<Duration> {
    let hint = hint(headers).unwrap_or(Duration::MAX);
    let good_for = hint.saturating_sub(MARGIN).min(idle_max);
    (good_for > Duration::ZERO).then_some(good_for)
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
    use http::HeaderValue;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn seconds(fields: &[(&'static str, &'static str)]) -> Option<u64> {
        let fields = fields.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        good_for(&fields.collect(), MINUTE).map(|span| span.as_secs())
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
}
