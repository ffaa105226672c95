//! `onceward release`: let the next arrival execute what nobody knows.

use onceward::Resolution;

use crate::{
    console::Console,
    exit::{Exit, Failure},
    settle,
};

/// Let the next arrival execute work that did not happen
///
/// This is `onceward resolve --not-executed` in one word. You vouch for it that the work did not
/// happen: Onceward cannot know, and the next retry executes it. If it did happen, it happens
/// twice. Where there is any doubt, find out first, and leave the record unknown until then: an
/// unknown record never runs anything.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(flatten)]
    settle: settle::Args,
}

const EXAMPLE: &str = "\
Exit status: 0 released, 1 there was nothing to release, 2 failed.

Example:
  onceward release --slot 3f9a27c1d0e4b586 --why \"no such charge at the card network\"
      the next retry of this work executes it";

// === impl Args ===

impl Args {
    /// Settles the records as not executed, and prints their slots.
    pub(crate) fn run(self, console: &Console) -> Result<Exit, Failure> {
        self.settle.run(Resolution::NotExecuted, console)
    }
}
