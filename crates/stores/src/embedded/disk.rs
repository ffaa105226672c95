//! The disk: how much room it has, and what tests let it do.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use onceward::store::Error;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// What the store asks of the disk beside reading and writing. Tests put another in its place.
#[doc(hidden)]
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// How many bytes are free for the store in `folder`, and how many there are in all.
    fn room(&self, folder: &Path) -> io::Result<Room>;

    /// Called before a batch is written. An error stands for one that the disk gave.
    fn writing(&self) -> io::Result<()> {
        Ok(())
    }

    /// Called when a batch is written and nobody knows it yet.
    fn written(&self) -> io::Result<()> {
        Ok(())
    }

    /// Called before what the journals say is filed.
    fn filing(&self) -> io::Result<()> {
        Ok(())
    }

    /// Called when it is filed, and the journals are still there.
    fn filed(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The room on a disk, in bytes.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// What is free for this user.
    pub free: u64,
    /// What there is in all.
    pub all: u64,
}

/// The machine's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct MachineDisk;

/// Keeps room for ending what was begun: below the reserve no new claim is taken.
#[derive(Debug)]
pub(super) struct Reserve {
    /// How much to keep free; `None` is by the size of the disk.
    bytes: Option<u64>,
    /// Nobody has to look before this moment, in microseconds.
    good_until: AtomicU64,
    is_short: Mutex<bool>,
}

// === impl MachineDisk ===

impl Disk for MachineDisk {
    fn room(&self, folder: &Path) -> io::Result<Room> {
        let disk = rustix::fs::statvfs(folder)?;
        Ok(Room {
            free: disk.f_bavail.saturating_mul(disk.f_frsize),
            all: disk.f_blocks.saturating_mul(disk.f_frsize),
        })
    }
}

// === impl Reserve ===

impl Reserve {
    const EVERY: Duration = Duration::from_secs(1);
    /// The tables that a journal becomes and the journal after it have to fit in there.
    const LEAST: u64 = 128 << 20;
    const MOST: u64 = 1 << 30;

    pub(super) fn new(bytes: Option<u64>) -> Self {
        Self {
            bytes,
            good_until: AtomicU64::new(0),
            is_short: Mutex::new(false),
        }
    }

    /// Whether there is room for a new claim. Looks at the disk about once a second, and at every
    /// claim while there is none, so that it recovers at once.
    pub(super) fn admit(&self, disk: &dyn Disk, at: &Path, now: Duration) -> Result<(), Error> {
        let now = now.as_micros() as u64;
        if now < self.good_until.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut is_short = self.is_short.lock();
        if now < self.good_until.load(Ordering::Relaxed) {
            // Somebody else has looked meanwhile.
            return Ok(());
        }
        self.look(&mut is_short, disk, at);
        if !*is_short {
            let until = now + Self::EVERY.as_micros() as u64;
            self.good_until.store(until, Ordering::Relaxed);
            return Ok(());
        }
        Err(Error::Full {
            store: super::KIND,
            why: format!("the disk of {} is nearly full", at.display()),
        })
    }

    fn look(&self, is_short: &mut bool, disk: &dyn Disk, at: &Path) {
        let Ok(room) = disk.room(at) else {
            // Not knowing is no reason to refuse: a full disk shows itself when it is written.
            return;
        };
        let two_percent = (room.all / 50).clamp(Self::LEAST, Self::MOST);
        let was_short = *is_short;
        *is_short = room.free < self.bytes.unwrap_or(two_percent);
        if *is_short && !was_short {
            tracing::error!(free = room.free, "the disk is nearly full: no new claims");
        } else if was_short && !*is_short {
            tracing::info!(free = room.free, "the disk has room again");
        }
    }
}
