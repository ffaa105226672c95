//! Options: how to open a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use onceward::clock::{Clock, SystemClock};

use super::EmbeddedStore;
use super::base::{JOURNAL, LARGE};
use super::disk::{Disk, MachineDisk};
use crate::OpenError;

/// How to open an [`EmbeddedStore`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    pub(super) path: PathBuf,
    pub(super) sync: bool,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) recent: u64,
    pub(super) reserve: Option<u64>,
    pub(super) journal: u64,
    pub(super) large: usize,
    pub(super) disk: Arc<dyn Disk>,
}

// === impl Options ===

impl Options {
    /// The memory for recent answers: 32 MiB.
    const RECENT: u64 = 32 << 20;

    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            sync: true,
            clock: Arc::new(SystemClock),
            recent: Self::RECENT,
            reserve: None,
            journal: JOURNAL,
            large: LARGE,
            disk: Arc::new(MachineDisk),
        }
    }

    /// Sets whether every batch is synced before it is acknowledged. Default: yes. Without it an
    /// acknowledged write survives kill -9 but not power loss.
    pub fn sync(mut self, sync: bool) -> Self {
        self.sync = sync;
        self
    }

    /// Sets the clock. Default: the machine's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets how much memory recent answers may take, in bytes. Default: 32 MiB.
    pub fn recent(mut self, bytes: u64) -> Self {
        self.recent = bytes;
        self
    }

    /// Sets how many bytes of the disk stay free for ending what was begun: below that, new
    /// claims are refused. Default: a fiftieth of the disk, at least 128 MiB and at most 1 GiB.
    pub fn reserve(mut self, bytes: u64) -> Self {
        self.reserve = Some(bytes);
        self
    }

    /// Sets how many bytes are written to a journal before what it says is filed.
    #[doc(hidden)]
    pub fn journal(mut self, bytes: u64) -> Self {
        self.journal = bytes;
        self
    }

    /// Sets from how many records on those who write may leave it to a thread of the store to look
    /// something up.
    #[doc(hidden)]
    pub fn large(mut self, records: usize) -> Self {
        self.large = records;
        self
    }

    /// Puts another disk in place of the machine's.
    #[doc(hidden)]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = disk;
        self
    }

    /// Opens the store, or creates one.
    pub fn open(self) -> Result<EmbeddedStore, OpenError> {
        EmbeddedStore::start(self)
    }
}
