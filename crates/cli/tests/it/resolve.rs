//! `onceward resolve` and `onceward release`.

use std::{fs, process::Stdio};

use onceward::{Ending, State};
use serde_json::json;

use crate::{Run, deployment::Deployment};

const LOST: &str = "--tenant acct_42 --operation pay --key lost --why ledger";
const PAID: &str = "--tenant acct_42 --operation pay --key paid --why ledger";

/// Writes an answer beside the store, and returns the name of its file.
fn answer(deployment: &Deployment, bytes: &[u8]) -> String {
    let file = deployment.around().join("answer");
    fs::write(&file, bytes).unwrap();
    file.display().to_string()
}

#[test]
fn completed_work_is_replayed_byte_for_byte() {
    let deployment = Deployment::with_records();
    let file = answer(&deployment, b" charged\n\n");
    let settled = deployment.run(&format!("resolve {LOST} --completed {file}"));
    let slot = deployment.id("lost").to_string();
    assert_eq!(settled.expect_done(), format!("{slot}\n"));
    assert_eq!(settled.stderr, "1 settled as completed\n");

    let replayed = deployment.serve(async |service| service.replay("lost").await);
    assert_eq!(replayed, " charged\n\n");
    let record = deployment.record("lost").unwrap();
    assert_eq!(
        (&*record.audit[0].who, &*record.audit[0].why),
        ("ann", "ledger")
    );
    assert_eq!(record.outcome().unwrap().ending, Ending::Success);
}

#[test]
fn answer_comes_from_stdin_and_may_be_a_failure() {
    let deployment = Deployment::with_records();
    let file = fs::File::open(answer(&deployment, b"refused")).unwrap();
    let mut command = deployment.command(&format!("resolve {LOST} --completed - --failed"));
    let settled = Run::of(command.stdin(Stdio::from(file)));
    settled.expect_done();
    let record = deployment.record("lost").unwrap();
    let outcome = record.outcome().unwrap();
    assert_eq!(outcome.ending, Ending::Failure);
    assert_eq!(outcome.body().unwrap(), "refused");
}

#[test]
fn empty_answer_is_an_answer() {
    let deployment = Deployment::with_records();
    let settled = deployment.run(&format!("resolve {LOST} --completed -"));
    settled.expect_done();
    let replayed = deployment.serve(async |service| service.replay("lost").await);
    assert_eq!(replayed, "");
}

#[test]
fn work_that_did_not_happen_is_executed_by_the_next_arrival() {
    for line in ["resolve --not-executed", "release"] {
        let deployment = Deployment::with_records();
        let settled = deployment.run(&format!("{line} {LOST}"));
        settled.expect_done();
        assert_eq!(settled.stderr, "1 settled as not executed\n");
        assert_eq!(deployment.record("lost").unwrap().state, State::Open);
        deployment.serve(async |service| service.complete("lost", "charged").await);
    }
}

#[test]
fn filter_settles_all_that_is_unknown_and_nothing_else() {
    let deployment = Deployment::with_records();
    deployment.serve(async |service| service.abandon("lost too").await);
    let dry = deployment.run("release --tenant acct_42 --why ledger --dry-run");
    assert_eq!(dry.expect_done().lines().count(), 2);
    assert_eq!(dry.stderr, "2 would be settled as not executed\n");

    let settled = deployment.run("release --tenant acct_42 --why ledger --json");
    let mut wanted = ["lost", "lost too"].map(|key| deployment.id(key).to_string());
    wanted.sort();
    let object = settled.expect_json();
    assert_eq!(
        object,
        json!({"settled_as": "not executed", "dry_run": false, "slots": wanted, "moved": 0})
    );
    let replayed = deployment.serve(async |service| service.replay("paid").await);
    assert_eq!(replayed, "charged 100");

    let again = deployment.run("release --all --why ledger");
    assert_eq!(again.expect_no(), "there is nothing to settle\n");
    assert_eq!(again.stdout, "");
}

#[test]
fn dry_run_settles_nothing() {
    let deployment = Deployment::with_records();
    let before = deployment.record("lost").unwrap();
    for selection in [LOST, "--all --why ledger", "--state unknown --why ledger"] {
        let dry = deployment.run(&format!("resolve --not-executed --dry-run {selection}"));
        assert_eq!(dry.expect_done().lines().count(), 1, "{selection}");
        assert_eq!(dry.stderr, "1 would be settled as not executed\n");
    }
    assert_eq!(deployment.record("lost").unwrap(), before);
}

#[test]
fn settled_records_are_refused_by_their_state() {
    let deployment = Deployment::with_records();
    let refused = deployment.run(&format!("release {PAID}"));
    let (error, hint) = refused.expect_failed();
    assert!(error.ends_with("is completed, not unknown"), "{error}");
    assert!(hint.contains("every retry gets it"), "{hint}");

    deployment.run(&format!("release {LOST}")).expect_done();
    let refused = deployment.run(&format!("release {LOST}"));
    let (error, hint) = refused.expect_failed();
    assert!(error.ends_with("is open, not unknown"), "{error}");
    assert!(hint.contains("next arrival"), "{hint}");
}

#[test]
fn absent_record_is_a_no() {
    let deployment = Deployment::with_records();
    let line = "release --tenant acct_42 --operation pay --key never --why ledger";
    let absent = deployment.run(line);
    assert!(absent.expect_no().contains("no record under that key"));
    assert_eq!(absent.stdout, "");
}

#[test]
fn somebody_has_to_vouch_for_it() {
    let deployment = Deployment::with_records();
    let mut command = deployment.command(&format!("release {LOST}"));
    let nobody = Run::of(command.env_remove("USER"));
    let (error, hint) = nobody.expect_failed();
    assert!(error.contains("nobody is named"), "{error}");
    assert!(hint.contains("--who"), "{hint}");

    let logname = Run::of(command.env("LOGNAME", "eve"));
    logname.expect_done();
    assert_eq!(&*deployment.record("lost").unwrap().audit[0].who, "eve");
}

#[test]
fn reason_is_needed() {
    let deployment = Deployment::with_records();
    let refused = deployment.run("release --all");
    assert_eq!(refused.status, Some(2));
    assert!(refused.stderr.contains("--why"), "{}", refused.stderr);

    let mut command = deployment.command("release --all --why");
    let empty = Run::of(command.arg(" "));
    assert_eq!(empty.status, Some(2));
    assert!(matches!(
        deployment.record("lost").unwrap().state,
        State::Unknown(_)
    ));
}

#[test]
fn what_to_settle_and_how_has_to_be_said() {
    let deployment = Deployment::with_records();
    let refused = deployment.run("release --why ledger");
    let (error, hint) = refused.expect_failed();
    assert_eq!(error, "no records are named");
    assert!(hint.contains("--all"), "{hint}");

    for line in [
        "resolve --all --why ledger",
        "resolve --all --why ledger --not-executed --completed -",
        "resolve --all --why ledger --not-executed --failed",
        "release --all --tenant acct_42 --why ledger",
    ] {
        let refused = deployment.run(line);
        assert_eq!(refused.status, Some(2), "{line}");
        assert!(refused.stderr.contains("Usage:"), "{line}");
    }
}

#[test]
fn answers_that_cannot_be_used_are_refused() {
    let deployment = Deployment::with_records();
    let large = answer(&deployment, &vec![b'x'; (1 << 20) + 1]);
    for (file, problem) in [
        ("/nowhere/answer", "cannot be read"),
        ("/", "cannot be read"),
        (&large, "has more than 1 MiB"),
    ] {
        let refused = deployment.run(&format!("resolve {LOST} --completed {file}"));
        let (error, _) = refused.expect_failed();
        assert!(error.contains(problem), "{error}");
    }
    assert!(matches!(
        deployment.record("lost").unwrap().state,
        State::Unknown(_)
    ));

    let fits = answer(&deployment, &vec![b'x'; 1 << 20]);
    deployment
        .run(&format!("resolve {LOST} --completed {fits}"))
        .expect_done();
}

#[test]
fn headers_that_retries_do_not_get_are_refused() {
    let deployment = Deployment::with_records();
    let before = deployment.record("lost").unwrap();
    for dry in ["", " --dry-run"] {
        for header in [
            "Content-Length: 7",
            "transfer-encoding: chunked",
            "Connection: close",
            "Set-Cookie: session=1",
            "Date: Mon, 16 Nov 2026 12:53:50 GMT",
            "Idempotent-Replayed: true",
        ] {
            let line = format!("resolve {LOST} --completed - --status 201{dry}");
            let refused = Run::of(deployment.command(&line).args(["--header", header]));
            let (error, hint) = refused.expect_failed();
            assert!(
                error.ends_with("is a header that retries do not get"),
                "{error}"
            );
            assert!(hint.contains("leave it out"), "{hint}");
        }
    }
    assert_eq!(deployment.record("lost").unwrap(), before);
}

#[test]
fn headers_are_kept_with_every_line() {
    let deployment = Deployment::with_records();
    let line = format!("resolve {LOST} --completed - --failed");
    let mut command = deployment.command(&line);
    command.args(["--header", "Link: </a>", "--header", "link: </b>"]);
    Run::of(&mut command).expect_done();
    let record = deployment.record("lost").unwrap();
    let outcome = record.outcome().unwrap();
    let headers = onceward_http::headers_of(outcome).unwrap();
    let links: Vec<_> = headers.get_all("link").iter().collect();
    assert_eq!(links, ["</a>", "</b>"]);
    assert_eq!(outcome.ending, Ending::Failure);
    assert_eq!(onceward_http::status_of(outcome).unwrap(), 500);
}

#[test]
fn statuses_without_a_body_take_none() {
    let deployment = Deployment::with_records();
    let before = deployment.record("lost").unwrap();
    let file = answer(&deployment, b"charged");
    for status in ["204", "304"] {
        for dry in ["", "--dry-run"] {
            let refused = deployment.run(&format!(
                "resolve {LOST} --completed {file} --status {status} {dry}"
            ));
            let (error, hint) = refused.expect_failed();
            assert_eq!(error, format!("an answer with status {status} has no body"));
            assert!(hint.contains("empty"), "{hint}");
        }
    }
    assert_eq!(deployment.record("lost").unwrap(), before);
    let empty = deployment.run(&format!("resolve {LOST} --completed - --status 204"));
    empty.expect_done();
}

#[test]
fn statuses_that_are_not_those_of_answers_are_refused() {
    let deployment = Deployment::with_records();
    for status in ["100", "199", "600", "999", "ok"] {
        let line = format!("resolve {LOST} --completed - --status {status}");
        let refused = deployment.run(&line);
        let (error, hint) = refused.expect_failed();
        assert!(error.contains("is not the status of an answer"), "{error}");
        assert!(hint.contains("200 to 599"), "{hint}");
    }
}
