//! Settling what nobody knows: what `resolve` and `release` share.

use onceward::{By, Engine, Found, NotSettled, Resolution, SlotId, record::StateName};
use serde::Serialize;

use crate::{
    console::Console,
    exit::{Exit, Failure},
    runtime::block_on,
    select::{self, Name, Sieve, Which},
    show, store, trouble,
};

use self::by::{Who, Why};

mod by;

/// Which records to settle, and in whose name.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    select: select::Args,

    /// Settle every record that is unknown
    #[arg(long, conflicts_with_all = ["slot", "tenant", "operation", "key", "state", "older_than"])]
    all: bool,

    /// Who settles it: a name that others can ask
    ///
    /// It stays in the record. Without it, the user's name in USER or LOGNAME.
    #[arg(long, value_name = "NAME")]
    who: Option<Who>,

    /// Why it can be settled: what was found out, and where
    ///
    /// It stays in the record.
    #[arg(long, value_name = "TEXT")]
    why: Why,

    /// Only say what would be settled
    #[arg(long)]
    dry_run: bool,

    /// Settle by a filter without asking first
    ///
    /// Asked is only who sits at a terminal: a script gets what it says.
    #[arg(long)]
    yes: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    store: store::Args,
}

/// How to settle whatever is to be settled.
#[derive(Debug)]
struct Settling {
    resolution: Resolution,
    by: By,
    dry_run: bool,
}

/// What was settled, or would be.
#[derive(Debug, Serialize)]
struct Answer {
    settled_as: &'static str,
    dry_run: bool,
    slots: Vec<String>,
    /// How many changed while they were being settled, and were left alone.
    moved: usize,
    /// What to say if there was nothing to settle.
    #[serde(skip)]
    nothing: &'static str,
}

// === impl Args ===

impl Args {
    /// Settles the records as `resolution` says, and prints their slots.
    pub(crate) fn run(self, resolution: Resolution, console: &Console) -> Result<Exit, Failure> {
        let which = self.select.which()?;
        if let Which::Passing(sieve) = &which
            && sieve.is_empty()
            && !self.all
        {
            return Err(Failure::new(
                "no records are named",
                "give --slot, or --tenant, --operation and --key, or a filter, or --all",
            ));
        }
        let by = by::named(self.who, self.why)?;
        let settling = Settling {
            resolution,
            by,
            dry_run: self.dry_run,
        };
        block_on(async {
            let engine = self.store.open().await?;
            let answer = match which {
                Which::One(name) => settling.one(&engine, &name).await?,
                Which::Passing(sieve) => {
                    if !self.yes && !settling.is_meant(&engine, &sieve, console).await? {
                        return Ok(Exit::No);
                    }
                    settling.all(&engine, sieve).await?
                }
            };
            answer.print(self.json, console)
        })
    }
}

// === impl Settling ===

impl Settling {
    /// Settles the record of that name.
    async fn one(&self, engine: &Engine, name: &Name) -> Result<Answer, Failure> {
        let found = name.find(engine).await?;
        let found = found.filter(|found| !found.record.has_expired(found.now));
        if let Some(found) = &found {
            self.settle(engine, found).await?;
        }
        Ok(Answer {
            nothing: name.absence(),
            ..self.answer(found.map(|found| found.slot), 0)
        })
    }

    /// Settles a record, if it can be settled.
    async fn settle(&self, engine: &Engine, found: &Found) -> Result<(), Failure> {
        if !found.is_unsettled() {
            return Err(not_unknown(found));
        }
        if self.dry_run {
            return Ok(());
        }
        let resolution = self.resolution.clone();
        let settled = engine.resolve(found.slot, resolution, &self.by).await;
        settled.map_err(|error| not_settled(&error))
    }

    /// Asks whoever sits at a terminal whether so many records are meant: a key that was left
    /// out turns one record into all of an operation, and what is settled stays settled.
    async fn is_meant(
        &self,
        engine: &Engine,
        sieve: &Sieve,
        console: &Console,
    ) -> Result<bool, Failure> {
        if self.dry_run || !console.is_dialogue() {
            return Ok(true);
        }
        let filter = sieve.clone().filter(engine).await?;
        let found = engine.resolve_all(&filter, &self.resolution, &self.by, true);
        let count = found
            .await
            .map_err(|error| not_settled(&error))?
            .slots
            .len();
        let how = self.answer([], 0).settled_as;
        Ok(count == 0 || console.confirms(format_args!("settle {count} records as {how}?")))
    }

    /// Settles every record that passes and can be settled.
    async fn all(&self, engine: &Engine, sieve: Sieve) -> Result<Answer, Failure> {
        let filter = sieve.filter(engine).await?;
        let settled = engine.resolve_all(&filter, &self.resolution, &self.by, self.dry_run);
        let settled = settled.await.map_err(|error| not_settled(&error))?;
        Ok(self.answer(settled.slots, settled.moved))
    }

    fn answer(&self, slots: impl IntoIterator<Item = SlotId>, moved: usize) -> Answer {
        Answer {
            settled_as: match self.resolution {
                Resolution::Completed(_) => "completed",
                Resolution::NotExecuted => "not executed",
            },
            dry_run: self.dry_run,
            slots: slots.into_iter().map(|slot| slot.to_string()).collect(),
            moved,
            nothing: "there is nothing to settle",
        }
    }
}

// === impl Answer ===

impl Answer {
    /// Prints a slot per line, then says how many there were.
    fn print(&self, json: bool, console: &Console) -> Result<Exit, Failure> {
        if json {
            console.json(self)?;
        } else {
            for slot in &self.slots {
                console.data(format_args!("{slot}\n"))?;
            }
        }
        let Self { slots, moved, .. } = self;
        if *moved > 0 {
            console.warn(format_args!(
                "{moved} changed meanwhile and stay as they are: look at them again"
            ));
        }
        if slots.is_empty() {
            console.say(self.nothing);
            return Ok(Exit::No);
        }
        let done = match self.dry_run {
            true => "would be settled",
            false => "settled",
        };
        console.say(format_args!(
            "{} {done} as {}",
            slots.len(),
            self.settled_as
        ));
        Ok(Exit::Done)
    }
}

/// Says why a record cannot be settled, and what can be done about it.
fn not_unknown(found: &Found) -> Failure {
    let state = found.record.state.name();
    let hint = match state {
        StateName::Claimed => format!(
            "its holder is at it: wait until the work is done, or the claim lapses; it {}",
            show::due(found)
        ),
        StateName::Completed | StateName::Shedding => {
            "its outcome stands, and every retry gets it: see onceward \
                                 inspect"
                .into()
        }
        StateName::Open => "it was settled as not executed: the next arrival executes it".into(),
        StateName::Unknown => "look again with onceward inspect".into(),
        StateName::Reserved => "it stands for work in another slot: settle that".into(),
    };
    Failure::new(
        format!("the record in slot {} is {state}, not unknown", found.slot),
        hint,
    )
}

/// Says why the engine settled nothing, or not everything.
fn not_settled(error: &NotSettled) -> Failure {
    match error {
        NotSettled::Engine(error) => trouble::of(error),
        other => Failure::new(
            trouble::in_one_line(other),
            "look again with onceward inspect, and settle it if it is still unknown",
        ),
    }
}

#[cfg(test)]
mod tests;
