//! The secret of a deployment, as operators give it.

use std::fs;

use onceward::Secret;

use crate::{Run, deployment::Deployment};

const SECRET: &str = "0707070707070707070707070707070707070707070707070707070707070707";
const OTHER: &str = "0808080808080808080808080808080808080808080808080808080808080808";
const INSPECT: &str = "inspect --tenant acct_42 --operation pay --key paid";

/// Returns a deployment that was given its secret from outside.
fn deployment() -> Deployment {
    let deployment = Deployment::new().secret(Secret::parse(SECRET).unwrap());
    deployment.serve(async |service| service.complete("paid", "charged 100").await);
    deployment
}

/// Runs `line` with a variable set.
fn run_with(deployment: &Deployment, line: &str, variable: &str, value: &str) -> Run {
    let mut command = deployment.command(line);
    Run::of(command.env(variable, value))
}

#[test]
fn right_secret_finds_the_record() {
    let deployment = deployment();
    run_with(&deployment, INSPECT, "ONCEWARD_SECRET", SECRET).expect_done();

    let file = deployment.around().join("secret");
    fs::write(&file, format!("{SECRET}\n")).unwrap();
    let file = file.display().to_string();
    run_with(&deployment, INSPECT, "ONCEWARD_SECRET_FILE", &file).expect_done();
}

#[test]
fn wrong_secret_is_refused_by_every_command() {
    let deployment = deployment();
    for line in [INSPECT, "list", "sweep", "release --all --why ledger"] {
        let refused = run_with(&deployment, line, "ONCEWARD_SECRET", OTHER);
        let (error, hint) = refused.expect_failed();
        assert!(error.contains("does not match"), "{line}: {error}");
        assert!(hint.contains("ONCEWARD_SECRET"), "{hint}");
    }
}

#[test]
fn missing_secret_is_asked_for_where_it_is_needed() {
    let deployment = deployment();
    for line in [INSPECT, "sweep"] {
        let refused = deployment.run(line);
        let (error, hint) = refused.expect_failed();
        assert!(error.contains("give the same one again"), "{line}: {error}");
        assert!(hint.contains("ONCEWARD_SECRET_FILE"), "{hint}");
    }
    deployment.serve(async |service| service.abandon("lost").await);
    deployment.run("list").expect_done();
    deployment.run("release --all --why ledger").expect_done();
}

#[test]
fn what_is_no_secret_is_refused_and_not_repeated() {
    let deployment = deployment();
    let almost = &SECRET[1..];
    let refused = run_with(&deployment, "list", "ONCEWARD_SECRET", almost);
    let (error, hint) = refused.expect_failed();
    assert_eq!(error, "ONCEWARD_SECRET does not hold a secret");
    assert!(hint.contains("64 hex digits"), "{hint}");
    assert!(!refused.stderr.contains(almost));

    let refused = run_with(&deployment, "list", "ONCEWARD_SECRET_FILE", "/nowhere");
    assert!(refused.expect_failed().0.contains("cannot be read"));
}
