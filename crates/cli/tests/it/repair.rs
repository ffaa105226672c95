//! `onceward repair`.

use std::fs;

use serde_json::{Value, json};

use crate::deployment::Deployment;

/// The names beside the store.
fn around(deployment: &Deployment) -> Vec<String> {
    let entries = fs::read_dir(deployment.around()).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<_> = entries.map(|it| name(it).into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn sound_store_loses_nothing() {
    let deployment = Deployment::with_records();
    let repaired = deployment.run("repair");
    let table = repaired.expect_done();
    assert!(
        table.contains("lost          nothing that was acknowledged\n"),
        "{table}"
    );
    assert!(table.contains("store.before-repair-1\n"), "{table}");
    assert_eq!(around(&deployment), ["store", "store.before-repair-1"]);

    let replayed = deployment.serve(async |service| service.replay("paid").await);
    assert_eq!(replayed, "charged 100");
}

#[test]
fn loss_of_acknowledged_writes_is_a_no() {
    let deployment = Deployment::with_records();
    deployment.lose_acknowledged_writes();
    deployment.run("list").expect_failed();

    let repaired = deployment.run("repair");
    repaired.expect_no();
    assert!(
        repaired.stdout.contains("lost          something"),
        "{}",
        repaired.stdout
    );
    let listed = deployment.run("list --json");
    assert_eq!(listed.expect_done().lines().count(), 2);
}

#[test]
fn loss_that_nobody_can_rule_out_is_a_no() {
    let deployment = Deployment::with_records();
    fs::remove_file(deployment.path().join("HEAD")).unwrap();
    let repaired = deployment.run("repair");
    repaired.expect_no();
    assert!(
        repaired.stdout.contains("lost          perhaps"),
        "{}",
        repaired.stdout
    );
    deployment.run("list").expect_done();
}

#[test]
fn dry_run_says_the_same_and_changes_nothing() {
    let deployment = Deployment::with_records();
    deployment.lose_acknowledged_writes();
    for _ in 0..2 {
        let dry = deployment.run("repair --dry-run --json");
        dry.expect_no();
        let object: Value = serde_json::from_str(&dry.stdout).unwrap();
        assert_eq!(object["dry_run"], true);
        assert_eq!(object["lost"], "certain");
        assert_eq!(object["original"], Value::Null);
        assert_eq!(around(&deployment), ["store"]);
    }
    deployment.run("list").expect_failed();
}

#[test]
fn json_says_all_that_was_found() {
    let deployment = Deployment::with_records();
    let object = deployment.run("repair --json").expect_json();
    assert_eq!(object["lost"], "nothing");
    assert_eq!(object["dropped"], json!([]));
    assert_eq!(object["unreadable"], 0);
    assert_eq!(object["journal_cut"], Value::Null);
    assert_eq!(object["journals_only"], false);
    assert_eq!(object["last_batch"], object["acknowledged_batch"]);
    let original = object["original"].as_str().unwrap();
    assert!(original.ends_with("store.before-repair-1"), "{original}");
}
