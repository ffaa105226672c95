//! The console: data on stdout, talk on stderr.

use std::{
    fmt,
    io::{self, ErrorKind, IsTerminal as _, Write as _},
};

use serde::Serialize;

use crate::exit::Failure;

/// Where a command speaks.
///
/// Commands write through it alone, so that a reader who leaves early ends them quietly.
#[derive(Debug)]
pub(crate) struct Console;

// === impl Console ===

impl Console {
    /// Prints data for people.
    pub(crate) fn data(&self, text: impl fmt::Display) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        write!(stdout, "{text}")
            .and_then(|()| stdout.flush())
            .map_err(|error| unwritten(&error))
    }

    /// Prints data for machines: one object on one line.
    pub(crate) fn json(&self, data: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(data).expect("an answer has text keys and finite numbers");
        self.data(format_args!("{text}\n"))
    }

    /// Prints the help or version that a command line asks for.
    pub(crate) fn help(&self, asked: &clap::Error) -> Result<(), Failure> {
        asked.print().map_err(|error| unwritten(&error))
    }

    /// Says one line on stderr.
    ///
    /// Talk that cannot be delivered is dropped: the exit status still tells how things went.
    pub(crate) fn say(&self, line: impl fmt::Display) {
        let _ = writeln!(io::stderr().lock(), "{line}");
    }

    /// Whether somebody is there who can be asked.
    pub(crate) fn is_dialogue(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks a question that only `y` or `yes` affirms.
    pub(crate) fn confirms(&self, question: impl fmt::Display) -> bool {
        let _ = write!(io::stderr().lock(), "{question} [y/N] ");
        let mut answer = String::new();
        let read = io::stdin().read_line(&mut answer);
        read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
    }

    /// Warns on stderr about an answer that is given all the same.
    pub(crate) fn warn(&self, line: impl fmt::Display) {
        self.say(format_args!("warning: {line}"));
    }
}

/// Tells a reader who has seen enough from an answer that cannot be delivered.
fn unwritten(error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::new(
            format!("the answer cannot be written to stdout: {error}"),
            "check the file or pipe that stdout leads to, and its free space",
        ),
    }
}
