//! Fingerprints: two spellings of one payload are one, and two payloads are two.

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Request};
use onceward::Fingerprint;
use onceward_http::{BodyRule, FingerprintRules, Pointer};

use super::Choices;

mod form;
mod judge;
mod parts;
mod value;

use value::Value;

/// Takes one byte of how: a JSON value in two spellings, bytes that may be JSON, a form, or parts.
///
/// # Panics
///
/// Panics if equal payloads have unequal fingerprints, or unequal ones equal fingerprints.
pub fn check(bytes: &[u8]) {
    let mut from = Choices(bytes);
    match from.below(4) {
        0 => value(&mut from),
        1 => judge::check(from.rest()),
        2 => form::check(&mut from),
        _ => parts::check(&mut from),
    }
}

/// Spells a value twice, then changes it.
fn value(from: &mut Choices<'_>) {
    let one = Value::any(from, 4);
    let (plain, other) = (one.plain(), one.spelled(from));
    assert_eq!(json(&plain), json(&other), "{plain}\n{other}");

    let mut changed = one.clone();
    let place = from.below(changed.count());
    let top = changed.change(place, from);
    let changed = changed.spelled(from);
    assert_ne!(json(&plain), json(&changed), "{plain}\n{changed}");

    // What is left out does not count, and everything else still does.
    if let Some(member) = top {
        let pointer = Pointer::parse(&format!(
            "/{}",
            member.replace('~', "~0").replace('/', "~1")
        ));
        let rule = BodyRule::Json {
            ignore: vec![pointer.expect("an escaped name is a pointer")],
            only: Vec::new(),
        };
        let of = |text: &str| print(&rule, "application/json", text.as_bytes());
        assert_eq!(
            of(&plain),
            of(&changed),
            "{member} is left out of\n{plain}\n{changed}"
        );
    }
}

fn json(text: &str) -> Fingerprint {
    let rule = BodyRule::Json {
        ignore: Vec::new(),
        only: Vec::new(),
    };
    print(&rule, "application/json", text.as_bytes())
}

/// The fingerprint of a body of this media type under a rule.
fn print(rule: &BodyRule, media: &str, body: &[u8]) -> Fingerprint {
    let rules = FingerprintRules {
        body: rule.clone(),
        headers: Vec::new(),
    };
    rules.of(&parts_of(media), body, None)
}

fn parts_of(media: &str) -> Parts {
    let (mut parts, ()) = Request::new(()).into_parts();
    let media = HeaderValue::from_str(media).expect("media types here are printable");
    parts.headers.insert(CONTENT_TYPE, media);
    parts
}
