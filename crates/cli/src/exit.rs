//! How a command ends: done, no, or failed.

use std::process::ExitCode;

use crate::console::Console;

/// How a command that did its work ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The work is done; a question was answered with yes.
    Done,

    /// The work is done and the answer is no: nothing found, or something is not as it should be.
    No,
}

/// Why a command ends without its work being done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The work could not be done.
    Failed { message: String, hint: String },

    /// The command line means nothing, as clap explains in full.
    Usage(clap::Error),

    /// The reader of stdout went away, as `head` does when it has seen enough.
    ///
    /// That is no fault of anybody's, so it ends as done and without a word.
    ReaderGone,
}

// === impl Exit ===

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::SUCCESS,
            Exit::No => Self::from(1),
        }
    }
}

// === impl Failure ===

impl Failure {
    /// The exit status of a failure.
    const STATUS: u8 = 2;

    /// Returns a failure with what went wrong, and what to do next, in one line each.
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Failed {
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// Tells the caller, and returns the exit status.
    pub(crate) fn report(self, console: &Console) -> ExitCode {
        match self {
            Self::Failed { message, hint } => {
                console.say(format_args!("error: {message}"));
                console.say(format_args!("hint: {hint}"));
            }
            // Talk that cannot be delivered is dropped, here as everywhere.
            Self::Usage(refusal) => drop(refusal.print()),
            Self::ReaderGone => return ExitCode::SUCCESS,
        }
        ExitCode::from(Self::STATUS)
    }
}
