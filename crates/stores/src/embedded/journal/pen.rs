//! The pen: writes batches into the journals.
//!
//! The database would put every batch into its tables in memory as well, which takes several times
//! as long as writing it down. So batches are written here, in the database's own format, and what
//! they say is on the board until it is filed. When the store is opened, the database reads the
//! journals like any that it has written itself.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::batch::Draft;
use super::place::Place;
use super::runway::Runway;
use super::{ids, path};

/// Writes to the newest journal, behind the last batch.
#[derive(Debug)]
pub(crate) struct Pen {
    data: PathBuf,
    journal: u64,
    file: File,
    length: u64,
    /// Zeros in front of the next batch.
    runway: Option<Runway>,
    /// The number of the last batch, as the database counts.
    seqno: u64,
    draft: Draft,
}

/// How long a journal is made, as one hole: what the database does.
const ROOM: u64 = 64 << 20;

/// How far the numbers of batches are ahead of what the database numbers by itself.
///
/// A table that is filed has a number as well, and when the store is opened, the database passes
/// over batches with smaller ones. So none may be smaller than that of any table which is filed
/// before the batch is.
const AHEAD: u64 = 1 << 16;

// === impl Pen ===

impl Pen {
    /// Goes on in the journal at `place`, which the database has written so far, and writes no
    /// more.
    pub(crate) fn take_over(place: &Place, sync: bool) -> io::Result<Self> {
        let (data, journal, length) = (place.data(), place.journal(), place.length());
        let path = path(data, journal);
        let file = File::options().write(true).open(&path)?;
        if file.metadata()?.len() < ROOM {
            file.set_len(ROOM)?;
            file.sync_all()?;
        }
        Ok(Self {
            data: data.to_owned(),
            journal,
            file,
            length,
            runway: sync.then(|| Runway::behind(&path, length)).flatten(),
            seqno: 0,
            draft: Draft::default(),
        })
    }

    pub(crate) fn journal(&self) -> u64 {
        self.journal
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The least number of the next batch, where `seqno` is the database's next one.
    pub(crate) fn seqno(&self, seqno: u64) -> u64 {
        (self.seqno + 1).max(seqno + AHEAD)
    }

    /// Where the next batch goes, begun. `seqno` is the database's next number.
    pub(crate) fn begin(&mut self, seqno: u64) -> &mut Draft {
        self.seqno = self.seqno(seqno);
        self.draft.begin(self.seqno);
        &mut self.draft
    }

    /// Writes the batch that was begun. It is durable afterwards, if it is to be synced.
    pub(crate) fn write(&mut self, sync: bool) -> io::Result<()> {
        if let Some(runway) = &mut self.runway
            && let Err(error) = runway.keep_ahead(self.length)
        {
            // A disk that is full says so again where it matters.
            tracing::debug!(%error, journal = self.journal, "a runway ends");
            self.runway = None;
        }
        let bytes = self.draft.end();
        self.file.write_all_at(bytes, self.length)?;
        if sync {
            self.file.sync_data()?;
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Begins the next journal, with the batch that `heading` puts there: one without batches would
    /// not tell that the one before it is missing. Both are durable then.
    pub(crate) fn turn_over(
        &mut self,
        sync: bool,
        seqno: u64,
        heading: impl FnOnce(&mut Draft),
    ) -> io::Result<()> {
        self.file.sync_all()?;
        let journal = self.journal + 1;
        let path = path(&self.data, journal);
        let file = File::create_new(&path)?;
        file.set_len(ROOM)?;
        self.runway = sync.then(|| Runway::behind(&path, 0)).flatten();
        (self.journal, self.file, self.length) = (journal, file, 0);
        heading(self.begin(seqno));
        self.write(false)?;
        self.file.sync_all()?;
        File::open(&self.data)?.sync_all()
    }
}

/// Syncs a journal.
pub(crate) fn sync(data: &Path, journal: u64) -> io::Result<()> {
    File::open(path(data, journal))?.sync_data()
}

/// Removes the journals before `journal`, the oldest first: all that they say is in tables.
pub(crate) fn remove_before(data: &Path, journal: u64) -> io::Result<()> {
    for id in ids(data)?.into_iter().filter(|id| *id < journal) {
        fs::remove_file(path(data, id))?;
        // Else a crash could bring back one without those behind it.
        File::open(data)?.sync_all()?;
    }
    Ok(())
}
