//! Keys that the server infers, and keys that have to fit their request.

use onceward_http::{Field, Fields};

use super::*;

/// A route with these lines.
fn route(lines: &str) -> String {
    format!("[[route]]\nmatch = \"POST /payments/{{id}}/{{*rest}}\"\n{lines}\n")
}

fn terms(text: &str) -> Terms {
    let config = parsed(text);
    assert_eq!(config.warnings, []);
    config.routes.into_iter().next().unwrap().terms
}

fn by(names: &[&str]) -> KeySource {
    KeySource::Fields(Fields::parse(names).unwrap())
}

#[test]
fn keys_can_be_made_of_the_request() {
    for (from, wanted) in [
        (
            r#"{ fields = ["/status", "{id}"] }"#,
            by(&["/status", "{id}"]),
        ),
        (r#"{ fields = "/status" }"#, by(&["/status"])),
        (r#"{ fields = ["{rest}"] }"#, by(&["{rest}"])),
        (r#"{ body = "hash" }"#, KeySource::BodyHash),
        (
            r#"{ header = "X-Delivery-Id" }"#,
            KeySource::Headers(vec!["x-delivery-id".parse().unwrap()]),
        ),
    ] {
        let terms = terms(&route(&format!("key = \"derived\"\nkey_from = {from}")));
        assert_eq!((terms.key, &terms.key_from), (KeyNeed::Derived, &wanted));
        assert_eq!(terms.needs_path(), from.contains("\"{"), "{from}");
    }
}

#[test]
fn a_key_may_have_to_be_equal_to_a_field() {
    for name in ["/order_id", "{id}"] {
        let terms = terms(&route(&format!("key_equals = {name:?}")));
        assert_eq!(terms.key_equals, Some(Field::parse(name).unwrap()));
        assert_eq!(terms.needs_path(), name == "{id}");
    }
}

#[test]
fn a_route_takes_over_only_what_fits_its_keys() {
    let defaults = "[defaults]\nfingerprint = { body = \"json\" }\nkey_equals = \"/id\"\n";
    let made = terms(&format!(
        "{defaults}{}",
        route("key = \"derived\"\nkey_from = { body = \"hash\" }")
    ));
    assert_eq!(
        (made.key_equals, made.fingerprint.body),
        (None, BodyRule::Bytes)
    );
    let named = terms(&format!(
        "{defaults}{}",
        route("key = \"derived\"\nkey_from = { header = \"X-Id\" }")
    ));
    assert_ne!(named.fingerprint.body, BodyRule::Bytes);
    let off = terms(&format!("{defaults}{}", route("key = \"off\"")));
    assert_eq!(off.key_equals, None);

    let defaults = "[defaults]\nkey = \"derived\"\nkey_from = { fields = [\"/id\"] }\n";
    let sent = terms(&format!("{defaults}{}", route("key = \"required\"")));
    assert_eq!(sent.key_from, KeySource::of(Profile::Ietf));
    let same = terms(&format!("{defaults}{}", route("retention = \"7d\"")));
    assert_eq!((same.key, same.key_from), (KeyNeed::Derived, by(&["/id"])));
}

#[test]
fn what_does_not_fit_together_is_told_at_its_place() {
    let derived = "key = \"derived\"\nkey_from = ";
    for (lines, wanted) in [
        (
            "key = \"derived\"".to_owned(),
            "4:7: key = \"derived\" needs a key_from",
        ),
        (
            format!("{derived}{{ header = \"X-Idempotency-Key\" }}"),
            "5:12: key = \"derived\" is for keys that callers do not choose",
        ),
        (
            format!("{derived}{{ json = \"/id\" }}"),
            "5:12: key = \"derived\" is for keys that callers do not choose",
        ),
        (
            "key_from = { fields = [\"/id\"] }".to_owned(),
            "4:12: key_from makes keys of the request, which is for key = \"derived\"",
        ),
        (
            "key = \"required\"\nkey_from = { body = \"hash\" }".to_owned(),
            "5:12: key_from makes keys of the request, which is for key = \"derived\"",
        ),
        (
            format!("{derived}{{ fields = [\"/a\"], body = \"hash\" }}"),
            "5:12: key_from does not name one place",
        ),
        (
            format!("{derived}{{ body = \"sum\" }}"),
            "5:21: body \"sum\" is not known",
        ),
        (
            format!("{derived}{{ fields = [] }}"),
            "5:23: fields names nothing",
        ),
        (
            format!("{derived}{{ fields = [\"/a\", \"/a\"] }}"),
            "5:23: fields names /a twice",
        ),
        (
            format!("{derived}{{ fields = [\"order_id\"] }}"),
            "5:24: fields \"order_id\" is neither a JSON pointer nor a name in braces",
        ),
        (
            format!("{derived}{{ fields = [\"{{order}}\"] }}"),
            "5:12: key_from names {order}, which is no part of the match",
        ),
        (
            format!("{derived}{{ body = \"hash\" }}\nfingerprint = {{ body = \"json\" }}"),
            "6:15: fingerprint is not used with this key_from",
        ),
        (
            format!("{derived}{{ body = \"hash\" }}\nkey_equals = \"/a\""),
            "6:14: key_equals is for keys that callers send",
        ),
        (
            "key_equals = \"{order}\"".to_owned(),
            "4:14: key_equals names {order}, which is no part of the match",
        ),
        (
            "key_equals = \"\"".to_owned(),
            "4:14: key_equals \"\" is empty",
        ),
    ] {
        let told = problems(&route(&lines));
        assert_eq!(told.len(), 1, "{lines}: {told:?}");
        assert!(
            told[0].starts_with(&format!("f.toml:{wanted}")),
            "{lines}\n  {told:?}"
        );
    }
    let defaults = "[defaults]\nkey = \"derived\"\nkey_from = { fields = [\"{id}\"] }\n";
    let told = problems(defaults);
    assert!(told[0].contains("key_from names {id}"), "{told:?}");
}

#[test]
fn a_service_that_sees_no_derived_key_cannot_deduplicate_on_it() {
    let text = "[upstream]\nurl = \"http://127.0.0.1:3000\"\nkey_header = \"drop\"\n[defaults]\n\
                effect = \"keyed\"\nkey = \"derived\"\nkey_from = ";
    let told = check(&format!("{text}{{ body = \"hash\" }}")).unwrap_err();
    assert!(
        told.to_string()
            .contains("relies on the service seeing the key"),
        "{told}"
    );
}

#[test]
fn operations_whose_keys_never_meet_are_warned_about() {
    let pair = |one: &str, two: &str| {
        let route = |path: &str, lines: &str| {
            format!("[[route]]\nmatch = \"POST /{path}\"\noperation = \"settle\"\n{lines}\n")
        };
        parsed(&format!("{}{}", route("a", one), route("b", two))).warnings
    };
    let fields = "key = \"derived\"\nkey_from = { fields = [\"/id\", \"/status\"] }";
    let others = "key = \"derived\"\nkey_from = { fields = [\"/id\"] }";
    assert_eq!(pair(fields, fields), []);
    assert_eq!(pair(fields, "key = \"off\""), []);
    assert_eq!(
        pair("key = \"required\"", "key_from = { query = \"id\" }"),
        []
    );
    for (one, two) in [
        (fields, others),
        (fields, "key = \"required\""),
        ("", others),
    ] {
        let warnings = pair(one, two);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let told = warnings[0].to_string();
        assert!(
            told.contains("operation \"settle\" is also that of line 3"),
            "{told}"
        );
    }
}
