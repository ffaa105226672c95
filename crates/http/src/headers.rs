//! Headers: the names that matter here, and the fields that go no further.

use http::header::{self, HeaderMap, HeaderName};

/// The key, as the IETF draft names it.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The key, as many SDKs name it.
pub const X_IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("x-idempotency-key");
/// On an answer: it is a replay.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// On an answer: until when it is replayed.
pub const IDEMPOTENCY_EXPIRES: HeaderName = HeaderName::from_static("idempotency-expires");
/// To the origin: which attempt this is.
pub const IDEMPOTENCY_ATTEMPT: HeaderName = HeaderName::from_static("idempotency-attempt");
/// To the origin: the fence of the claim.
pub const IDEMPOTENCY_FENCE: HeaderName = HeaderName::from_static("idempotency-fence");
/// What became of the work, where the status does not say it.
pub const IDEMPOTENCY_OUTCOME: HeaderName = HeaderName::from_static("idempotency-outcome");
/// On a request: it is meant, although it looks like another one. It goes no further than here.
pub const IDEMPOTENCY_CONFIRM: HeaderName = HeaderName::from_static("idempotency-confirm");
/// The key, as OASIS Repeatable Requests names it.
pub const REPEATABILITY_REQUEST_ID: HeaderName =
    HeaderName::from_static("repeatability-request-id");
/// When the first attempt was sent, in OASIS Repeatable Requests.
pub const REPEATABILITY_FIRST_SENT: HeaderName =
    HeaderName::from_static("repeatability-first-sent");
/// Who sends, in OASIS Repeatable Requests.
pub const REPEATABILITY_CLIENT_ID: HeaderName = HeaderName::from_static("repeatability-client-id");
/// On an answer, in OASIS Repeatable Requests: whether the request was accepted.
pub const REPEATABILITY_RESULT: HeaderName = HeaderName::from_static("repeatability-result");
/// On an answer: whether SDKs made by Stainless retry.
pub const X_SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// On an answer: whether Stripe's SDKs retry.
pub const STRIPE_SHOULD_RETRY: HeaderName = HeaderName::from_static("stripe-should-retry");
/// What a caller asks for beyond the answer (RFC 7240).
pub const PREFER: HeaderName = HeaderName::from_static("prefer");
/// On an answer: which preferences were followed.
pub const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
/// On an answer: what is left of which quota (draft-ietf-httpapi-ratelimit-headers).
pub const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// On an answer: which quotas there are.
pub const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// What we alone say: copies from outside mean nothing.
const OURS: [HeaderName; 5] = [
    IDEMPOTENCY_ATTEMPT,
    IDEMPOTENCY_FENCE,
    IDEMPOTENT_REPLAYED,
    IDEMPOTENCY_EXPIRES,
    IDEMPOTENCY_OUTCOME,
];

/// Removes the fields that hold for one connection only, and those that `Connection` names.
///
/// Fields that mean something end to end stay even if `Connection` names them: a caller must not
/// be able to take the key, the credentials or the framing away between two readers.
pub fn strip_hop_by_hop(headers: &mut HeaderMap) {
    if !headers.keys().any(is_hop_by_hop) {
        return;
    }
    let doomed: Vec<HeaderName> = headers
        .keys()
        .filter(|name| is_hop_by_hop(name))
        .cloned()
        .chain(nominated(headers))
        .collect();
    for name in &doomed {
        headers.remove(name);
    }
}

/// Removes inbound copies of what we alone say; the key stays.
pub fn strip_ours(headers: &mut HeaderMap) {
    if !headers.keys().any(is_ours) {
        return;
    }
    for name in &OURS {
        headers.remove(name);
    }
}

/// Whether a field is one that we alone write.
pub(crate) fn is_ours(name: &HeaderName) -> bool {
    name.as_str().starts_with("idempoten") && OURS.contains(name)
}

/// Whether a field holds for one connection only, whatever `Connection` says.
pub(crate) fn is_hop_by_hop(name: &HeaderName) -> bool {
    match name.as_str() {
        "connection" | "http2-settings" | "keep-alive" | "te" | "trailer" | "transfer-encoding"
        | "upgrade" => true,
        other => other.starts_with("proxy-"),
    }
}

/// The fields that `Connection` names and that may go.
pub(crate) fn nominated(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> + '_ {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|option| HeaderName::from_bytes(option.trim_ascii()).ok())
        .filter(|name| !is_end_to_end(name))
}

/// Whether a field stays although `Connection` names it.
fn is_end_to_end(name: &HeaderName) -> bool {
    match name.as_str() {
        "authorization"
        | "content-encoding"
        | "content-length"
        | "content-type"
        | "cookie"
        | "forwarded"
        | "host"
        | "idempotency-key"
        | "repeatability-client-id"
        | "repeatability-first-sent"
        | "repeatability-request-id"
        | "set-cookie"
        | "x-api-key"
        | "x-idempotency-key" => true,
        other => other.starts_with("x-forwarded-"),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        map
    }

    #[test]
    fn fields_of_one_connection_go_with_all_that_connection_names() {
        let mut map = headers(&[
            ("connection", "keep-alive, X-Debug"),
            ("connection", " x-trace ,, not a name"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("trailer", "x-sum"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("http2-settings", "AAMAAABk"),
            ("proxy-connection", "close"),
            ("proxy-authenticate", "Basic"),
            ("proxy-anything", "1"),
            ("x-debug", "1"),
            ("x-trace", "1"),
            ("x-kept", "1"),
            ("content-type", "text/plain"),
        ]);
        strip_hop_by_hop(&mut map);
        let left = headers(&[("x-kept", "1"), ("content-type", "text/plain")]);
        assert_eq!(map, left);
    }

    #[test]
    fn connection_cannot_take_away_what_means_something_end_to_end() {
        let kept = [
            ("host", "a.example"),
            ("content-length", "3"),
            ("content-type", "text/plain"),
            ("content-encoding", "gzip"),
            ("authorization", "Bearer x"),
            ("cookie", "a=b"),
            ("set-cookie", "a=b"),
            ("idempotency-key", "k"),
            ("x-idempotency-key", "k"),
            ("repeatability-request-id", "k"),
            ("repeatability-first-sent", "k"),
            ("x-api-key", "k"),
            ("x-forwarded-for", "10.0.0.1"),
            ("forwarded", "for=10.0.0.1"),
        ];
        for (name, value) in kept {
            let mut map = headers(&[(name, value)]);
            let nomination = format!("close, {}", name.to_uppercase());
            map.insert(header::CONNECTION, nomination.parse().unwrap());
            strip_hop_by_hop(&mut map);
            assert_eq!(map, headers(&[(name, value)]));
        }
    }

    #[test]
    fn a_nomination_without_the_field_changes_nothing() {
        let mut map = headers(&[("connection", "x-gone"), ("accept", "*/*")]);
        strip_hop_by_hop(&mut map);
        assert_eq!(map, headers(&[("accept", "*/*")]));
    }

    #[test]
    fn inbound_copies_of_our_own_headers_go_and_the_key_stays() {
        let mut map = headers(&[
            ("idempotency-key", "k"),
            ("idempotency-attempt", "7"),
            ("idempotency-attempt", "8"),
            ("idempotency-fence", "f"),
            ("idempotent-replayed", "true"),
            ("idempotency-expires", "never"),
            ("idempotency-outcome", "unknown"),
            ("prefer", "wait=1"),
        ]);
        strip_ours(&mut map);
        let left = headers(&[("idempotency-key", "k"), ("prefer", "wait=1")]);
        assert_eq!(map, left);
    }
}
