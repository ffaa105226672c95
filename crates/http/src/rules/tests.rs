use http::Request;

use super::*;
use crate::PathFields;

const JSON: &str = "application/json";

fn parts(media: &str, path: &[(&str, &str)]) -> Parts {
    let request = Request::post("/pay").header("content-type", media);
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    let path = PathFields::from_iter(path.iter().copied());
    parts.extensions.insert(path);
    parts
}

#[test]
fn every_field_that_is_missing_is_named_to_the_caller() {
    let rule = UniqueRule::new(
        "paid-order",
        Fields::parse(["/order_id", "{order}", "/to/iban"]).unwrap(),
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
    let rule = SuspectRule::new("same", Fields::parse(["/user", "/amount"]).unwrap(), within);
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
