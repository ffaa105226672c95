//! `onceward inspect`.

use serde_json::{Value, json};

use crate::{Run, deployment::Deployment};

const PAID: &str = "inspect --tenant acct_42 --operation pay --key paid";
const LOST: &str = "inspect --tenant acct_42 --operation pay --key lost";

/// Returns the fact that a table has under `name`.
fn fact<'a>(table: &'a str, name: &str) -> &'a str {
    let mut lines = table.lines().filter_map(|line| line.split_once("  "));
    let line = lines.find(|(it, _)| *it == name);
    line.unwrap_or_else(|| panic!("no {name} in {table}"))
        .1
        .trim()
}

#[test]
fn everything_but_the_answer_is_shown() {
    let deployment = Deployment::with_records();
    let record = deployment.record("paid").unwrap();
    let inspected = deployment.run(PAID);
    let table = inspected.expect_done();
    assert_eq!(fact(table, "slot"), deployment.id("paid").to_string());
    assert_eq!(fact(table, "state"), "completed");
    assert_eq!(fact(table, "tenant"), "acct_42");
    assert_eq!(fact(table, "operation"), "pay");
    assert_eq!(fact(table, "effect"), "opaque");
    assert_eq!(fact(table, "attempt"), "1");
    assert_eq!(fact(table, "retention"), "1d");
    assert_eq!(fact(table, "fence"), record.fence.to_string());
    assert_eq!(fact(table, "generation"), record.generation.to_string());
    assert_eq!(fact(table, "outcome"), "success, head 0 B, body 11 B");
    assert!(fact(table, "due").ends_with("expires in 23h 59m"));
    assert!(!table.contains("charged"), "{table}");
    assert_eq!(inspected.stderr, "");
}

#[test]
fn body_is_shown_to_those_who_ask() {
    let deployment = Deployment::with_records();
    let inspected = deployment.run(&format!("{PAID} --body"));
    assert!(inspected.expect_done().ends_with("\n\ncharged 100\n"));

    let object = deployment
        .run(&format!("{PAID} --body --json"))
        .expect_json();
    assert_eq!(object["body"], "charged 100");
    let object = deployment.run(&format!("{PAID} --json")).expect_json();
    assert_eq!(object.get("body"), None);
    assert_eq!(object["outcome"]["body_bytes"], 11);
}

#[test]
fn answer_has_its_status_and_headers() {
    let deployment = Deployment::with_records();
    let line = "resolve --tenant acct_42 --operation pay --key lost --why ledger \
                --completed - --status 201";
    let mut command = deployment.command(line);
    Run::of(command.args(["--header", "Content-Type: text/plain"])).expect_done();

    let inspected = deployment.run(&format!("{LOST} --body"));
    let table = inspected.expect_done();
    assert_eq!(fact(table, "status"), "201");
    assert!(table.ends_with("\n\ncontent-type: text/plain\n"), "{table}");
    let hidden = deployment.run(LOST);
    assert!(!hidden.expect_done().contains("text/plain"));

    let object = deployment
        .run(&format!("{LOST} --body --json"))
        .expect_json();
    assert_eq!(object["status"], 201);
    assert_eq!(object["headers"], json!([["content-type", "text/plain"]]));
    let object = deployment.run(&format!("{LOST} --json")).expect_json();
    assert_eq!(object["status"], 201);
    assert_eq!(object.get("headers"), None);

    // What no gateway recorded has no status.
    let object = deployment.run(&format!("{PAID} --json")).expect_json();
    assert_eq!(object["status"], Value::Null);
}

#[test]
fn body_that_is_not_text_is_left_to_machines() {
    let deployment = Deployment::new();
    deployment.serve(async |service| service.complete("paid", b"\xff\x1b[2J").await);
    let inspected = deployment.run(&format!("{PAID} --body"));
    assert!(!inspected.expect_done().contains('\u{1b}'));
    assert!(inspected.stderr.contains("--json"), "{}", inspected.stderr);

    let object = deployment
        .run(&format!("{PAID} --body --json"))
        .expect_json();
    assert_eq!(object["body_hex"], "ff1b5b324a");
}

#[test]
fn unknown_record_says_why_and_what_to_do() {
    let deployment = Deployment::with_records();
    let inspected = deployment.run(LOST);
    let table = inspected.expect_done();
    assert_eq!(fact(table, "reason"), "no answer");
    assert_eq!(fact(table, "due"), "never");
    let hint = format!("onceward resolve --slot {}", deployment.id("lost"));
    assert!(inspected.stderr.contains(&hint), "{}", inspected.stderr);

    let bodiless = deployment.run(&format!("{LOST} --body"));
    assert!(
        bodiless.stderr.contains("there is no body"),
        "{}",
        bodiless.stderr
    );
}

#[test]
fn notes_and_points_are_shown() {
    let deployment = Deployment::new();
    deployment.serve(async |service| {
        let claim = service.claim("lost").await;
        claim.reached("reserved", "seat 12").await.unwrap();
        drop(claim);
    });
    let inspected = deployment.run(LOST);
    assert_eq!(fact(inspected.expect_done(), "point"), "reserved, 7 B");

    let line = "release --all --who bob --why ledger";
    deployment.run(line).expect_done();
    let object = deployment.run(&format!("{LOST} --json")).expect_json();
    let note = &object["notes"][0];
    assert_eq!(note["who"], "bob");
    assert_eq!(note["why"], "ledger");
    assert_eq!(note["deed"], "not executed");
    assert_eq!(object["mark"], Value::Null);
    let inspected = deployment.run(LOST);
    let note = fact(inspected.expect_done(), "note");
    assert!(note.ends_with("not executed by bob: ledger"), "{note}");
}

#[test]
fn absent_record_is_a_no() {
    let deployment = Deployment::with_records();
    for line in [
        "inspect --tenant acct_42 --operation pay --key never",
        "inspect --tenant acct_43 --operation pay --key paid",
        "inspect --slot 0123456789abcdef --json",
    ] {
        let absent = deployment.run(line);
        assert!(absent.expect_no().contains("there is no record"), "{line}");
        assert_eq!(absent.stdout, "");
    }
}

#[test]
fn secret_is_never_shown() {
    let deployment = Deployment::with_records();
    for digits in ["0".repeat(8), "0".repeat(64)] {
        let line = format!("inspect --body --json --slot {digits}");
        deployment.run(&line).expect_no();
    }
}

#[test]
fn unused_store_stays_unused() {
    let deployment = Deployment::new();
    deployment.run(PAID).expect_no();
    deployment.run("sweep").expect_done();
    let again = deployment.secret(onceward::Secret::from_bytes([7; 32]));
    again.serve(async |service| {
        let secret = service.engine.secret().await;
        assert!(secret.is_ok(), "somebody else has made the secret");
    });
}

#[test]
fn record_has_to_be_named() {
    let deployment = Deployment::with_records();
    for line in [
        "inspect",
        "inspect --key paid",
        "inspect --tenant acct_42",
        "inspect --tenant acct_42 --operation pay",
    ] {
        let refused = deployment.run(line);
        let (error, hint) = refused.expect_failed();
        assert_eq!(error, "no record is named", "{line}");
        assert!(hint.contains("--slot"), "{hint}");
    }
}

#[test]
fn digits_of_a_slot_are_checked() {
    let deployment = Deployment::with_records();
    for (digits, problem) in [
        ("xyz01234", "is not made of hex digits"),
        ("0123", "is too short"),
        (&"0".repeat(65), "is too long"),
    ] {
        let refused = deployment.run(&format!("inspect --slot {digits}"));
        let (error, hint) = refused.expect_failed();
        assert!(error.starts_with(&format!("--slot {digits:?} ")), "{error}");
        assert!(error.contains(problem), "{error}");
        assert!(hint.contains("8 to 64 hex digits"), "{hint}");
    }
    let refused = deployment.run("list --after 0123");
    assert!(refused.expect_failed().0.contains("is not a slot"));
}

#[test]
fn answer_for_machines_has_every_field() {
    let deployment = Deployment::with_records();
    let object = deployment.run(&format!("{LOST} --json")).expect_json();
    let mut fields: Vec<_> = object
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    fields.sort_unstable();
    let wanted = "attempt began due effect fence generation keep_body_s lease_s mark notes now \
                  operation outcome point reason reservation retention_s slot state status tenant \
                  unknown_retention_s written";
    assert_eq!(fields, wanted.split_whitespace().collect::<Vec<_>>());
    assert_eq!(object["notes"], json!([]));
}
