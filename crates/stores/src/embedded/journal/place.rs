//! Where in the journals the last acknowledged batch ends.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::path;

/// The newest journal and its length, kept up to date by counting: the database does not say.
#[derive(Debug)]
pub(crate) struct Place {
    data: PathBuf,
    journal: u64,
    length: u64,
    /// What the journal after this one will be called.
    next: PathBuf,
}

// === impl Place ===

impl Place {
    pub(crate) fn new(data: &Path, journal: u64, length: u64) -> Self {
        Self {
            data: data.to_owned(),
            journal,
            length,
            next: path(data, journal + 1),
        }
    }

    pub(crate) fn journal(&self) -> u64 {
        self.journal
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
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
        *self = Self::new(&self.data, self.journal + 1, length);
        Ok(())
    }
}
