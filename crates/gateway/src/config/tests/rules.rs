//! What names work besides its key, and how long bodies are kept.

use onceward::{Suspicion, Then};

use super::*;

fn warnings(text: &str) -> Vec<String> {
    let warnings = parsed(text).warnings;
    warnings.iter().map(Problem::to_string).collect()
}

#[test]
fn rules_can_be_set_in_full_and_in_short() {
    let config = parsed(
        r#"
[defaults]
suspect = { same = ["/user"], within = "5s" }

[[route]]
match = "POST /orders/{order}/pay"
operation = "pay"
unique = [
    { name = "paid-order", on = ["{order}"], then = "refuse" },
    { name = "paid-invoice", on = ["/invoice", "/year"] },
]
suspect = { name = "same-payment", same = ["/user", "/amount"], within = "30s", then = "refuse" }
retention = "30d"
keep_body = "24h"

[[route]]
match = "POST /payments"
key = "required"
unique = [{ name = "paid-order", on = ["/order_id"] }]
"#,
    );
    assert_eq!(config.warnings, []);
    let [pay, plain] = &config.routes[..] else {
        panic!("{:?}", config.routes);
    };
    let [order, invoice] = &pay.terms.unique[..] else {
        panic!("{:?}", pay.terms.unique);
    };
    assert_eq!((&*order.name, order.then), ("paid-order", Then::Refuse));
    assert_eq!(order.on.to_string(), "{order}");
    assert_eq!(
        (&*invoice.name, invoice.then),
        ("paid-invoice", Then::Return)
    );
    assert_eq!(invoice.on.to_string(), "/invoice and /year");
    let suspect = pay.terms.suspect.as_ref().unwrap();
    assert_eq!(&*suspect.name, "same-payment");
    assert_eq!(suspect.within, Duration::from_secs(30));
    assert_eq!(suspect.then, Suspicion::Refuse);
    let keep = Some(Duration::from_secs(86_400));
    assert_eq!(pay.terms.policy.keep_body, keep);
    assert!(pay.terms.needs_path());

    // A rule without a name is that of its route: others have nothing to do with it.
    let inherited = plain.terms.suspect.as_ref().unwrap();
    assert_eq!(&*inherited.name, "POST /payments");
    assert_eq!(inherited.then, Suspicion::Flag);
    assert!(!plain.terms.needs_path());
    let rest = config.fallback.suspect.as_ref().unwrap();
    assert_eq!(&*rest.name, "default");
}

#[test]
fn a_route_whose_work_succeeds_once_needs_keys() {
    let rule = "unique = [{ name = \"a\", on = [\"/a\"] }]";
    let config = parsed(&format!("[[route]]\nmatch = \"POST /a\"\n{rule}"));
    assert_eq!(config.routes[0].terms.key, KeyNeed::Required);
    assert_eq!(config.fallback.key, KeyNeed::Optional);
    assert_eq!(config.warnings, []);
    let told = warnings(&format!("[defaults]\nkey = \"optional\"\n{rule}"));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("f.toml:4:1: unique needs a key"),
        "{told:?}"
    );
    // None at all is a rule for nothing, and takes away that of the defaults.
    let config = parsed(&format!(
        "[defaults]\n{rule}\n[[route]]\nmatch = \"POST /a\"\nunique = []"
    ));
    assert_eq!(config.routes[0].terms.unique, []);
    assert_eq!(config.routes[0].terms.key, KeyNeed::Optional);
}

#[test]
fn a_route_without_keys_takes_no_rule_over() {
    let config = parsed(
        r#"
[defaults]
unique = [{ name = "a", on = ["/a"] }]
suspect = { same = ["/a"], within = "1s" }
retention = "7d"
keep_body = "24h"

[[route]]
match = "POST /off"
key = "off"

[[route]]
match = "POST /short"
retention = "12h"
"#,
    );
    let off = &config.routes[0].terms;
    assert_eq!((off.unique.len(), &off.suspect), (0, &None));
    let short = &config.routes[1].terms;
    assert_eq!(short.unique.len(), 1);
    assert_eq!(short.policy.keep_body, None);
    let day = Duration::from_secs(86_400);
    assert_eq!(config.fallback.policy.keep_body, Some(day));
}

#[test]
fn each_mistake_in_a_rule_is_told_at_its_place() {
    let route = |text: &str| format!("[[route]]\nmatch = \"POST /a/{{id}}\"\n{text}");
    for (text, wanted) in [
        (
            "unique = \"/a\"",
            "4:10: unique is a string, where a list of tables",
        ),
        (
            "unique = [\"/a\"]",
            "4:11: unique is a string, where a table",
        ),
        (
            "unique = [{ on = [\"/a\"] }]",
            "4:11: a rule of unique has no name",
        ),
        ("unique = [{ name = \"a\" }]", "4:11: the rule has no on"),
        (
            "unique = [{ name = \"a b\", on = [\"/a\"] }]",
            "4:20: name \"a b\" is not the name",
        ),
        (
            "unique = [{ name = \"a\", on = [] }]",
            "4:30: on names nothing",
        ),
        (
            "unique = [{ name = \"a\", on = [\"a\"] }]",
            "4:31: on \"a\" is neither",
        ),
        (
            "unique = [{ name = \"a\", on = [\"/a\", \"/a\"] }]",
            "4:30: on names /a twice",
        ),
        (
            "unique = [{ name = \"a\", on = [\"{no}\"] }]",
            "4:11: the rule names {no}, which is no part of the match",
        ),
        (
            "unique = [{ name = \"a\", on = [\"/a\"], then = \"flag\" }]",
            "4:45: then \"flag\" is not known",
        ),
        (
            "unique = [{ name = \"a\", on = [\"/a\"] }, { name = \"a\", on = [\"/b\"] }]",
            "4:49: \"a\" is the name of two rules",
        ),
        ("suspect = {}", "4:11: the rule has no same"),
        (
            "suspect = { same = [\"/a\"] }",
            "4:11: suspect has no within",
        ),
        (
            "suspect = { same = [\"/a\"], within = \"0s\" }",
            "4:37: within \"0s\" is no time at all",
        ),
        (
            "suspect = { same = [\"/a\"], within = \"1s\", then = \"hold\" }",
            "4:50: then \"hold\" is not known",
        ),
        (
            "key = \"off\"\nsuspect = { same = [\"/a\"], within = \"1s\" }",
            "5:11: suspect means nothing where keys are off",
        ),
        (
            "key = \"off\"\nunique = [{ name = \"a\", on = [\"/a\"] }]",
            "5:1: unique means nothing where keys are off",
        ),
        ("keep_body = \"0s\"", "4:13: keep_body \"0ms\" is no time"),
        (
            "keep_body = \"24h\"",
            "4:13: keep_body \"1d\" is not below the retention of 1d",
        ),
        (
            "retention = \"2h\"\nkeep_body = \"3h\"",
            "5:13: keep_body \"3h\" is not below the retention of 2h",
        ),
    ] {
        let told = problems(&route(text));
        let wanted = format!("f.toml:{wanted}");
        assert!(told[0].starts_with(&wanted), "{text}: {told:?}");
    }
}

#[test]
fn rules_of_one_name_name_the_same_number_of_fields() {
    let text = r#"
[[route]]
match = "POST /a"
unique = [{ name = "paid", on = ["/order"] }]
suspect = { name = "same", same = ["/user"], within = "1s" }
[[route]]
match = "POST /b"
unique = [{ name = "paid", on = ["/order", "/part"] }]
suspect = { name = "same", same = ["/user", "/amount"], within = "1s" }
[[route]]
match = "POST /c/{order}"
unique = [{ name = "paid", on = ["{order}"] }]
"#;
    let told = problems(text);
    let wanted = [
        "f.toml:9:11: \"paid\" names 2 fields here and another number on line 4",
        "f.toml:10:11: \"same\" names 2 fields here and another number on line 4",
        "f.toml:13:11: \"paid\" names 1 fields here and another number on line 8",
    ];
    assert_eq!(told.len(), wanted.len(), "{told:?}");
    for (told, wanted) in told.iter().zip(wanted) {
        assert!(told.starts_with(wanted), "{told}");
    }
}
