//! `onceward inspect`: everything about one record.

use onceward::{Engine, Found};
use serde::Serialize;

use crate::{
    console::Console,
    exit::{Exit, Failure},
    runtime::block_on,
    select::{Name, NameArgs},
    show::json::View,
    store,
};

use self::body::{Bytes, Shown};
use self::headers::Headers;

mod body;
mod headers;
mod table;

/// Show the record in a slot
///
/// The outcome's headers and body are left out unless `--body` is given, because they may hold personal data.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(flatten)]
    name: NameArgs,

    /// Show the outcome's headers and body as well
    ///
    /// They follow the table as they are. With --json the body is `body`, or `body_hex` where it is
    /// not text, and `headers` is a list of names and values.
    #[arg(long)]
    body: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    store: store::Args,
}

/// The answer for machines.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    view: View<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Headers>,
    #[serde(flatten)]
    body: Option<Bytes<'a>>,
}

const EXAMPLE: &str = "\
Exit status: 0 found, 1 there is no such record, 2 failed.

Examples:
  onceward inspect --tenant acct_42 --operation pay --key order-1001
      what became of the work that the caller named order-1001

  onceward inspect --slot 3f9a27c1d0e4b586 --body
      the record that `onceward list` shows under these digits, and its answer";

// === impl Args ===

impl Args {
    /// Prints the record.
    pub(crate) fn run(self, console: &Console) -> Result<Exit, Failure> {
        let name = self.name.name()?;
        block_on(async {
            let engine = self.store.open().await?;
            match find(&engine, &name, console).await? {
                None => Ok(Exit::No),
                Some(found) if self.json => print_json(&found, self.body, console),
                Some(found) => print(&found, self.body, console),
            }
        })
    }
}

async fn find(engine: &Engine, name: &Name, console: &Console) -> Result<Option<Found>, Failure> {
    let found = name.find(engine).await?;
    if found.is_none() {
        console.say(name.absence());
    }
    Ok(found)
}

fn print_json(found: &Found, body: bool, console: &Console) -> Result<Exit, Failure> {
    let outcome = found.record.outcome().filter(|_| body);
    console.json(&Answer {
        view: View::of(found),
        headers: outcome.and_then(Headers::of),
        body: outcome.and_then(Bytes::of),
    })?;
    Ok(Exit::Done)
}

fn print(found: &Found, body: bool, console: &Console) -> Result<Exit, Failure> {
    console.data(table::of(found))?;
    if body {
        if let Some(headers) = found.record.outcome().and_then(Headers::of) {
            console.data(headers)?;
        }
        match Shown::of(&found.record) {
            Shown::Text(text) => console.data(format_args!("\n{text}"))?,
            Shown::Nothing(why) => console.say(why),
        }
    }
    if found.is_unsettled() {
        console.say(format_args!(
            "hint: find out whether the work happened, then settle it with \
             onceward resolve --slot {}",
            found.slot
        ));
    }
    Ok(Exit::Done)
}
