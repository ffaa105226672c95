//! Where in the journals the last acknowledged batch ends, while the database writes them.

use std::io;
use std::path::{Path, PathBuf};

use super::path;

/// The newest journal and its length, kept up to date by counting: the database does not say.
#[derive(Debug)]
pub(crate) struct Place {
    data: PathBuf,
    journal: u64,
    length: u64,
}

// === impl Place ===

impl Place {
    /// A place in a journal that is there already.
    pub(crate) fn new(data: &Path, journal: u64, length: u64) -> Self {
        Self {
            data: data.to_owned(),
            journal,
            length,
        }
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    pub(crate) fn journal(&self) -> u64 {
        self.journal
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Notes that a batch of `len` bytes was written.
    pub(crate) fn advance(&mut self, len: u64) -> io::Result<()> {
        // Nothing is rotated while a store is being opened.
        debug_assert!(!path(&self.data, self.journal + 1).try_exists()?);
        self.length += len;
        Ok(())
    }
}
