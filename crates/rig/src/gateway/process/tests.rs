use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A launch of a script that stands for the executable.
fn launch(script: &str) -> Launch {
    let mut launch = Launch::new("");
    let path = launch.file("fake", &format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    launch.executable = path;
    launch
}

const LISTEN: &str = "echo 'INFO listening on http://127.0.0.1:4711' >&2
    echo 'INFO admin on http://127.0.0.1:4712.' >&2";

#[tokio::test]
async fn addresses_are_read_from_what_it_says() {
    let gateway = launch(&format!("{LISTEN}\nexec sleep 600")).start().await;
    assert_eq!(gateway.addr(), "127.0.0.1:4711".parse().unwrap());
    assert_eq!(gateway.admin(), "127.0.0.1:4712".parse().unwrap());
    let (now, most) = gateway.memory();
    assert!(0 < now && now <= most, "{now} {most}");
    assert!(gateway.open_files() >= 3);
}

#[tokio::test]
async fn a_kill_ends_it_and_a_restart_begins_anew_in_the_same_folder() {
    let script = format!("echo x >> runs\n{LISTEN}\nexec sleep 600");
    let mut gateway = launch(&script).start().await;
    assert_eq!(gateway.kill9().await.code, None);
    let mut gateway = gateway.restart().await;
    gateway.kill9().await;
    let runs = std::fs::read_to_string(gateway.folder().join("runs")).unwrap();
    assert_eq!(runs, "x\nx\n");
}

#[tokio::test]
async fn a_failed_start_has_its_exit_status_and_all_that_was_said() {
    let ended = launch("echo one >&2; echo two >&2; exit 2").fail().await;
    assert_eq!(ended.code, Some(2));
    assert_eq!(ended.stderr, "one\ntwo\n");
}

#[tokio::test]
async fn a_store_that_cannot_write_gets_an_error_and_not_the_end() {
    let script = format!(
        "{LISTEN}\nread=0; while [ ! -e go ]; do sleep 0.01; done\n\
         echo much > file || echo refused >&2; exit 0"
    );
    let mut gateway = launch(&script).start().await;
    gateway.fail_writes(true);
    let go = gateway.folder().join("go");
    std::fs::File::create(go).unwrap();
    let ended = gateway.ended().await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("refused"), "{}", ended.stderr);
}

#[tokio::test]
async fn variables_arguments_and_the_configuration_reach_it() {
    let script = "echo \"$@\" >&2; cat onceward.toml >&2; echo \"$COLOUR\" >&2";
    let ended = launch(script)
        .config("listen = 1\n")
        .variable("COLOUR", "blue")
        .in_memory()
        .without("--admin")
        .fail()
        .await;
    assert!(
        ended.stderr.starts_with("serve --config "),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("--store memory:\n"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.ends_with("listen = 1\nblue\n"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains("--admin"), "{}", ended.stderr);
}

#[tokio::test]
async fn its_clock_can_be_moved() {
    let script = format!("{LISTEN}\nwhile [ ! -e go ]; do sleep 0.01; done\ndate +%Y >&2");
    let mut gateway = launch(&script).movable_clock().start().await;
    gateway.move_clock(100 * 366 * 24 * 60 * 60);
    std::fs::File::create(gateway.folder().join("go")).unwrap();
    let ended = gateway.ended().await;
    let year = ended.stderr.lines().last().unwrap();
    assert!(year.starts_with("21"), "{year}");
}
