//! Which pattern matches what, and which of them wins.

use proptest::prelude::*;

use super::{InvalidPattern, Pattern, Routes};
use http::Method;

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap()
}

fn routes(texts: &[&str]) -> Routes<Pattern> {
    Routes::new(texts.iter().map(|text| pattern(text)).collect())
}

/// Returns which of `texts` is found for `request`, or nothing.
fn found(texts: &[&str], request: &str) -> String {
    let (method, path) = request.split_once(' ').unwrap();
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let routes = routes(texts);
    let found = routes.find(&method, path);
    found.map_or_else(String::new, Pattern::to_string)
}

#[test]
fn patterns_read_back_as_they_are_shown() {
    for text in [
        "POST /",
        "* /{*rest}",
        "POST /payments",
        "POST /payments/",
        "DELETE /a/{id}/b-c_d.e~f/{*path}",
        "PURGE /caf%C3%A9//x",
    ] {
        assert_eq!(pattern(text).to_string(), text);
    }
}

#[test]
fn what_is_no_pattern_is_refused_with_its_reason() {
    use InvalidPattern::{AfterRest, Braces, Character, Method, Relative, Shape, Twice};
    for (text, why) in [
        ("", Shape),
        ("/payments", Shape),
        ("POST", Shape),
        ("POST  /payments", Shape),
        ("POST /a /b", Shape),
        ("post /a", Method("post".into())),
        ("P(ST /a", Method("P(ST".into())),
        ("POST payments", Relative),
        ("POST /a?b", Character('?')),
        ("POST /a#b", Character('#')),
        ("POST /caf\u{e9}", Character('\u{e9}')),
        ("POST /a{id}", Braces("a{id}".into())),
        ("POST /{}", Braces("{}".into())),
        ("POST /{*}", Braces("{*}".into())),
        ("POST /{a.b}", Braces("{a.b}".into())),
        ("POST /{id", Braces("{id".into())),
        ("POST /{*rest}/more", AfterRest("{*rest}".into())),
        ("POST /{*rest}/", AfterRest("{*rest}".into())),
        ("POST /{id}/{id}", Twice("id".into())),
    ] {
        let refused = Pattern::parse(text).unwrap_err();
        assert!(!refused.hint().is_empty());
        assert_eq!(refused, why, "{text}");
    }
}

#[test]
fn a_pattern_matches_whole_paths_as_received() {
    for (text, request, matches) in [
        ("POST /payments", "POST /payments", true),
        ("POST /payments", "POST /payments/", false),
        ("POST /payments/", "POST /payments/", true),
        ("POST /payments/", "POST /payments", false),
        ("POST /payments", "POST /Payments", false),
        ("POST /payments", "POST /%70ayments", false),
        ("POST /payments", "PUT /payments", false),
        ("* /payments", "PUT /payments", true),
        ("POST /", "POST /", true),
        ("POST /", "POST //", false),
        ("POST /a/{id}", "POST /a/7", true),
        ("POST /a/{id}", "POST /a/", false),
        ("POST /a/{id}", "POST /a", false),
        ("POST /a/{id}", "POST /a/7/", false),
        ("POST /a/{id}", "POST /a/7%2F8", true),
        ("POST /{*rest}", "POST /", false),
        ("POST /{*rest}", "POST /a", true),
        ("POST /{*rest}", "POST //", true),
        ("POST /a/{*rest}", "POST /a/b/c/", true),
        ("POST /a/{*rest}", "POST /a/", false),
        ("POST /a/{*rest}", "POST /ab", false),
        ("* /{*rest}", "OPTIONS *", false),
    ] {
        assert_eq!(
            !found(&[text], request).is_empty(),
            matches,
            "{text} {request}"
        );
        let path = request.split_once(' ').unwrap().1;
        let captured = pattern(text).captures(path).is_some();
        assert!(!matches || captured, "{text} {request}");
    }
}

#[test]
fn the_most_specific_pattern_wins_whatever_the_order() {
    let mut texts = [
        "* /{*rest}",
        "POST /{*rest}",
        "* /a/{*rest}",
        "* /a/{x}",
        "POST /a/{x}",
        "* /a/b",
        "PUT /a/b",
        "POST /{x}/b",
        "* /a/{x}/c",
        "* /a/b/{*rest}",
    ];
    for _ in 0..2 {
        for (request, wanted) in [
            ("POST /a/b", "* /a/b"),
            ("PUT /a/b", "PUT /a/b"),
            ("POST /a/z", "POST /a/{x}"),
            ("PUT /a/z", "* /a/{x}"),
            ("POST /z/b", "POST /{x}/b"),
            ("PUT /z/b", "* /{*rest}"),
            ("POST /z/z", "POST /{*rest}"),
            ("POST /a/b/c", "* /a/b/{*rest}"),
            ("POST /a/z/c", "* /a/{x}/c"),
            ("POST /a/z/z", "* /a/{*rest}"),
            ("POST /a/", "POST /{*rest}"),
        ] {
            assert_eq!(found(&texts, request), wanted, "{request}");
        }
        texts.reverse();
    }
}

#[test]
fn a_more_specific_path_with_another_method_does_not_stand_in_the_way() {
    let texts = ["PUT /a/b/c", "PUT /a/{x}/{y}", "POST /{*rest}"];
    assert_eq!(found(&texts, "POST /a/b/c"), "POST /{*rest}");
    assert_eq!(found(&texts, "PUT /a/b/d"), "PUT /a/{x}/{y}");
}

#[test]
fn only_names_may_differ_between_patterns_that_shadow_each_other() {
    assert!(pattern("POST /a/{x}").shadows(&pattern("POST /a/{y}")));
    assert!(pattern("* /{*a}").shadows(&pattern("* /{*b}")));
    for (one, two) in [
        ("* /a", "POST /a"),
        ("POST /a", "* /a"),
        ("POST /{x}", "POST /{*x}"),
        ("POST /{x}", "POST /a"),
        ("POST /a", "POST /a/"),
    ] {
        assert!(!pattern(one).shadows(&pattern(two)), "{one} {two}");
    }
}

#[test]
fn named_parts_are_captured() {
    let captured = pattern("POST /a/{id}/b/{*rest}")
        .captures("/a/7/b/c/d")
        .map(|found| {
            let shown = found.iter().map(|(name, part)| format!("{name}={part}"));
            shown.collect::<Vec<_>>()
        });
    assert_eq!(captured.unwrap(), ["id=7", "rest=c/d"]);
    assert_eq!(pattern("POST /a/{id}").names().collect::<Vec<_>>(), ["id"]);
    assert!(pattern("POST /a").captures("/a/b").is_none());
    assert!(pattern("POST /a/b").captures("/a").is_none());
}

fn segment() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", ""])
}

/// How specific each segment is, so that a comparison of two lists says which pattern wins.
fn rank(pattern: &Pattern) -> (Vec<u8>, bool) {
    let path = pattern.path();
    let ranks = path[1..].split('/').map(|part| match part {
        part if part.starts_with("{*") => 2,
        part if part.starts_with('{') => 1,
        _ => 0,
    });
    (ranks.collect(), pattern.method().is_none())
}

proptest! {
    /// The tree finds what a look at every pattern finds.
    #[test]
    fn lookup_agrees_with_looking_at_every_pattern(
        patterns in prop::collection::vec(
            (any::<bool>(), prop::collection::vec(0u8..4, 1..4), any::<bool>()), 0..20),
        path in prop::collection::vec(segment(), 1..5),
    ) {
        let patterns: Vec<_> = patterns.into_iter().map(|(any, parts, rest)| {
            let mut text = String::from(if any { "*" } else { "POST" });
            text.push(' ');
            for (at, part) in parts.iter().enumerate() {
                match part {
                    0 => text.push_str("/a"),
                    1 => text.push_str("/b"),
                    2 => text.push('/'),
                    _ => text.push_str(&format!("/{{n{at}}}")),
                }
            }
            if rest {
                text.push_str("/{*rest}");
            }
            Pattern::parse(&text).unwrap()
        }).collect();
        let path = format!("/{}", path.join("/"));
        let best = patterns
            .iter()
            .filter(|pattern| pattern.captures(&path).is_some())
            .min_by_key(|pattern| rank(pattern));
        let routes = Routes::new(patterns.clone());
        prop_assert_eq!(routes.find(&Method::POST, &path), best);
    }
}

#[test]
fn parts_of_the_path_are_decoded_for_fields() {
    let pattern = Pattern::parse("POST /a/{id}/{*rest}").unwrap();
    let of = |path: &str| pattern.path_fields(path);
    let found = of("/a/%41%2Fb/x%2f%25/%79");
    assert_eq!(found.get("id"), Some("A/b"));
    assert_eq!(found.get("rest"), Some("x%2F%25/y"));
    assert_eq!(of("/a/A%2fb/x%2F%25/y"), found);
    // A slash that is part of a segment separates nothing.
    assert_ne!(of("/a/1/x%2Fy").get("rest"), of("/a/1/x/y").get("rest"));
    assert_ne!(of("/a/1/x%252Fy").get("rest"), of("/a/1/x%2Fy").get("rest"));
    for unreadable in ["%FF", "%", "%4", "%zz", "a%"] {
        let found = of(&format!("/a/{unreadable}/{unreadable}"));
        assert_eq!((found.get("id"), found.get("rest")), (None, None));
    }
    assert_eq!(of("/elsewhere"), onceward_http::PathFields::default());
}
