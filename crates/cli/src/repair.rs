//! `onceward repair`: bring a damaged store back, and say what it cost.

use onceward::SlotId;
use onceward_stores::embedded::{self, Cut, Loss, Repaired};
use serde::Serialize;

use crate::{
    console::Console,
    exit::{Exit, Failure},
    figures, show, store, trouble,
};

/// Repair a damaged store, and say whether anything was lost
///
/// Works on a copy: what can be read is written into a new folder, which then takes the place of
/// the damaged one. That stays beside it, so nothing is lost by trying. Needs as much free space as
/// the store takes. A crash alone needs no repair: opening a store deals with that.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Args {
    /// Only say what would be found, and leave everything as it is
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    store: store::Args,
}

/// What was found, and what came of it.
#[derive(Debug, Serialize)]
struct Answer {
    dry_run: bool,
    /// What was lost of that which had been acknowledged: nothing, possible or certain.
    lost: &'static str,
    records: u64,
    /// Whether the secret, without which no key finds its record, is among them.
    secret_kept: bool,
    /// The slots of records that could not be read.
    dropped: Vec<String>,
    /// Stretches of slots of which nobody knows what they held.
    unreadable: u64,
    journal_cut: Option<CutView>,
    journals_only: bool,
    last_batch: Option<u64>,
    acknowledged_batch: Option<u64>,
    original: Option<String>,
}

#[derive(Debug, Serialize)]
struct CutView {
    journal: u64,
    byte: u64,
}

const EXAMPLE: &str = "\
Exit status: 0 nothing that was acknowledged was lost, 1 something was or may have been, 2 failed.

A record that was lost is taken for new when its caller asks again, so the work may then happen
twice: settle that with the callers before traffic comes back. The store's secret counts as a
record.

Examples:
  onceward repair --dry-run
      what could be saved

  onceward repair --store embedded:/var/lib/payments
      save it; the folder as it was stays in /var/lib/payments.before-repair-1";

// === impl Args ===

impl Args {
    /// Repairs the store, and prints what was found.
    pub(crate) fn run(self, console: &Console) -> Result<Exit, Failure> {
        let folder = self.store.folder()?;
        let repaired = match self.dry_run {
            true => embedded::repair_dry_run(folder),
            false => embedded::repair(folder),
        };
        let repaired =
            repaired.map_err(|error| Failure::new(trouble::in_one_line(&error), error.hint()))?;
        let told = match self.json {
            true => console.json(&Answer::of(&repaired, self.dry_run)),
            false => console.data(table(&repaired)),
        };
        // A reader who has seen enough of the list must not make a loss look like none.
        match told {
            Ok(()) | Err(Failure::ReaderGone) => {}
            Err(failure) => return Err(failure),
        }
        if has_lost_secret(&repaired) {
            console.warn(
                "the secret was lost: unless it is given as ONCEWARD_SECRET, no key finds its \
                 record any more",
            );
        }
        Ok(exit(repaired.loss()))
    }
}

/// Whether records were saved, but not the one that no key is found without.
fn has_lost_secret(repaired: &Repaired) -> bool {
    !repaired.secret_kept && repaired.records > 0
}

/// Whether nothing was lost. Perhaps is no: work that may happen twice needs a person.
fn exit(loss: Loss) -> Exit {
    match loss {
        Loss::Nothing => Exit::Done,
        Loss::Possible | Loss::Certain => Exit::No,
    }
}

// === impl Answer ===

impl Answer {
    fn of(repaired: &Repaired, dry_run: bool) -> Self {
        let original = repaired.original.as_ref();
        Self {
            dry_run,
            lost: match repaired.loss() {
                Loss::Nothing => "nothing",
                Loss::Possible => "possible",
                Loss::Certain => "certain",
            },
            records: repaired.records,
            secret_kept: repaired.secret_kept,
            dropped: repaired.dropped.iter().map(SlotId::to_string).collect(),
            unreadable: repaired.unreadable,
            journal_cut: repaired
                .cut
                .map(|Cut { journal, at }| CutView { journal, byte: at }),
            journals_only: repaired.journals_only,
            last_batch: repaired.found,
            acknowledged_batch: repaired.acknowledged,
            original: original.map(|path| path.display().to_string()),
        }
    }
}

/// Returns what was found, a line per fact.
fn table(repaired: &Repaired) -> String {
    let batch = |number: Option<u64>| match number {
        Some(number) => figures::grouped(number.into()),
        None => "none found".into(),
    };
    let mut lines = vec![
        line("records", figures::grouped(repaired.records.into())),
        line("last batch", batch(repaired.found)),
        line("acknowledged", batch(repaired.acknowledged)),
    ];
    if let Some(Cut { journal, at }) = repaired.cut {
        let told = format!("journal {journal} cannot be read from byte {at} on");
        lines.push(line("cut", told));
    }
    if repaired.journals_only {
        lines.push(line(
            "older",
            "everything that had left the journals is gone",
        ));
    }
    if repaired.unreadable > 0 {
        let told = format!("{} stretches of slots", repaired.unreadable);
        lines.push(line("unreadable", told));
    }
    let dropped = repaired.dropped.iter();
    lines.extend(dropped.map(|slot| line("dropped", slot.to_string())));
    lines.push(line("lost", loss(repaired.loss())));
    if let Some(original) = &repaired.original {
        lines.push(line("original", original.display().to_string()));
    }
    show::table(&lines)
}

const fn loss(loss: Loss) -> &'static str {
    match loss {
        Loss::Nothing => "nothing that was acknowledged",
        Loss::Possible => "perhaps something that was acknowledged: nobody can tell",
        Loss::Certain => "something that was acknowledged",
    }
}

fn line(name: &str, fact: impl Into<String>) -> [String; 2] {
    [name.into(), fact.into()]
}

#[cfg(test)]
mod tests {
    use embedded::EmbeddedStore;

    use super::*;

    /// Returns what a repair finds in a sound store.
    fn sound() -> Repaired {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        EmbeddedStore::open(&store).unwrap().close();
        embedded::repair_dry_run(&store).unwrap()
    }

    /// Returns what a repair finds where everything has gone wrong.
    fn ruined() -> Repaired {
        let mut repaired = sound();
        repaired.records = 1_234;
        repaired.found = Some(70);
        repaired.acknowledged = Some(77);
        repaired.cut = Some(Cut {
            journal: 3,
            at: 512,
        });
        repaired.journals_only = true;
        repaired.unreadable = 2;
        repaired.dropped = vec![SlotId::from_bytes([0xab; 32])];
        repaired.original = Some("store.before-repair-1".into());
        repaired
    }

    #[test]
    fn every_damage_has_its_line() {
        let slot = "ab".repeat(32);
        let wanted = format!(
            "\
records       1,234
last batch    70
acknowledged  77
cut           journal 3 cannot be read from byte 512 on
older         everything that had left the journals is gone
unreadable    2 stretches of slots
dropped       {slot}
lost          something that was acknowledged
original      store.before-repair-1
"
        );
        assert_eq!(table(&ruined()), wanted);
    }

    #[test]
    fn sound_store_has_no_damage_to_tell() {
        let table = table(&sound());
        let names: Vec<_> = table.lines().map(|line| &line[..12]).collect();
        let wanted = [
            "records     ",
            "last batch  ",
            "acknowledged",
            "lost        ",
        ];
        assert_eq!(names, wanted);
    }

    #[test]
    fn machines_are_told_the_same() {
        let answer = serde_json::to_value(Answer::of(&ruined(), false)).unwrap();
        let wanted = serde_json::json!({
            "dry_run": false,
            "lost": "certain",
            "records": 1_234,
            "secret_kept": false,
            "dropped": ["ab".repeat(32)],
            "unreadable": 2,
            "journal_cut": {"journal": 3, "byte": 512},
            "journals_only": true,
            "last_batch": 70,
            "acknowledged_batch": 77,
            "original": "store.before-repair-1",
        });
        assert_eq!(answer, wanted);
    }

    #[test]
    fn loss_of_the_secret_is_noticed() {
        let mut repaired = ruined();
        assert!(has_lost_secret(&repaired));
        repaired.secret_kept = true;
        assert!(!has_lost_secret(&repaired));
    }
}
