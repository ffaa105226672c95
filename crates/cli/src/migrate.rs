//! `onceward migrate`: bring the tables of a database up to date.

use onceward_stores::{OpenError, postgres};
use serde::Serialize;

use crate::{
    console::Console,
    exit::{Exit, Failure},
    show, store, trouble,
};

/// Bring the tables of a database up to date
///
/// Makes the schema and its tables if there are none. Each step is a transaction of its own, under
/// a lock, so that nothing is left half done and any number may start this at once. `serve` does
/// the same when it starts, unless the store's URL says migrate=off.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Args {
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    store: store::Args,
}

/// What was done, or would be.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Answer {
    dry_run: bool,
    /// The version that was there; 0 where there was nothing.
    from: i32,
    /// The version that is there now, or would be.
    to: i32,
    /// What there was to do, a few words for each step.
    steps: Vec<&'static str>,
}

const EXAMPLE: &str = "\
Exit status: 0 the tables are up to date, 1 with --dry-run: they are not, 2 failed.

The role needs CREATE on the database, or on a schema that is there already; to serve later it needs
less. docs/postgres.md has the statements. A password comes from PGPASSWORD, or with the whole URL
from ONCEWARD_STORE.

Examples:
  onceward migrate --store postgres://onceward_owner@db.internal/app --dry-run
      whether there is anything to do

  onceward migrate --store postgres://onceward_owner@db.internal/app
      do it";

// === impl Args ===

impl Args {
    /// Migrates, and prints from which version to which.
    pub(crate) fn run(self, console: &Console) -> Result<Exit, Failure> {
        let answer = Answer::of(self.store.database()?, self.dry_run);
        let answer =
            answer.map_err(|error| Failure::new(trouble::in_one_line(&error), error.hint()))?;
        answer.tell(self.json, console)
    }
}

// === impl Answer ===

impl Answer {
    /// Looks what there is to do, and does it unless this is a look only.
    fn of(settings: &postgres::Settings, dry_run: bool) -> Result<Self, OpenError> {
        let (postgres::Migrated { from, to, .. }, steps) = postgres::pending(settings)?;
        if !dry_run {
            // Another may have been faster: then it was done, and this is as good.
            postgres::migrate(settings)?;
        }
        Ok(Self {
            dry_run,
            from,
            to,
            steps,
        })
    }

    fn tell(&self, json: bool, console: &Console) -> Result<Exit, Failure> {
        match json {
            true => console.json(self)?,
            false => console.data(self.text())?,
        }
        Ok(match self.dry_run && self.from != self.to {
            true => Exit::No,
            false => Exit::Done,
        })
    }

    fn text(&self) -> String {
        let Self {
            dry_run,
            from,
            to,
            steps,
        } = self;
        let did = match (from == to, dry_run) {
            (true, _) => format!("nothing to do: version {to}"),
            (false, true) => format!("would go from version {from} to {to}"),
            (false, false) => format!("from version {from} to {to}"),
        };
        let steps = steps.iter().map(|what| ["step".into(), (*what).to_owned()]);
        let lines: Vec<_> = [["schema".to_owned(), did]]
            .into_iter()
            .chain(steps)
            .collect();
        show::table(&lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(dry_run: bool, from: i32) -> (String, Exit) {
        let answer = Answer {
            dry_run,
            from,
            to: 1,
            steps: if from < 1 { vec!["records"] } else { vec![] },
        };
        (answer.text(), answer.tell(true, &Console).unwrap())
    }

    #[test]
    fn only_a_look_that_finds_work_says_no() {
        let (text, exit) = told(true, 0);
        assert_eq!(
            text,
            "schema  would go from version 0 to 1\nstep    records\n"
        );
        assert_eq!(exit, Exit::No);
        let (text, exit) = told(false, 0);
        assert_eq!(text, "schema  from version 0 to 1\nstep    records\n");
        assert_eq!(exit, Exit::Done);
        for dry_run in [true, false] {
            let (text, exit) = told(dry_run, 1);
            assert_eq!(text, "schema  nothing to do: version 1\n");
            assert_eq!(exit, Exit::Done);
        }
    }
}
