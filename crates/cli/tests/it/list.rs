//! `onceward list`.

use serde_json::Value;

use crate::{Run, deployment::Deployment, shell::abandoned_pipe};

/// The objects that a run printed, one per line.
fn objects(run: &Run) -> Vec<Value> {
    let lines = run.expect_done().lines();
    lines.map(|it| serde_json::from_str(it).unwrap()).collect()
}

#[test]
fn table_has_a_line_per_record() {
    let deployment = Deployment::with_records();
    let listed = deployment.run("list");
    let lines: Vec<_> = listed.expect_done().lines().collect();
    assert_eq!(lines.len(), 3);
    let titles: Vec<_> = lines[0].split_whitespace().collect();
    let wanted = "slot state tenant operation attempt age due reason";
    assert_eq!(titles, wanted.split(' ').collect::<Vec<_>>());

    let line = |state: &str| *lines.iter().find(|line| line.contains(state)).unwrap();
    let unknown = line("unknown");
    assert!(unknown.starts_with(&deployment.id("lost").to_string()[..16]));
    assert!(unknown.contains("acct_42") && unknown.contains("pay"));
    assert!(unknown.contains("never") && unknown.ends_with("no answer"));
    assert!(line("completed").contains("expires in 23h 59m"));
    assert_eq!(listed.stderr, "");
}

#[test]
fn neither_keys_nor_answers_are_shown() {
    let deployment = Deployment::with_records();
    for line in ["list", "list --json"] {
        let listed = deployment.run(line);
        let text = listed.expect_done();
        assert!(!text.contains("paid") && !text.contains("lost"), "{text}");
        assert!(!text.contains("charged"), "{text}");
    }
}

#[test]
fn json_is_an_object_per_line() {
    let deployment = Deployment::with_records();
    let listed = objects(&deployment.run("list --json"));
    assert_eq!(listed.len(), 2);
    let record = deployment.record("lost").unwrap();
    let object = listed.iter().find(|it| it["state"] == "unknown").unwrap();
    assert_eq!(object["slot"], deployment.id("lost").to_string());
    assert_eq!(object["tenant"], "acct_42");
    assert_eq!(object["operation"], "pay");
    assert_eq!(object["reason"], "no answer");
    assert_eq!(object["fence"], record.fence.to_string());
    assert_eq!(object["due"], Value::Null);
    let written = object["written"].as_str().unwrap();
    assert!(
        written.starts_with("20") && written.ends_with('Z'),
        "{written}"
    );
}

#[test]
fn filters_add_up() {
    let deployment = Deployment::with_records();
    for (filter, count) in [
        ("", 2),
        ("--state unknown", 1),
        ("--state unknown --tenant acct_42 --operation pay", 1),
        ("--state open", 0),
        ("--tenant somebody", 0),
        ("--operation refund", 0),
        ("--older-than 2h", 0),
        ("--older-than 0s", 2),
    ] {
        let listed = deployment.run(&format!("list --json {filter}"));
        assert_eq!(objects(&listed).len(), count, "{filter}");
    }
}

#[test]
fn age_is_that_of_the_last_write() {
    let deployment = Deployment::new();
    deployment.serve_long_ago(async |service| service.abandon("lost").await);
    let listed = objects(&deployment.run("list --json --older-than 365d"));
    assert_eq!(listed.len(), 1);
    let listed = objects(&deployment.run("list --json --older-than 36500d"));
    assert_eq!(listed.len(), 0);
}

#[test]
fn pages_follow_each_other_to_the_end() {
    let deployment = Deployment::new();
    let mut wanted = deployment.serve(async |service| {
        let mut slots = Vec::new();
        for number in 0..7 {
            let key = format!("key-{number}");
            service.abandon(&key).await;
            slots.push(service.id(&key).await.to_string());
        }
        slots
    });
    wanted.sort();

    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page = deployment.run(&format!("list --json --limit 3 {after}"));
        seen.extend(
            objects(&page)
                .iter()
                .map(|it| it["slot"].as_str().unwrap().to_owned()),
        );
        let Some((_, rest)) = page.stderr.split_once("--after ") else {
            assert_eq!(page.stderr, "");
            break;
        };
        assert!(page.stderr.starts_with("hint: "), "{}", page.stderr);
        after = format!("--after {}", rest.trim());
    }
    assert_eq!(seen, wanted);
}

#[test]
fn reader_who_leaves_early_is_no_failure() {
    let deployment = Deployment::with_records();
    for line in ["list", "list --json"] {
        let left = Run::of(deployment.command(line).stdout(abandoned_pipe()));
        assert_eq!((left.status, left.stderr.as_str()), (Some(0), ""), "{line}");
    }
}

#[test]
fn nothing_that_passes_is_no_failure() {
    let empty = Deployment::new().run("list");
    assert_eq!(empty.expect_done(), "");
    assert_eq!(empty.stderr, "no records\n");
}

#[test]
fn one_record_can_be_named() {
    let deployment = Deployment::with_records();
    let slot = deployment.id("paid").to_string();
    for name in [
        "--tenant acct_42 --operation pay --key paid".to_owned(),
        format!("--slot {slot}"),
        format!("--slot {}", &slot[..16]),
        format!("--slot {}", slot[..8].to_uppercase()),
    ] {
        let listed = objects(&deployment.run(&format!("list --json {name}")));
        assert_eq!(listed.len(), 1, "{name}");
        assert_eq!(listed[0]["slot"], slot);
    }
    let absent = deployment.run("list --tenant acct_42 --operation pay --key never");
    assert!(absent.expect_no().contains("no record under that key"));
    assert_eq!(absent.stdout, "");
}

#[test]
fn claims_of_a_service_that_died_are_unknown() {
    let deployment = Deployment::new();
    deployment.serve(async |service| drop(service.claim("cut off").await));
    let listed = objects(&deployment.run("list --json"));
    assert_eq!(listed[0]["state"], "unknown");
    assert_eq!(listed[0]["reason"], "the holder's process ended");
}
