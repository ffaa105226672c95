//! Roles: the manual's statements are enough, and no more than is needed is used.

use std::process::{Command, Stdio};

use onceward_rig::gateway::{Launch, Origin};
use onceward_rig::postgres::Server;

use crate::{ask, expect_replay, pay};

/// The statements that the manual gives for roles.
fn statements() -> String {
    let manual = include_str!("../../../../docs/postgres.md");
    let (_, rest) = manual.split_once("```sql\n").expect("there are some");
    let (statements, _) = rest.split_once("```").expect("they end");
    statements.replace("'...'", "'s3cret'")
}

/// Runs a command on the store that `url` names.
fn run(words: &[&str], url: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onceward"));
    command.args(words).env("ONCEWARD_STORE", url);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_roles_of_the_manual_can_do_their_work_and_no_more() {
    let server = Server::start().await;
    server.sql(&statements()).await;
    let url =
        |role: &str, rest: &str| format!("postgres://{role}@{}/postgres{rest}", server.addr());
    let owner = url("onceward_owner", "");
    let user = url("onceward", "?migrate=off");

    let (status, said) = run(&["migrate"], &url("onceward", ""));
    assert_eq!(status, Some(2), "the user makes no tables: {said}");
    assert_eq!(run(&["list"], &user).0, Some(2), "there are no tables yet");
    assert_eq!(run(&["migrate"], &owner), (Some(0), String::new()));

    let origin = Origin::start().await;
    let launch = Launch::new(env!("CARGO_BIN_EXE_onceward")).upstream(origin.addr());
    let gateway = launch.argument("--store", &user).start().await;
    let first = ask(&gateway, &pay("k")).await;
    assert_eq!(first.status, 201, "{}", gateway.log());
    expect_replay(&ask(&gateway, &pay("k")).await, &first);
    for words in [&["list"][..], &["sweep"]] {
        let (status, said) = run(words, &user);
        assert_eq!(status, Some(0), "{words:?}: {said}");
    }
}
