use http::Request;
use http::header::HeaderValue;
use onceward::{Secret, SlotId};

use super::*;

const FORM: &str = "application/x-www-form-urlencoded";

fn parts(method: &str, uri: &str, lines: &[(&'static str, &'static str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in lines {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn rules(body: BodyRule) -> FingerprintRules {
    FingerprintRules {
        body,
        ..FingerprintRules::default()
    }
}

fn json(ignore: &[&str], only: &[&str]) -> FingerprintRules {
    let pointers = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    rules(BodyRule::Json {
        ignore: pointers(ignore),
        only: pointers(only),
    })
}

fn with_headers(names: &[&'static str]) -> FingerprintRules {
    FingerprintRules {
        headers: names
            .iter()
            .map(|name| HeaderName::from_static(name))
            .collect(),
        ..FingerprintRules::default()
    }
}

/// The fingerprint of a POST with one body under `rules`.
fn of(rules: &FingerprintRules, media: &'static str, body: &[u8]) -> Fingerprint {
    rules.of(
        &parts("POST", "/pay", &[("content-type", media)]),
        body,
        None,
    )
}

/// Asserts that no two of these requests have one fingerprint.
fn assert_all_differ(rules: &FingerprintRules, requests: &[Parts]) {
    for (at, one) in requests.iter().enumerate() {
        for two in &requests[..at] {
            assert_ne!(
                rules.of(one, b"x", None),
                rules.of(two, b"x", None),
                "{one:?} {two:?}"
            );
        }
    }
}

#[test]
fn method_path_query_media_type_and_coding_count() {
    assert_all_differ(
        &FingerprintRules::default(),
        &[
            parts("POST", "/pay", &[]),
            parts("PUT", "/pay", &[]),
            parts("POST", "/pay/", &[]),
            parts("POST", "/pay?", &[]),
            parts("POST", "/pay?a", &[]),
            parts("POST", "/pay?a=%41", &[]),
            parts("POST", "/pay?a=A", &[]),
            parts("POST", "/pay", &[("content-type", "")]),
            parts("POST", "/pay", &[("content-type", "text/plain")]),
            parts("POST", "/pay", &[("content-encoding", "text/plain")]),
            parts("POST", "/pay", &[("content-encoding", "")]),
            parts("POST", "/pay", &[("content-encoding", "gzip")]),
            parts(
                "POST",
                "/pay",
                &[("content-type", "a/b"), ("content-type", "a/b")],
            ),
        ],
    );
}

#[test]
fn parameters_case_and_what_changes_between_attempts_do_not_count() {
    let rules = FingerprintRules::default();
    let one = parts(
        "POST",
        "/pay",
        &[("content-type", "text/plain"), ("content-encoding", "gzip")],
    );
    let two = parts(
        "POST",
        "https://a.example/pay",
        &[
            ("content-type", "Text/PLAIN ; charset=utf-8"),
            ("content-encoding", "GZIP"),
            ("x-stainless-retry-count", "1"),
            ("authorization", "AWS4 ..."),
            ("range", "bytes=0-"),
        ],
    );
    assert_eq!(rules.of(&one, b"x", None), rules.of(&two, b"x", None));
}

#[test]
fn bodies_count_byte_by_byte_unless_said_otherwise() {
    let media = "application/json";
    let bytes = FingerprintRules::default();
    assert_ne!(of(&bytes, media, b"[1]"), of(&bytes, media, b"[ 1]"));
    let none = rules(BodyRule::None);
    assert_eq!(of(&none, media, b"[1]"), of(&none, media, b"[2]"));
}

#[test]
fn json_counts_by_value_whatever_the_media_type_says() {
    let rules = json(&[], &[]);
    for media in ["application/json", "text/plain"] {
        assert_eq!(
            of(&rules, media, b"[1, 2]"),
            of(&rules, media, b"[1.0,2e0]")
        );
        assert_ne!(of(&rules, media, b"[1, 2]"), of(&rules, media, b"[2, 1]"));
    }
    assert_ne!(of(&rules, FORM, b"{1"), of(&rules, FORM, b"{ 1"));
    assert_ne!(of(&rules, FORM, b""), of(&rules, FORM, b" "));
}

#[test]
fn a_body_that_is_not_json_counts_whole_under_pointers() {
    for rules in [json(&["/a"], &[]), json(&[], &["/a"])] {
        let twice = |b: u8| format!("{{\"a\":1,\"b\":{b},\"b\":{b}}}");
        let print = |b| of(&rules, "application/json", twice(b).as_bytes());
        assert_ne!(print(1), print(2));
        assert_eq!(print(1), print(1));
    }
}

#[test]
fn a_body_read_as_json_is_not_the_bytes_of_its_spelling() {
    let rules = json(&[], &[]);
    let spelling = json::canonical(b"null", &[], &[]).unwrap();
    assert_ne!(of(&rules, "a/b", b"null"), of(&rules, "a/b", &spelling));
}

#[test]
fn forms_and_multipart_need_their_media_type() {
    let form = rules(BodyRule::Form);
    assert_eq!(of(&form, FORM, b"a=1&b=2"), of(&form, FORM, b"b=2&a=1"));
    assert_ne!(
        of(&form, "text/plain", b"a=1&b=2"),
        of(&form, "text/plain", b"b=2&a=1")
    );

    let multipart = rules(BodyRule::Multipart);
    let one = of(
        &multipart,
        "multipart/form-data; boundary=x",
        b"--x\r\n\r\na\r\n--x--",
    );
    let two = of(
        &multipart,
        "multipart/form-data; boundary=y",
        b"--y\r\n\r\na\r\n--y--",
    );
    let other = of(
        &multipart,
        "multipart/form-data; boundary=y",
        b"--y\r\n\r\nb\r\n--y--",
    );
    assert_eq!(one, two);
    assert_ne!(one, other);
    let cut = |media| of(&multipart, media, b"--x\r\n\r\na");
    assert_eq!(
        cut("multipart/form-data; boundary=x"),
        cut("multipart/form-data")
    );
}

#[test]
fn chosen_headers_count_with_all_their_lines() {
    let rules = with_headers(&["if-match", "x-version"]);
    let lines: [&[(&'static str, &'static str)]; 7] = [
        &[],
        &[("if-match", "")],
        &[("if-match", "a")],
        &[("if-match", "a"), ("if-match", "b")],
        &[("if-match", "b"), ("if-match", "a")],
        &[("x-version", "a")],
        &[("if-match", "a"), ("x-version", "b")],
    ];
    let requests = lines.map(|lines| parts("POST", "/pay", lines));
    assert_all_differ(&rules, &requests);
    let noise = parts("POST", "/pay", &[("if-match", "a"), ("x-trace", "1")]);
    assert_eq!(
        rules.of(&noise, b"x", None),
        rules.of(&requests[2], b"x", None)
    );
}

#[test]
fn order_and_repetition_of_chosen_headers_do_not_count() {
    let request = parts("POST", "/pay", &[("if-match", "a")]);
    let one = with_headers(&["if-match", "x-version"]).of(&request, b"x", None);
    let two = with_headers(&["x-version", "if-match", "x-version"]).of(&request, b"x", None);
    assert_eq!(one, two);
}

#[test]
fn trailers_count_if_there_are_any() {
    let request = parts("POST", "/pay", &[]);
    let rules = FingerprintRules::default();
    let print = |trailers: &HeaderMap| rules.of(&request, b"x", Some(trailers));
    let mut trailers = HeaderMap::new();
    assert_eq!(print(&trailers), rules.of(&request, b"x", None));
    trailers.insert("x-sum", HeaderValue::from_static("1"));
    let one = print(&trailers);
    assert_ne!(one, rules.of(&request, b"x", None));
    trailers.insert("x-sum", HeaderValue::from_static("2"));
    assert_ne!(one, print(&trailers));
}

#[test]
fn rules_that_say_something_else_have_another_version() {
    let all = [
        FingerprintRules::default(),
        rules(BodyRule::Form),
        rules(BodyRule::Multipart),
        rules(BodyRule::None),
        json(&[], &[]),
        json(&["/a"], &[]),
        json(&[], &["/a"]),
        json(&["/b"], &[]),
        json(&["/a", "/b"], &[]),
        with_headers(&["if-match"]),
        with_headers(&["if-match", "x-version"]),
    ];
    for (at, one) in all.iter().enumerate() {
        assert_ne!(one.version(), 0);
        for two in &all[..at] {
            assert_ne!(one.version(), two.version(), "{one:?} {two:?}");
        }
    }
}

#[test]
fn order_and_repetition_do_not_change_the_version() {
    assert_eq!(
        json(&["/a", "/b"], &[]).version(),
        json(&["/b", "/a", "/b"], &[]).version()
    );
    let headers = |names: &[&'static str]| with_headers(names).version();
    assert_eq!(headers(&["a", "b"]), headers(&["b", "a", "a"]));
}

#[test]
fn versions_stay_what_they_were_released_as() {
    // Records keep these numbers: a change here makes every key in use a mismatch.
    assert_eq!(FingerprintRules::default().version(), 47628);
    assert_eq!(json(&["/note"], &[]).version(), 21355);
    assert_eq!(with_headers(&["if-match"]).version(), 15849);
}

#[test]
fn digests_stay_what_they_were_released_as() {
    let secret = Secret::from_bytes([7; 32]);
    let slot = SlotId::from_bytes([9; 32]);
    let digest = |rules: &FingerprintRules, media: &'static str, body: &[u8]| {
        let lines = [("content-type", media), ("if-match", "v1")];
        let request = parts("POST", "/pay?a=b", &lines);
        let [a, b, c, d, ..] = rules.of(&request, body, None).seal(&secret, slot).digest;
        u32::from_be_bytes([a, b, c, d])
    };
    let body = br#"{"b":[1,-2.50,"x\u00e9"],"a":null}"#;
    assert_eq!(
        digest(&FingerprintRules::default(), "application/json", body),
        0x9006_01c3
    );
    assert_eq!(
        digest(&json(&[], &[]), "application/json", body),
        0xe06f_2fdb
    );
    assert_eq!(
        digest(&json(&["/a"], &[]), "application/json", body),
        0x1ab9_7e7e
    );
    assert_eq!(
        digest(&json(&[], &["/b/1"]), "application/json", body),
        0xaaf9_24d2
    );
    assert_eq!(
        digest(&rules(BodyRule::Form), FORM, b"b=1&a=2"),
        0x30db_00de
    );
    let multipart = b"--x\r\nA: b\r\n\r\nc\r\n--x--";
    let media = "multipart/form-data; boundary=x";
    assert_eq!(
        digest(&rules(BodyRule::Multipart), media, multipart),
        0x46bd_1bc0
    );
    assert_eq!(digest(&rules(BodyRule::None), FORM, body), 0x8e5e_5ab4);
    assert_eq!(
        digest(&with_headers(&["if-match"]), FORM, body),
        0xc9fb_1fa9
    );
}
