//! `onceward resolve`: settle what nobody knows.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    path::Path,
};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use onceward::{Ending, Outcome, Policy, Resolution};
use onceward_gateway::units::Invalid;

use crate::{
    console::Console,
    exit::{Exit, Failure},
    figures, settle,
};

/// Settle a record of which nobody knows whether the work happened
///
/// A record is unknown when its holder fell silent before it recorded an outcome. Find out in the
/// system that did the work, then say here what you found. Claims that have lapsed can be settled
/// as well; nothing else can.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLE)]
#[command(group = clap::ArgGroup::new("finding").required(true))]
pub(crate) struct Args {
    /// The work happened: every retry gets the answer in this file
    ///
    /// `-` reads it from stdin. It is kept byte for byte, up to 1 MiB.
    #[arg(long, value_name = "FILE", group = "finding")]
    completed: Option<OsString>,

    /// The work happened and failed for good: retries get the answer as a failure
    ///
    /// Give the status that says how it failed with --status; without it, retries get 500.
    #[arg(long, requires = "completed", conflicts_with = "not_executed")]
    failed: bool,

    /// The HTTP status that retries get through a gateway, 200 to 599 [default: 200, with --failed 500]
    #[arg(
        long,
        value_name = "CODE",
        requires = "completed",
        conflicts_with = "not_executed"
    )]
    #[arg(value_parser = status)]
    status: Option<StatusCode>,

    /// A header that retries get through a gateway; may be repeated
    ///
    /// Those that are never replayed are refused: lengths, dates, cookies, and what holds for one
    /// connection only.
    #[arg(long, value_name = "NAME: VALUE", requires = "completed")]
    #[arg(conflicts_with = "not_executed", value_parser = header)]
    header: Vec<(HeaderName, HeaderValue)>,

    /// The work did not happen: the next arrival executes it
    ///
    /// If it did happen after all, it then happens twice.
    #[arg(long, group = "finding")]
    not_executed: bool,

    #[command(flatten)]
    settle: settle::Args,
}

const EXAMPLE: &str = "\
Settling by a filter gives every record the same outcome, so look first: --dry-run.

Exit status: 0 settled, 1 there was nothing to settle, 2 failed.

Examples:
  onceward resolve --tenant acct_42 --operation pay --key order-1001 \\
      --completed answer.json --status 201 --header \"content-type: application/json\" \\
      --why \"charged: ledger entry 7781\"
      retries of order-1001 get the bytes of answer.json

  onceward resolve --operation pay --older-than 2h --not-executed \\
      --why \"the card network was down from 10:00 to 10:20\" --dry-run
      what would be executed again by the next retry";

// === impl Args ===

impl Args {
    /// Settles the records, and prints their slots.
    pub(crate) fn run(self, console: &Console) -> Result<Exit, Failure> {
        let resolution = match &self.completed {
            None => Resolution::NotExecuted,
            Some(file) => {
                let answer = read(Path::new(file))?;
                self.refuse_bodiless(&answer)?;
                Resolution::Completed(self.outcome(answer))
            }
        };
        self.settle.run(resolution, console)
    }

    fn outcome(&self, answer: Vec<u8>) -> Outcome {
        let mut outcome = match (self.status, self.header.is_empty()) {
            (None, true) => Outcome::success(answer),
            (status, _) => {
                let mut headers = HeaderMap::new();
                for (name, value) in &self.header {
                    headers.append(name, value.clone());
                }
                let status = status.unwrap_or(match self.failed {
                    true => StatusCode::INTERNAL_SERVER_ERROR,
                    false => StatusCode::OK,
                });
                onceward_http::outcome(status, &headers, answer)
            }
        };
        if self.failed {
            outcome.ending = Ending::Failure;
        }
        outcome
    }

    /// Refuses a body beside a status that has none: it would be kept, and never be given.
    fn refuse_bodiless(&self, answer: &[u8]) -> Result<(), Failure> {
        match self.status {
            Some(status @ (StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED))
                if !answer.is_empty() =>
            {
                Err(Failure::new(
                    format!("an answer with status {} has no body", status.as_u16()),
                    "give an empty file, such as --completed /dev/null, or another status",
                ))
            }
            _ => Ok(()),
        }
    }
}

fn status(text: &str) -> Result<StatusCode, Invalid> {
    let status = text.parse::<StatusCode>().ok();
    let status = status.filter(|status| (200..=599).contains(&status.as_u16()));
    status.ok_or_else(|| Invalid::new("is not the status of an answer", "write 200 to 599"))
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), Invalid> {
    let parts = text.split_once(':').and_then(|(name, value)| {
        let value = HeaderValue::from_str(value.trim()).ok()?;
        Some((name.trim().parse().ok()?, value))
    });
    let (name, value) = parts.ok_or_else(|| {
        let hint = "write NAME: VALUE, for example \"content-type: application/json\"";
        Invalid::new("is not a header", hint)
    })?;
    match onceward_http::is_kept(&name) {
        true => Ok((name, value)),
        false => Err(Invalid::new(
            "is a header that retries do not get",
            "leave it out: lengths, dates, cookies and what holds for one connection are not kept",
        )),
    }
}

/// Returns the answer in `file`, or from stdin.
fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    // Beyond it the engine would keep the length alone, and an operator's answer is not replaced
    // silently by none.
    let limit = Policy::default().body_max;
    let stdin = file.as_os_str() == "-";
    let answer = match stdin {
        true => read_up_to(limit + 1, io::stdin().lock()),
        false => File::open(file).and_then(|file| read_up_to(limit + 1, file)),
    };
    let place = match stdin {
        true => "stdin".into(),
        false => file.display().to_string(),
    };
    let answer = answer.map_err(|error| {
        Failure::new(
            format!("the answer in {place} cannot be read: {error}"),
            "name a file that this user may read, or - for stdin",
        )
    })?;
    if answer.len() > limit {
        return Err(Failure::new(
            format!(
                "the answer in {place} has more than {}",
                figures::bytes(limit as u128)
            ),
            "give a shorter answer, such as a reference to where the long one is",
        ));
    }
    Ok(answer)
}

fn read_up_to(limit: usize, from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limit as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
