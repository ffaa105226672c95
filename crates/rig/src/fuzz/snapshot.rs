//! Stored answers: whoever can write to the store must not be able to frame a caller's connection.

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use onceward::Outcome;
use onceward_http::inside;

use super::Choices;

/// What says where a message ends or what the connection does, or what we alone say: no stored
/// answer carries it.
const NEVER: &[&str] = &[
    "age",
    "authorization",
    "connection",
    "content-length",
    "date",
    "idempotency-expires",
    "idempotent-replayed",
    "keep-alive",
    "proxy-authenticate",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Takes one byte of how: bytes as a store gives them back, an answer to be kept, or one that
/// nobody would have kept and somebody put there.
///
/// # Panics
///
/// Panics if an answer is read that has fields no answer keeps, or if a kept one reads back as
/// another.
pub fn check(bytes: &[u8]) {
    let mut from = Choices(bytes);
    match from.below(3) {
        0 => reads(from.rest()),
        1 => keeps(&mut from),
        _ => reads(&forged(&mut from)),
    }
}

fn reads(head: &[u8]) {
    let Ok((status, headers, trailers)) = inside::answer_of(head) else {
        return;
    };
    let replayed = inside::replayed(Outcome::success("body").with_head(head.to_vec()));
    let is_answer = |it: &Response<()>| !it.status().is_informational();
    assert!(replayed.as_ref().is_none_or(is_answer), "{replayed:?}");
    for (name, value) in headers.iter().chain(trailers.iter().flatten()) {
        assert!(!NEVER.contains(&name.as_str()), "{name} frames the message");
        let breaks = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0);
        assert!(!value.as_bytes().iter().any(breaks), "{value:?}");
        assert!(
            !name
                .as_str()
                .bytes()
                .any(|byte| breaks(&byte) || byte == b':')
        );
    }
    // What can be read can be kept again, and is the same.
    let again = inside::head_of(status, &headers, trailers.as_ref());
    assert_eq!(inside::answer_of(&again), Ok((status, headers, trailers)));
}

/// The head of an answer with whatever fields, as a record would have it.
fn forged(from: &mut Choices<'_>) -> Vec<u8> {
    let mut head = vec![1];
    head.extend(from.array::<2>());
    for part in 0..2 {
        let fields = fields(from);
        head.extend((fields.len() as u16).to_le_bytes());
        for (name, value) in &fields {
            head.extend((name.as_str().len() as u16).to_le_bytes());
            head.extend(name.as_str().bytes());
            head.extend((value.len() as u32).to_le_bytes());
            head.extend(value.as_bytes());
        }
        if part == 0 {
            let has_trailers = from.byte() % 3;
            head.push(has_trailers);
            if has_trailers != 1 {
                break;
            }
        }
    }
    head
}

fn keeps(from: &mut Choices<'_>) {
    let code = u16::from_le_bytes(from.array()) % 1000;
    let status = StatusCode::from_u16(code).ok();
    let status = status.filter(|status| !status.is_informational());
    let status = status.unwrap_or(StatusCode::OK);
    let headers = fields(from);
    let trailers = from.flag().then(|| fields(from));
    let head = inside::head_of(status, &headers, trailers.as_ref());
    let (kept_status, kept, kept_trailers) = inside::answer_of(&head).expect("it was just kept");
    assert_eq!(kept_status, status);
    assert_eq!(kept_trailers.is_some(), trailers.is_some());
    let is_named = |name: &HeaderName| {
        headers.get_all("connection").iter().any(|line| {
            let mut names = line.as_bytes().split(|byte| *byte == b',');
            names.any(|one| {
                one.trim_ascii()
                    .eq_ignore_ascii_case(name.as_str().as_bytes())
            })
        })
    };
    for (kept, given) in [(&kept, &headers)]
        .into_iter()
        .chain(kept_trailers.iter().zip(&trailers))
    {
        for name in given.keys() {
            let lines: Vec<_> = given.get_all(name).iter().collect();
            let found: Vec<_> = kept.get_all(name).iter().collect();
            let is_dropped = found.is_empty() && (is_named(name) || is_ours_to_drop(name));
            assert!(
                is_dropped || found == lines,
                "{name}: {found:?} of {lines:?}"
            );
        }
        assert!(kept.keys().all(|name| given.contains_key(name)), "{kept:?}");
    }
}

/// Whether a field may be left out of what is kept.
fn is_ours_to_drop(name: &HeaderName) -> bool {
    let name = name.as_str();
    NEVER.contains(&name)
        || name.starts_with("proxy-")
        || matches!(name, "http2-settings")
        || name.starts_with("idempotency-") && name != "idempotency-key"
}

fn fields(from: &mut Choices<'_>) -> HeaderMap {
    const NAMES: [&str; 12] = [
        "content-type",
        "connection",
        "content-length",
        "date",
        "x-one",
        "location",
        "set-cookie",
        "transfer-encoding",
        "trailer",
        "proxy-status",
        "idempotency-fence",
        "idempotency-key",
    ];
    let mut fields = HeaderMap::new();
    for _ in 0..from.below(6) {
        let name = match from.flag() {
            true => HeaderName::from_static(from.pick(&NAMES)),
            false => match HeaderName::from_bytes(from.bytes(40)) {
                Ok(name) => name,
                Err(_) => continue,
            },
        };
        if let Ok(value) = HeaderValue::from_bytes(from.bytes(60)) {
            fields.append(name, value);
        }
    }
    fields
}
