use http::Request;

use super::*;
use crate::PathFields;

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

fn parts(media: &str, path: &[(&str, &str)]) -> Parts {
    let request = Request::post("/pay").header("content-type", media);
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    let path = PathFields::from_iter(path.iter().copied());
    parts.extensions.insert(path);
    parts
}

fn value(names: &[&str], media: &str, body: &str) -> Result<Vec<u8>, MissingFields> {
    let facts = Facts::parse(names).unwrap();
    facts.value(&parts(media, &[("order", "42")]), body.as_bytes())
}

fn json(names: &[&str], body: &str) -> Vec<u8> {
    value(names, JSON, body).unwrap()
}

#[test]
fn one_thing_is_the_same_however_a_route_calls_and_spells_it() {
    let one = json(&["/order_id"], r#"{"order_id": 42, "note": "again"}"#);
    assert_eq!(value(&["{order}"], JSON, ""), Ok(one.clone()));
    assert_eq!(value(&["/order"], FORM, "order=42"), Ok(one.clone()));
    for same in [r#"{"id":"42"}"#, r#"{"id":42.0}"#, r#"{"id":4.2e1}"#] {
        assert_eq!(json(&["/id"], same), one, "{same}");
    }
    let others = [
        r#"{"id":"042"}"#,
        r#"{"id":"42.0"}"#,
        r#"{"id":"4.2e1"}"#,
        r#"{"id":" 42"}"#,
        r#"{"id":"-42"}"#,
        r#"{"id":-42}"#,
        r#"{"id":[42]}"#,
        r#"{"id":420}"#,
        r#"{"id":""}"#,
        r#"{"id":true}"#,
    ];
    for other in others {
        assert_ne!(json(&["/id"], other), one, "{other}");
    }
}

#[test]
fn large_numbers_are_not_rounded_into_each_other() {
    let of = |id: &str| json(&["/id"], &format!(r#"{{"id":{id}}}"#));
    assert_ne!(of("9007199254740992"), of("9007199254740993"));
    assert_eq!(of("9007199254740993"), of("\"9007199254740993\""));
}

#[test]
fn values_are_compared_one_by_one_in_the_order_of_the_rule() {
    let body = r#"{"a":"x","b":"y"}"#;
    assert_ne!(json(&["/a", "/b"], body), json(&["/b", "/a"], body));
    let swapped = r#"{"b":"x","a":"y"}"#;
    assert_eq!(json(&["/a", "/b"], body), json(&["/b", "/a"], swapped));
    let glued = r#"{"a":"xy","b":""}"#;
    assert_ne!(json(&["/a", "/b"], body), json(&["/a", "/b"], glued));
}

#[test]
fn every_field_that_is_missing_is_named_to_the_caller() {
    let rule = UniqueRule::new(
        "paid-order",
        Facts::parse(["/order_id", "{order}", "/to/iban"]).unwrap(),
    );
    let body = br#"{"order_id": null, "to": {}}"#;
    let told = match rule.identity(&parts(JSON, &[]), body) {
        Err(Problem::InvalidRequest(told)) => told,
        other => panic!("{other:?}"),
    };
    let wanted = "This operation is done once for each /order_id, {order} and /to/iban, but the \
                  request has no /order_id and no {order} and no /to/iban. Nothing was executed.";
    assert_eq!(told, wanted);
    let unreadable = rule.identity(&parts(JSON, &[("order", "1")]), b"{\"order_id\":1,");
    assert!(matches!(unreadable, Err(Problem::InvalidRequest(_))));
}

#[test]
fn facts_that_are_not_all_there_are_nobody_elses() {
    let within = Duration::from_secs(30);
    let rule = SuspectRule::new("same", Facts::parse(["/user", "/amount"]).unwrap(), within);
    let parts = parts(JSON, &[]);
    assert!(
        rule.identity(&parts, br#"{"user":"a","amount":1}"#)
            .is_some()
    );
    for missing in ["", "{}", r#"{"user":"a"}"#, r#"{"user":"a","amount":1"#] {
        assert!(rule.identity(&parts, missing.as_bytes()).is_none());
    }
}

#[test]
fn a_rule_names_each_field_once_and_at_least_one() {
    assert_eq!(Facts::parse([""; 0]), Err(InvalidField::None));
    let twice = Facts::parse(["/a", "/b", "/a"]);
    assert_eq!(twice, Err(InvalidField::Twice("/a".into())));
    let facts = Facts::parse(["{z}", "/a"]).unwrap();
    assert_eq!((facts.to_string(), facts.count()), ("{z} and /a".into(), 2));
    assert_eq!(facts.path_names().collect::<Vec<_>>(), ["z"]);
}

#[test]
fn the_word_that_confirms_is_taken_away_whatever_it_is() {
    for (line, confirms) in [("intended", true), (" intended", true), ("yes", false)] {
        let mut parts = parts(JSON, &[]);
        let line = line.parse().unwrap();
        parts.headers.insert(IDEMPOTENCY_CONFIRM, line);
        take_confirmation(&mut parts);
        assert!(!parts.headers.contains_key(IDEMPOTENCY_CONFIRM));
        let confirmed = parts.extensions.get::<Confirmed>().is_some();
        assert_eq!(confirmed, confirms);
    }
}
