//! `onceward sweep`.

use std::time::Duration;

use serde_json::json;

use crate::deployment::Deployment;

/// Returns a deployment with three expired records, one that is kept and one that is unknown.
fn overdue() -> Deployment {
    let deployment = Deployment::new();
    deployment.serve_long_ago(async |service| {
        for key in ["k1", "k2", "k3"] {
            service.complete(key, "charged").await;
        }
        let years = Duration::from_secs(100 * 365 * 86_400);
        let patient = service.policy(|policy| policy.retention(years));
        patient.complete("k4", "charged").await;
        service.abandon("k5").await;
    });
    deployment
}

#[test]
fn expired_records_go_and_all_others_stay() {
    let deployment = overdue();
    let swept = deployment.run("sweep");
    let counts = "expired records removed       3\nlapsed claims marked unknown  0\n";
    assert_eq!((swept.expect_done(), swept.stderr.as_str()), (counts, ""));
    let listed = deployment.run("list --json");
    assert_eq!(listed.expect_done().lines().count(), 2);

    let again = deployment.run("sweep --json").expect_json();
    assert_eq!(again, json!({"dry_run": false, "removed": 0, "lapsed": 0}));
}

#[test]
fn dry_run_counts_and_touches_nothing() {
    let deployment = overdue();
    for _ in 0..2 {
        let counted = deployment.run("sweep --dry-run --json").expect_json();
        assert_eq!(counted, json!({"dry_run": true, "removed": 3, "lapsed": 0}));
    }
    let counted = deployment.run("sweep --dry-run");
    let counts = "expired records to remove      3\nlapsed claims to mark unknown  0\n";
    assert_eq!(counted.expect_done(), counts);
}

#[test]
fn expired_record_is_shown_as_such_until_it_is_swept() {
    let deployment = overdue();
    let inspected = deployment.run("inspect --tenant acct_42 --operation pay --key k1");
    assert!(
        inspected.expect_done().contains("  expired "),
        "{}",
        inspected.stdout
    );
    let line = "release --tenant acct_42 --operation pay --key k1 --why ledger";
    deployment.run(line).expect_no();
}
