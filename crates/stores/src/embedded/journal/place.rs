//! Where in the journals the last acknowledged batch ends.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::path;
use super::runway::Runway;

/// The newest journal and its length, kept up to date by counting: the database does not say.
#[derive(Debug)]
pub(crate) struct Place {
    data: PathBuf,
    journal: u64,
    length: u64,
    /// What the journal after this one will be called.
    next: PathBuf,
    /// Zeros in front of the next batch; none in a journal that an earlier run began.
    runway: Option<Runway>,
}

// === impl Place ===

impl Place {
    /// A place in a journal that is there already.
    pub(crate) fn new(data: &Path, journal: u64, length: u64) -> Self {
        Self {
            data: data.to_owned(),
            journal,
            length,
            next: path(data, journal + 1),
            runway: None,
        }
    }

    /// A place in a journal that this process has begun.
    pub(crate) fn in_new(data: &Path, journal: u64, length: u64) -> Self {
        // Without one, syncs take longer, and that is all.
        let runway = Runway::new(&path(data, journal))
            .inspect_err(|error| tracing::debug!(%error, journal, "a journal has no runway"));
        Self {
            runway: runway.ok(),
            ..Self::new(data, journal, length)
        }
    }

    pub(crate) fn journal(&self) -> u64 {
        self.journal
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Makes ready for the next batch. Nothing may be written to the journal meanwhile.
    pub(crate) fn prepare(&mut self) {
        let Some(runway) = &mut self.runway else {
            return;
        };
        if let Err(error) = runway.keep_ahead(self.length) {
            // A disk that is full says so again where it matters.
            tracing::debug!(%error, journal = self.journal, "a runway ends");
            self.runway = None;
        }
    }

    /// Notes that a batch of `len` bytes was written. A worker may have begun a new journal just
    /// before that or just after.
    pub(crate) fn advance(&mut self, len: u64) -> io::Result<()> {
        if !self.next.try_exists()? {
            self.length += len;
            return Ok(());
        }
        let mut first = [0];
        let read = File::open(&self.next)?.read_at(&mut first, 0)?;
        let is_in_there = read == 1 && first != [0];
        let length = if is_in_there { len } else { 0 };
        *self = Self::in_new(&self.data, self.journal + 1, length);
        Ok(())
    }
}
