//! `onceward list`: which records there are.

use onceward::{Engine, Found, Record, SlotId};

use onceward_gateway::units::Invalid;

use crate::{
    console::Console,
    exit::{Exit, Failure},
    prefix,
    runtime::block_on,
    select::{self, Which},
    show, store, walk,
};

use self::page::Page;

mod page;

/// List records, one per line
///
/// Without a name or a filter, all of them, in the order of their slots; but reservations, which
/// are no work, only with `--state reserved`. Keys are not stored, so
/// they cannot be shown; answers are left out, because they may hold personal data.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(flatten)]
    select: select::Args,

    /// Only work that was let pass although it looked like that in another slot
    #[arg(long, conflicts_with_all = ["slot", "key"])]
    suspected: bool,

    /// Show at most this many
    #[arg(long, value_name = "NUMBER", default_value = "100", value_parser = limit)]
    #[arg(allow_hyphen_values = true)]
    limit: usize,

    /// Go on after this slot: all 64 digits, as the page before says
    #[arg(long, value_name = "SLOT", value_parser = prefix::whole)]
    #[arg(conflicts_with_all = ["slot", "key"])]
    after: Option<SlotId>,

    /// Print one JSON object per record
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    store: store::Args,
}

/// The most records of one page: more is a job for --after.
const LIMIT_MAX: usize = 1_000_000;

const EXAMPLE: &str = "\
Columns:
  slot       the first digits of its name, enough for --slot
  state      claimed: somebody is at it; completed: done, and retries get its outcome;
             unknown: nobody knows whether it happened; open: the next arrival executes it;
             reserved: no work, but a business identity that the work in another slot has taken
  age        since it was last written; --older-than goes by this
  due        when its lease lapses or it expires
  reason     why nobody knows, which slot it stands for, or which it looks like

Examples:
  onceward list --state unknown --older-than 2h
      what has waited to be settled for two hours

  onceward list --suspected --older-than 1h
      what looked like other work, and passed

  onceward list --tenant acct_42 --json --limit 1000 | jq -r .slot
      the slots of one tenant";

/// Returns a number of records to show.
fn limit(text: &str) -> Result<usize, Invalid> {
    match text.parse() {
        Ok(limit @ 1..=LIMIT_MAX) => Ok(limit),
        _ => Err(Invalid::new(
            "is not a number of records to show",
            format!("write a whole number from 1 to {LIMIT_MAX}"),
        )),
    }
}

// === impl Args ===

impl Args {
    /// Prints the records.
    pub(crate) fn run(mut self, console: &Console) -> Result<Exit, Failure> {
        let which = std::mem::take(&mut self.select).which()?;
        block_on(async {
            let engine = self.store.open().await?;
            self.list(&engine, which, console).await
        })
    }

    async fn list(
        &self,
        engine: &Engine,
        which: Which,
        console: &Console,
    ) -> Result<Exit, Failure> {
        let mut page = Page::new(console, self.json);
        let sieve = match which {
            Which::Passing(sieve) => sieve,
            Which::One(name) => {
                let Some(found) = name.find(engine).await? else {
                    console.say(name.absence());
                    return Ok(Exit::No);
                };
                page.add(&found)?;
                page.end()?;
                return Ok(Exit::Done);
            }
        };
        let filter = sieve.filter(engine).await?;
        let wants = |record: &Record| {
            let is_meant = filter.state.is_some() || record.reservation().is_none();
            is_meant && (!self.suspected || show::is_suspected(record))
        };
        let add = |it: Found| page.add(&it);
        let records = walk::wanted(engine, &filter, self.after, self.limit, wants, add);
        let more = records.await?;
        if page.end()? == 0 {
            console.say("no records");
        }
        if let Some(last) = more {
            console.say(format_args!("hint: there are more: add --after {last}"));
        }
        Ok(Exit::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_checked() {
        assert_eq!(limit("1"), Ok(1));
        assert_eq!(limit("1000000"), Ok(LIMIT_MAX));
        for text in ["0", "-1", "1000001", "many", ""] {
            assert!(limit(text).is_err(), "{text:?}");
        }
    }
}
