//! `onceward sweep`: put away what has expired.

use std::time::Duration;

use onceward::{
    Engine,
    clock::{Clock, SystemClock},
    store::Filter,
};
use serde::Serialize;

use crate::{
    console::Console,
    exit::{Exit, Failure},
    figures,
    runtime::block_on,
    show, store, trouble, walk,
};

/// Remove what has expired, and mark lapsed claims unknown
///
/// A service does this as it runs; by hand it makes room in a store that has stood still. Nothing
/// is removed before its time.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Args {
    /// Only count what is due
    ///
    /// The whole store is looked through.
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    store: store::Args,
}

/// What was swept, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Answer {
    dry_run: bool,
    /// Expired records that were removed.
    removed: usize,
    /// Lapsed claims that were marked unknown.
    lapsed: usize,
}

/// When it is time to say how far it has come.
#[derive(Debug)]
struct Pulse<'a> {
    clock: &'a dyn Clock,
    next: Duration,
}

/// How many records one step looks at. It is answered well within a store's patience.
const STEP: usize = 1_000;

const EXAMPLE: &str = "\
Examples:
  onceward sweep --dry-run
      how much is due

  onceward sweep --store embedded:/var/lib/payments
      remove it";

// === impl Args ===

impl Args {
    /// Sweeps until nothing is due, and prints the counts.
    pub(crate) fn run(self, console: &Console) -> Result<Exit, Failure> {
        block_on(async {
            let engine = self.store.open().await?;
            let mut pulse = Pulse::new(&SystemClock);
            let tell = |what: &str, number: usize| {
                if pulse.beats() {
                    let number = figures::grouped(number as u128);
                    console.say(format_args!("{number} {what} so far"));
                }
            };
            let answer = match self.dry_run {
                true => count(&engine, tell).await?,
                false => sweep(&engine, tell).await?,
            };
            match self.json {
                true => console.json(&answer)?,
                false => console.data(answer.text())?,
            }
            Ok(Exit::Done)
        })
    }
}

/// Removes and marks until nothing is due, and tells how far it has come.
async fn sweep(engine: &Engine, mut tell: impl FnMut(&str, usize)) -> Result<Answer, Failure> {
    let mut answer = Answer::default();
    // A store that nobody used holds nothing, and sweeping it would leave a secret there.
    if !store::is_used(engine).await? {
        return Ok(answer);
    }
    loop {
        let swept = engine.sweep(STEP).await;
        let swept = swept.map_err(|error| trouble::of(&error))?;
        answer.removed += swept.removed;
        answer.lapsed += swept.lapsed.len();
        if !swept.more {
            return Ok(answer);
        }
        tell("removed", answer.removed);
    }
}

/// Counts what is due without touching it, and tells how far it has come.
async fn count(engine: &Engine, mut tell: impl FnMut(&str, usize)) -> Result<Answer, Failure> {
    let mut seen = 0_usize;
    let mut answer = Answer {
        dry_run: true,
        ..Answer::default()
    };
    walk::each(engine, &Filter::default(), None, usize::MAX, |found| {
        seen += 1;
        answer.removed += usize::from(found.record.has_expired(found.now));
        answer.lapsed += usize::from(found.record.has_lapsed(found.now));
        tell("looked at", seen);
        Ok(())
    })
    .await?;
    Ok(answer)
}

// === impl Answer ===

impl Answer {
    fn text(self) -> String {
        let (removed, lapsed) = match self.dry_run {
            true => ("expired records to remove", "lapsed claims to mark unknown"),
            false => ("expired records removed", "lapsed claims marked unknown"),
        };
        let count = |number: usize| figures::grouped(number as u128);
        show::table(&[
            [removed.into(), count(self.removed)],
            [lapsed.into(), count(self.lapsed)],
        ])
    }
}

// === impl Pulse ===

impl<'a> Pulse<'a> {
    /// How often to say something: often enough to see that it goes on.
    const EVERY: Duration = Duration::from_secs(1);

    fn new(clock: &'a dyn Clock) -> Self {
        Self {
            clock,
            next: clock.stopwatch() + Self::EVERY,
        }
    }

    /// Whether it is time, which it then is not again for a while.
    fn beats(&mut self) -> bool {
        let now = self.clock.stopwatch();
        let beats = now >= self.next;
        if beats {
            self.next = now + Self::EVERY;
        }
        beats
    }
}

#[cfg(test)]
mod tests;
