//! `onceward config`.

use std::{fs, path::PathBuf};

use serde_json::json;
use tempfile::TempDir;

use crate::{Run, onceward, run};

/// A folder with one file in it.
fn file(text: &str) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("onceward.toml");
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn config(verb: &str, path: &PathBuf, more: &[&str]) -> Run {
    let mut command = onceward(["config", verb]);
    Run::of(command.arg(path).args(more))
}

const MISTAKEN: &str = "upstream = \"http://svc\"\n[defaults]\nretentoin = \"1h\"\nlease = \"1\"\n";

#[test]
fn example_passes_the_check() {
    let example = run("config example");
    let (_folder, path) = file(example.expect_done());
    let checked = config("check", &path, &[]);
    let summary = checked.expect_done();
    assert_eq!(checked.stderr, "");
    for said in [
        "listen    127.0.0.1:8080",
        "upstream  http://127.0.0.1:3000",
        "route     POST /payments: key required, opaque, answers kept for 7d",
        "route     * /internal/{*rest}: keys are off, passed through",
        "others    key optional, opaque, answers kept for 1d",
    ] {
        assert!(summary.contains(said), "{said}\n{summary}");
    }
}

#[test]
fn all_mistakes_are_told_with_line_and_hint() {
    let (_folder, path) = file(MISTAKEN);
    let checked = config("check", &path, &[]);
    let told = checked.expect_no();
    let name = path.display();
    for said in [
        format!("error: {name}:3:1: unknown field \"retentoin\" in [defaults]"),
        "hint: did you mean retention?".to_owned(),
        format!("error: {name}:4:9: lease \"1\" has no unit"),
    ] {
        assert!(told.contains(&said), "{said}\n{told}");
    }
    assert_eq!(checked.stdout, "");
}

#[test]
fn machines_get_the_same_in_one_object() {
    let (_folder, path) = file(MISTAKEN);
    let checked = config("check", &path, &["--json"]);
    checked.expect_no();
    let answer: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(answer["valid"], false);
    assert_eq!(answer["errors"][0]["line"], 3);
    assert_eq!(answer["errors"][1]["column"], 9);
    assert_eq!(answer["errors"][0]["hint"], "did you mean retention?");

    let (_folder, path) = file("upstream = \"http://svc\"\n[defaults]\nretention = \"1m\"\n");
    let answer = config("check", &path, &["--json"]).expect_json();
    assert_eq!(answer["valid"], true);
    assert_eq!(answer["routes"], 0);
    assert_eq!(answer["errors"], json!([]));
    assert_eq!(answer["warnings"][0]["line"], 3);
}

#[test]
fn warnings_do_not_make_a_file_invalid() {
    let (_folder, path) = file("upstream = \"http://svc\"\n[defaults]\nretention = \"1m\"\n");
    let checked = config("check", &path, &[]);
    checked.expect_done();
    assert!(
        checked.stderr.starts_with("warning: "),
        "{}",
        checked.stderr
    );
    assert!(checked.stderr.contains(":3:13: a retention of 1m is short"));
}

#[test]
fn files_that_a_configuration_names_are_read() {
    let (folder, path) = file(
        "upstream = \"http://svc\"\n[tls]\ncert = \"/nowhere/c.pem\"\nkey = \"/nowhere/k.pem\"\n\
         [admin]\ntoken_file = \"/nowhere/token\"\n\
         [identity]\nfrom = \"api-key\"\napi_key = { keys = \"/nowhere/keys.toml\" }\n",
    );
    let checked = config("check", &path, &[]);
    let told = checked.expect_no();
    for named in ["c.pem", "k.pem", "token", "keys.toml"] {
        assert!(
            told.contains(&format!("error: /nowhere/{named} cannot be read")),
            "{told}"
        );
    }
    drop(folder);
}

#[test]
fn certificates_that_serve_refuses_are_refused() {
    let folder = TempDir::new().unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, "not PEM").unwrap();
    let (_folder, path) = file(&format!(
        "[upstream]\nurl = \"https://svc\"\nca_file = {plain:?}\n\
         [tls]\ncert = {plain:?}\nkey = {plain:?}\n"
    ));
    let checked = config("check", &path, &[]);
    let told = checked.expect_no();
    let name = plain.display();
    assert!(
        told.contains(&format!("error: {name} holds no certificate\n")),
        "{told}"
    );
    assert_eq!(told.matches("error: ").count(), 2, "{told}");
    assert_eq!(told.matches("hint: ").count(), 2, "{told}");
}

#[test]
fn strict_file_with_a_store_that_forgets_is_refused() {
    let strict = |store: &str, more: &str| {
        let (_folder, path) = file(&format!(
            "upstream = \"http://svc\"\nstrict = true\n[store]\nurl = {store:?}\n{more}"
        ));
        config("check", &path, &[])
    };
    for (store, class) in [("memory:", "(D0)"), ("embedded:x?durability=os", "(D1)")] {
        let checked = strict(store, "");
        let told = checked.expect_no();
        assert!(told.starts_with("error: strict = true, but"), "{told}");
        assert!(told.contains(class) && told.contains("hint: "), "{told}");
        strict(store, "[defaults]\neffect = \"keyed\"\n").expect_done();
    }
    strict("embedded:x", "").expect_done();
}

#[test]
fn upstream_that_serve_refuses_is_refused() {
    let (_folder, path) = file("upstream = \"http://169.254.169.254\"\n");
    let checked = config("check", &path, &[]);
    let told = checked.expect_no();
    assert!(told.contains(":1:12: upstream"), "{told}");
    assert!(told.contains("link-local"), "{told}");
}

#[test]
fn file_that_cannot_be_read_is_a_failure() {
    for verb in ["check", "contract"] {
        let checked = config(verb, &"/nowhere/onceward.toml".into(), &[]);
        let (error, hint) = checked.expect_failed();
        assert!(
            error.starts_with("/nowhere/onceward.toml cannot be read: "),
            "{error}"
        );
        assert!(hint.contains("config example"), "{hint}");
    }
}

#[test]
fn token_of_the_environment_counts() {
    let (_folder, path) = file("upstream = \"http://svc\"\n[admin]\nlisten = \"0.0.0.0:9090\"\n");
    assert!(
        config("check", &path, &[])
            .expect_no()
            .contains("without a token")
    );
    let with = |token: &str| {
        let mut command = onceward(["config", "check"]);
        Run::of(command.arg(&path).env("ONCEWARD_ADMIN_TOKEN", token))
    };
    with("a-token-of-some-length").expect_done();
    let short = with("short");
    let (error, _) = short.expect_failed();
    assert_eq!(error, "ONCEWARD_ADMIN_TOKEN is not a token");
}

#[test]
fn upstream_can_be_left_to_the_command_line() {
    let (_folder, path) = file("strict = true\n");
    assert!(
        config("check", &path, &[])
            .expect_no()
            .contains("there is no upstream")
    );
    config("check", &path, &["--upstream", "http://svc"]).expect_done();
    let refused = config("check", &path, &["--upstream", "svc"]);
    let (error, _) = refused.expect_failed();
    assert_eq!(error, "--upstream \"svc\" has no scheme");
}

#[test]
fn contract_is_printed_with_and_without_a_file() {
    let defaults = run("config contract");
    assert!(
        defaults
            .expect_done()
            .contains("| every request | optional")
    );
    let (_folder, path) = file(
        "upstream = \"http://svc\"\n[[route]]\nmatch = \"POST /payments\"\nkey = \"required\"\n",
    );
    let contract = config("contract", &path, &[]);
    assert!(
        contract
            .expect_done()
            .contains("| `POST /payments` | required |")
    );
    let (_folder, path) = file(MISTAKEN);
    assert!(
        config("contract", &path, &[])
            .expect_no()
            .contains("retentoin")
    );
}
