use http::Request;
use proptest::prelude::*;

use super::*;

const LONGEST: usize = Key::LEN_MAX;

fn names() -> Vec<HeaderName> {
    vec![headers::IDEMPOTENCY_KEY, headers::X_IDEMPOTENCY_KEY]
}

fn map(lines: &[(HeaderName, &[u8])]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in lines {
        map.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    map
}

fn read(value: &[u8]) -> Result<Option<Key>, KeyError> {
    from_headers(&names(), &map(&[(headers::IDEMPOTENCY_KEY, value)]), false)
}

fn key(text: &str) -> Result<Option<Key>, KeyError> {
    Ok(Some(Key::parse(text).unwrap()))
}

fn body(source: &KeySource, media: Option<&str>, body: &str) -> Result<Option<Key>, KeyError> {
    let mut request = Request::post("/pay");
    if let Some(media) = media {
        request = request.header("content-type", media);
    }
    from_body(
        source,
        &request.body(()).unwrap().into_parts().0,
        body.as_bytes(),
    )
}

fn json(text: &str) -> Result<Option<Key>, KeyError> {
    let source = KeySource::Json(Pointer::parse("/meta/key").unwrap());
    body(&source, Some("application/json"), text)
}

fn query(query: &str) -> Result<Option<Key>, KeyError> {
    let source = KeySource::Query("key".into());
    let parts = Request::post(format!("/pay?{query}"))
        .body(())
        .unwrap()
        .into_parts()
        .0;
    from_body(&source, &parts, b"key=body")
}

#[test]
fn no_header_is_no_key() {
    assert_eq!(from_headers(&names(), &HeaderMap::new(), true), Ok(None));
}

#[test]
fn shapes_of_real_clients_pass_bare_and_quoted() {
    for shape in [
        "8e03978e-40d5-43e8-bc93-6894a57f9324",
        "stainless-node-retry-8e03978e-40d5-43e8-bc93-6894a57f9324",
        "aGVsbG8+/w==",
        "340282366920938463463374607431768211455",
        "a/b",
        "a;b=c",
        "'",
    ] {
        assert_eq!(read(shape.as_bytes()), key(shape));
        assert_eq!(read(format!(" \"{shape}\"\t").as_bytes()), key(shape));
    }
    assert_ne!(read(b"abc"), read(b"ABC"));
}

#[test]
fn quoted_content_is_decoded_and_parameters_do_not_count() {
    assert_eq!(read(br#""a\"b\\, c";x=1"#), key(r#"a"b\, c"#));
    assert_eq!(read(br#"  "abc"#), Err(KeyError::Malformed { at: 6 }));
    assert_eq!(read(br#""a", "b""#), Err(KeyError::Malformed { at: 3 }));
}

#[test]
fn bare_keys_hold_neither_spaces_nor_quotes_nor_commas() {
    for value in ["a b", "a\"b", "a,b", "a\tb"] {
        let at = 1;
        assert_eq!(
            read(value.as_bytes()),
            Err(KeyError::Malformed { at }),
            "{value}"
        );
    }
    assert_eq!(read("caf\u{e9}".as_bytes()), Err(KeyError::NotText));
}

#[test]
fn length_counts_after_decoding() {
    let longest = "k".repeat(LONGEST);
    assert_eq!(read(longest.as_bytes()), key(&longest));
    assert_eq!(read(format!("\"{longest}\"").as_bytes()), key(&longest));
    let escaped = format!("\"{}\"", "\\\\".repeat(LONGEST));
    assert_eq!(read(escaped.as_bytes()), key(&"\\".repeat(LONGEST)));
    let long = KeyError::Core(InvalidKey::TooLong { len: LONGEST + 1 });
    assert_eq!(read("k".repeat(LONGEST + 1).as_bytes()), Err(long));
}

#[test]
fn nothing_between_quotes_or_at_all_is_refused() {
    for value in [&b""[..], b"  ", b"\"\""] {
        assert_eq!(read(value), Err(KeyError::Core(InvalidKey::Empty)));
    }
}

#[test]
fn two_lines_are_refused_even_if_equal() {
    let twice = map(&[
        (headers::IDEMPOTENCY_KEY, b"a"),
        (headers::IDEMPOTENCY_KEY, b"a"),
    ]);
    assert_eq!(from_headers(&names(), &twice, false), Err(KeyError::Twice));
}

#[test]
fn two_names_must_agree_after_decoding() {
    let both = |other| {
        map(&[
            (headers::IDEMPOTENCY_KEY, b"a"),
            (headers::X_IDEMPOTENCY_KEY, other),
        ])
    };
    assert_eq!(from_headers(&names(), &both(b"\"a\""), false), key("a"));
    assert_eq!(
        from_headers(&names(), &both(b"b"), false),
        Err(KeyError::Differ)
    );
}

#[test]
fn strict_wants_quotes() {
    let strict = |value| from_headers(&names(), &map(&[(headers::X_IDEMPOTENCY_KEY, value)]), true);
    assert_eq!(strict(b"abc"), Err(KeyError::NotQuoted));
    assert_eq!(strict(b"\"abc\""), key("abc"));
}

#[test]
fn a_member_of_the_body_is_a_key_as_written() {
    assert_eq!(json(r#"{"meta":{"key":"a \u0062"}}"#), key("a b"));
    let integer = "340282366920938463463374607431768211455";
    assert_eq!(
        json(&format!("{{\"meta\":{{\"key\": {integer} }}}}")),
        key(integer)
    );
    assert_eq!(json(r#"{"meta":{"key":-1}}"#), key("-1"));
}

#[test]
fn a_missing_member_is_no_key_and_another_type_is_refused() {
    for text in [
        "",
        "{}",
        "[1]",
        r#"{"meta":{}}"#,
        r#"{"meta":{"key":null}}"#,
    ] {
        assert_eq!(json(text), Ok(None), "{text}");
    }
    for value in ["true", "1.0", "1e3", "{}", "[\"a\"]"] {
        let text = format!("{{\"meta\":{{\"key\":{value}}}}}");
        assert_eq!(json(&text), Err(KeyError::NotScalar), "{value}");
    }
    assert_eq!(
        json(r#"{"meta":{"key":""}}"#),
        Err(KeyError::Core(InvalidKey::Empty))
    );
}

#[test]
fn a_body_with_two_readings_is_refused_and_one_of_another_kind_has_no_key() {
    let source = KeySource::Json(Pointer::parse("/key").unwrap());
    let twice = r#"{"key":"a","key":"b"}"#;
    for media in [
        None,
        Some("application/json"),
        Some("application/vnd.x+json; v=1"),
    ] {
        assert_eq!(body(&source, media, twice), Err(KeyError::NotJson));
        assert_eq!(body(&source, media, "key=a"), Err(KeyError::NotJson));
    }
    assert_eq!(body(&source, Some("text/csv"), "key,a"), Ok(None));
    assert_eq!(
        body(&source, Some("text/plain"), r#"{"key":"a"}"#),
        key("a")
    );
}

#[test]
fn a_form_field_and_a_parameter_are_decoded_and_stand_once() {
    let source = KeySource::Form("Client Token".into());
    let form = "application/x-www-form-urlencoded; charset=utf-8";
    assert_eq!(
        body(&source, Some(form), "Action=Run&Client+Token=a%2Fb"),
        key("a/b")
    );
    assert_eq!(body(&source, None, "Client%20Token=c"), key("c"));
    assert_eq!(
        body(&source, Some("application/json"), "Client+Token=c"),
        Ok(None)
    );
    let twice = body(&source, Some(form), "Client+Token=a&Client+Token=a");
    assert_eq!(twice, Err(KeyError::Twice));

    assert_eq!(query("a=b&key=c"), key("c"));
    assert_eq!(query("a=b"), Ok(None));
    assert_eq!(query("key="), Err(KeyError::Core(InvalidKey::Empty)));
    assert_eq!(query("key=a&key=b"), Err(KeyError::Twice));
    assert!(matches!(
        query("key=%FF"),
        Err(KeyError::Core(InvalidKey::NotPrintable { .. }))
    ));
}

#[test]
fn only_json_and_forms_need_the_body() {
    assert!(KeySource::Json(Pointer::parse("/a").unwrap()).needs_body());
    assert!(KeySource::Form("a".into()).needs_body());
    assert!(!KeySource::Query("a".into()).needs_body());
    assert!(!KeySource::of(Profile::Ietf).needs_body());
}

#[test]
fn time_ordered_keys_tell_their_age() {
    // The example of RFC 9562: 2022-02-22, 19:22:22 UTC.
    let minted = 1_645_557_742_000_000;
    let now = Timestamp::from_micros(minted + 5_000_000);
    for text in [
        "017F22E2-79B0-7CC3-98C4-DC0C0C07398F",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
    ] {
        let key = Key::parse(text).unwrap();
        assert_eq!(age(&key, now), Some(Duration::from_secs(5)));
        assert_eq!(age(&key, Timestamp::ZERO), Some(Duration::ZERO));
    }
    for text in [
        "017f22e279b07cc398c4dc0c0c07398f",
        "017f22e2-79b0-4cc3-98c4-dc0c0c07398f",
        "017f22e2-79b0-7cc3-d8c4-dc0c0c07398f",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
        "order-1",
    ] {
        assert_eq!(age(&Key::parse(text).unwrap(), now), None, "{text}");
    }
}

#[test]
fn refusals_do_not_repeat_the_key() {
    for value in [
        &b"secret,secret"[..],
        b"\"secret",
        "secret\u{e9}".as_bytes(),
    ] {
        assert!(!read(value).unwrap_err().to_string().contains("secret"));
    }
}

proptest! {
    #[test]
    fn every_content_survives_quoting(content in "[ -~]{1,255}") {
        let quoted = format!("\"{}\"", content.replace('\\', "\\\\").replace('"', "\\\""));
        prop_assert_eq!(read(quoted.as_bytes()), key(&content));
    }

    #[test]
    fn no_field_value_panics(value in proptest::collection::vec(any::<u8>(), 0..40)) {
        if HeaderValue::from_bytes(&value).is_ok() {
            let _ = read(&value);
        }
    }
}
