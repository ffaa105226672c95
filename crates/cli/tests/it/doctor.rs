//! `onceward doctor`.

use std::net::TcpListener;
use std::process::Command;

use onceward_stores::embedded::EmbeddedStore;
use serde_json::Value;

use crate::{Run, deployment::Deployment, onceward};

/// A service that can be reached, and never answers.
fn service() -> (TcpListener, String) {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", service.local_addr().unwrap());
    (service, url)
}

/// Returns a doctor for a gateway with ports of its own.
fn doctor(store: &str) -> Command {
    let mut command = onceward(["doctor", "--json", "--store", store]);
    // Nobody listens at port 1, so nobody has to be waited for.
    command.args(["--upstream", "http://127.0.0.1:1"]);
    command.args(["--listen", "127.0.0.1:0", "--admin", "off"]);
    command
}

/// Returns what was found about `what`: how it stands, and the words.
pub(crate) fn found(run: &Run, what: &str) -> (String, String) {
    let report: Value = serde_json::from_str(&run.stdout).expect("stdout is JSON");
    let findings = report["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["what"] == what);
    let finding = finding.unwrap_or_else(|| panic!("nothing about {what}: {report}"));
    let text = |name: &str| finding[name].as_str().unwrap().to_owned();
    (text("state"), text("found"))
}

#[test]
fn place_of_a_new_store_is_looked_at_and_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let url = |name: &str| format!("embedded:{}/{name}", folder.path().display());
    let run = Run::of(&mut doctor(&url("store")));
    let (state, said) = found(&run, "store");
    assert_eq!(state, "note", "{said}");
    assert!(said.ends_with("does not exist yet"), "{said}");
    assert_eq!(found(&run, "durability").1, "D2");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    let run = Run::of(&mut doctor(&url("missing/store")));
    let (state, said) = found(&run, "store");
    assert_eq!(state, "bad", "{said}");
    assert!(said.contains("there is no folder"), "{said}");
    run.expect_no();

    let run = Run::of(&mut doctor(&url("store?durability=os")));
    assert!(found(&run, "durability").1.starts_with("D1"));
}

#[test]
fn ports_in_use_are_wrong() {
    let (_taken, url) = service();
    let addr = url.strip_prefix("http://").unwrap();
    for (option, what) in [("--listen", "listen"), ("--admin", "admin listen")] {
        let mut command = onceward(["doctor", "--json", "--store", "memory:"]);
        command.args(["--upstream", &url, option, addr]);
        if option != "--listen" {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let run = Run::of(&mut command);
        let (state, said) = found(&run, what);
        assert_eq!(state, "bad", "{said}");
        assert!(said.contains(addr) && said.contains("in use"), "{said}");
    }
    let run = Run::of(&mut doctor("memory:"));
    assert_eq!(found(&run, "listen").0, "good");
}

#[test]
fn ports_of_a_running_gateway_are_its_own() {
    let deployment = Deployment::new();
    let running = EmbeddedStore::open(deployment.path()).unwrap();
    let (_taken, url) = service();
    let addr = url.strip_prefix("http://").unwrap();
    let mut command = onceward(["doctor", "--json", "--admin", "off"]);
    command.args([
        "--store",
        &deployment.url(),
        "--upstream",
        "http://127.0.0.1:1",
    ]);
    let run = Run::of(command.args(["--listen", addr]));
    let (state, said) = found(&run, "listen");
    assert_eq!(state, "note", "{said}");
    assert!(found(&run, "store").1.contains("is in use"));
    assert_eq!(found(&run, "durability").1, "D2");
    drop(running);
}

#[test]
fn too_few_open_files_are_wrong() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 200 && exec \"$0\" \"$@\""]);
    command.arg(env!("CARGO_BIN_EXE_onceward"));
    command.args(["doctor", "--json", "--store", "memory:", "--admin", "off"]);
    command.args([
        "--upstream",
        "http://127.0.0.1:1",
        "--listen",
        "127.0.0.1:0",
    ]);
    let run: Run = command.output().unwrap().into();
    let (state, said) = found(&run, "open files");
    assert_eq!(state, "bad", "{said}");
    assert!(said.starts_with("200 may be open"), "{said}");
}

#[test]
fn callers_that_nobody_verifies_are_worth_a_look_off_loopback() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("onceward.toml");
    std::fs::write(&file, "plaintext = \"behind-proxy\"\n").unwrap();
    let with = |listen: &str| {
        let mut command = onceward(["doctor", "--json", "--store", "memory:", "--admin", "off"]);
        command.args(["--upstream", "http://127.0.0.1:1", "--listen", listen]);
        found(&Run::of(command.arg("--config").arg(&file)), "identity")
    };
    let (state, said) = with("0.0.0.0:0");
    assert_eq!(state, "note", "{said}");
    assert!(said.contains("no [identity]"), "{said}");
    assert_eq!(with("127.0.0.1:0").0, "good");
}
