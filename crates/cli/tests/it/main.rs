//! The executable from outside: what it prints where, and how it ends.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

use std::{
    ffi::OsStr,
    process::{Command, Output, Stdio},
    sync::RwLock,
};

use serde_json::Value;

mod config;
mod demo;
mod deployment;
mod doctor;
mod inspect;
mod list;
mod plan;
mod postgres;
mod repair;
mod resolve;
mod secret;
mod shell;
mod sweep;
mod trouble;

/// What came of one run of `onceward`.
struct Run {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

/// The variables that the executable reads.
const VARIABLES: [&str; 8] = [
    "ONCEWARD_ADMIN_TOKEN",
    "ONCEWARD_LOG",
    "PGPASSWORD",
    "ONCEWARD_STORE",
    "ONCEWARD_SECRET",
    "ONCEWARD_SECRET_FILE",
    "USER",
    "LOGNAME",
];

/// Returns the executable, ready to run with `args`, without stdin and without variables.
fn onceward<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onceward"));
    command.args(args).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    command
}

/// Held for reading while a process is being started: for a moment it has every file of this
/// process open, the locks of other tests' stores included.
static STARTING: RwLock<()> = RwLock::new(());

/// Runs `onceward` with the words of `line`.
fn run(line: &str) -> Run {
    Run::of(&mut onceward(line.split_whitespace()))
}

// === impl Run ===

impl Run {
    /// Runs `command` to its end.
    fn of(command: &mut Command) -> Self {
        let starting = STARTING.read().unwrap();
        let child = command.spawn().expect("the executable was built");
        drop(starting);
        child.wait_with_output().unwrap().into()
    }

    /// Checks that the command did its work, and returns what it printed.
    fn expect_done(&self) -> &str {
        assert_eq!(self.status, Some(0), "{}", self.stderr);
        &self.stdout
    }

    /// Checks that the command did its work, and returns the object it printed.
    fn expect_json(&self) -> Value {
        let text = self.expect_done();
        assert_eq!(text.lines().count(), 1, "one object on one line: {text}");
        serde_json::from_str(text).expect("stdout is JSON")
    }

    /// Checks that the answer is no, and returns what was said about it.
    fn expect_no(&self) -> &str {
        assert_eq!(self.status, Some(1), "{}", self.stderr);
        &self.stderr
    }

    /// Checks that the command failed in two lines, and returns the error and the hint.
    fn expect_failed(&self) -> (&str, &str) {
        assert_eq!(self.status, Some(2), "{}", self.stderr);
        assert_eq!(self.stdout, "", "data came with a failure");
        let lines: Vec<_> = self.stderr.lines().collect();
        let [error, hint] = lines[..] else {
            panic!("not an error and a hint: {}", self.stderr);
        };
        (
            error.strip_prefix("error: ").expect("an error comes first"),
            hint.strip_prefix("hint: ").expect("a hint comes last"),
        )
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("output is text");
        Self {
            status: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}
