//! Stores that cannot be opened: every command says why, and makes nothing worse.

use std::{fs, os::unix::fs::symlink, path::Path};

use onceward_stores::embedded::EmbeddedStore;

use crate::{Run, deployment::Deployment, onceward};

/// A line of each command that opens a store, but `repair`.
const OPENING: [&str; 5] = [
    "list",
    "inspect --slot 01234567",
    "resolve --all --not-executed --who ann --why ledger",
    "release --all --who ann --why ledger",
    "sweep",
];

/// A line of each command that works on a store.
fn every_command() -> impl Iterator<Item = &'static str> {
    OPENING.into_iter().chain(["repair", "repair --dry-run"])
}

/// Runs `line` on the store that `url` names.
fn run_on(line: &str, url: &str) -> Run {
    let mut command = onceward(line.split_whitespace());
    Run::of(command.args(["--store", url]))
}

fn embedded(path: &Path) -> String {
    format!("embedded:{}", path.display())
}

#[test]
fn missing_store_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("store");
    for line in every_command() {
        for path in [&*missing, folder.path()] {
            let refused = run_on(line, &embedded(path));
            let (error, hint) = refused.expect_failed();
            assert!(
                error.starts_with("there is no store in "),
                "{line}: {error}"
            );
            assert!(hint.contains("--store"), "{hint}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{line}");
    }
}

#[test]
fn memory_of_another_process_is_out_of_reach() {
    for line in every_command() {
        let refused = run_on(line, "memory:");
        let (error, hint) = refused.expect_failed();
        assert!(error.contains("lives in the process"), "{line}: {error}");
        assert!(hint.contains("embedded:"), "{hint}");
    }
}

#[test]
fn bad_urls_are_refused() {
    for line in every_command() {
        for (url, problem) in [
            ("data", "is not a store URL"),
            ("mysql://host", "is not a store URL"),
            ("embedded:", "names no folder"),
            ("embedded:x?fast=yes", "means nothing here"),
        ] {
            let refused = run_on(line, url);
            let (error, _) = refused.expect_failed();
            assert!(error.starts_with(&format!("--store {url:?} ")), "{error}");
            assert!(error.contains(problem), "{error}");
        }
    }
}

#[test]
fn store_in_use_is_left_alone() {
    let deployment = Deployment::with_records();
    let running = EmbeddedStore::open(deployment.path()).unwrap();
    for line in every_command() {
        let refused = run_on(line, &deployment.url());
        let (error, hint) = refused.expect_failed();
        assert!(error.contains("is in use"), "{line}: {error}");
        assert!(hint.contains("stop the other process"), "{hint}");
    }
    drop(running);
    deployment.wait_until_free();
    deployment.run("list").expect_done();
}

#[test]
fn newer_store_is_left_alone() {
    let deployment = Deployment::with_records();
    deployment.forge("FORMAT", |_| "onceward-store 9\n".into());
    for line in every_command() {
        let refused = run_on(line, &deployment.url());
        let (error, hint) = refused.expect_failed();
        assert!(error.contains("has format 9"), "{line}: {error}");
        assert!(hint.contains("newer"), "{hint}");
    }
}

#[test]
fn store_that_lost_acknowledged_writes_is_not_served() {
    let deployment = Deployment::with_records();
    deployment.lose_acknowledged_writes();
    for line in OPENING {
        let refused = run_on(line, &deployment.url());
        let (error, hint) = refused.expect_failed();
        assert!(error.contains("was acknowledged"), "{line}: {error}");
        assert!(hint.contains("onceward repair --store embedded:"), "{hint}");
    }
}

#[test]
fn damaged_store_is_not_served() {
    let deployment = Deployment::with_records();
    fs::write(deployment.path().join("HEAD"), "nonsense").unwrap();
    for line in OPENING {
        let refused = run_on(line, &deployment.url());
        let (error, hint) = refused.expect_failed();
        assert!(error.contains("is damaged"), "{line}: {error}");
        assert!(hint.contains("onceward repair"), "{hint}");
    }
}

#[test]
fn folder_that_cannot_be_read_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    // A link to itself: unreadable for everybody, root included.
    let knot = folder.path().join("knot");
    symlink(&knot, &knot).unwrap();
    for line in every_command() {
        let refused = run_on(line, &embedded(&file));
        assert!(
            refused.expect_failed().0.contains("is not a folder"),
            "{line}"
        );
        let refused = run_on(line, &embedded(&knot));
        let (error, hint) = refused.expect_failed();
        assert!(error.contains("cannot read or write"), "{line}: {error}");
        assert!(hint.contains("may read and write it"), "{hint}");
    }
}

#[test]
fn folder_of_somebody_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    for line in every_command() {
        run_on(line, &embedded(folder.path())).expect_failed();
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn store_can_be_named_by_the_environment() {
    let deployment = Deployment::with_records();
    let mut command = onceward(["list", "--json"]);
    let listed = Run::of(command.env("ONCEWARD_STORE", deployment.url()));
    assert_eq!(listed.expect_done().lines().count(), 2);

    let mut command = onceward(["list", "--help"]);
    let help = Run::of(command.env("ONCEWARD_STORE", "embedded:/somewhere"));
    assert!(help.expect_done().contains("ONCEWARD_STORE"));
    assert!(!help.stdout.contains("/somewhere"), "{}", help.stdout);
}

#[test]
fn default_store_is_beside_the_caller() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = onceward(["list"]);
    let refused = Run::of(command.current_dir(folder.path()));
    let (error, _) = refused.expect_failed();
    assert_eq!(error, "there is no store in ./onceward-data");
}
