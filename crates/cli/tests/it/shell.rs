//! Manners that all commands share.

use std::{fs::File, io};

use crate::{Run, STARTING, onceward, run};

/// Returns a pipe's writing end whose reader has left.
pub(crate) fn abandoned_pipe() -> io::PipeWriter {
    // A process that is started meanwhile would be a reader as well.
    let _none = STARTING.write();
    let (reader, writer) = io::pipe().expect("a pipe can be made");
    drop(reader);
    writer
}

#[test]
fn help_lists_the_commands() {
    let help = run("--help");
    let text = help.expect_done();
    for command in [
        "list", "inspect", "resolve", "release", "sweep", "repair", "plan", "config",
    ] {
        assert!(text.contains(&format!("\n  {command} ")), "{text}");
    }
    assert!(text.contains("0 done, 1 no, 2 failed"), "{text}");
    assert_eq!(help.stderr, "");
}

#[test]
fn version_is_the_package_version() {
    let version = run("--version");
    let wanted = concat!("onceward ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(version.expect_done(), wanted);
}

#[test]
fn line_that_means_nothing_fails_on_stderr() {
    for line in [
        "",
        "nonsense",
        "plan",
        "plan --rate 1 --nonsense",
        "plan --rate",
    ] {
        let refused = run(line);
        assert_eq!(refused.status, Some(2), "{line}");
        assert_eq!(refused.stdout, "", "{line}");
        assert!(refused.stderr.contains("Usage:") || refused.stderr.contains("--help"));
    }
}

#[test]
fn misspelled_option_is_guessed() {
    let refused = run("plan --rates 80");
    assert!(refused.stderr.contains("--rate"), "{}", refused.stderr);
}

#[test]
fn reader_who_leaves_early_is_no_failure() {
    for line in [
        "plan --rate 80",
        "plan --rate 80 --json",
        "--help",
        "plan --help",
    ] {
        let mut command = onceward(line.split(' '));
        let left = Run::of(command.stdout(abandoned_pipe()));
        assert_eq!((left.status, left.stderr.as_str()), (Some(0), ""), "{line}");
    }
}

#[test]
fn talk_that_nobody_hears_changes_nothing() {
    let mut command = onceward(["plan", "--rate", "0"]);
    let unheard = Run::of(command.stderr(abandoned_pipe()));
    assert_eq!(unheard.status, Some(2));
}

#[test]
#[cfg(target_os = "linux")]
fn answer_that_cannot_be_written_is_a_failure() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = onceward(["plan", "--rate", "80"]);
    let unwritten = Run::of(command.stdout(full));
    let (error, hint) = unwritten.expect_failed();
    assert!(error.contains("cannot be written to stdout"), "{error}");
    assert!(hint.contains("free space"), "{hint}");
}
