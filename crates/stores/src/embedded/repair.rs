//! Repairing: what can be read is written into a new folder, and what was lost is said.
//!
//! The damaged folder is not touched until the new one is complete; then the two change places,
//! and the old one stays beside it.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fjall::PersistMode;
use onceward::clock::SystemClock;
use onceward::{SlotId, Timestamp};

use super::base::{MEMTABLE, open_error};
use super::batch::Batch;
use super::disk::{Disk as _, MachineDisk};
use super::head::{Head, Unusable, sync_folder};
use super::journal::Mark;
use super::layout::{Contents, FOLDER_MODE, Folder, beside};
use super::start::Started;
use super::value::Value;
use crate::OpenError;

mod salvage;
mod source;
#[cfg(test)]
mod tests;

use source::Source;

/// What a repair found, did and could not do.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Repaired {
    /// How many records could be read.
    pub records: u64,
    /// The slots of records that could not. Whoever asks for them again is taken for new.
    pub dropped: Vec<SlotId>,
    /// How many stretches of slots could not be read at all: nobody knows what they held.
    pub unreadable: u64,
    /// Where a journal was cut, because it could not be read from there on.
    pub cut: Option<Cut>,
    /// Whether only the journals could be read, so that everything older is gone.
    pub journals_only: bool,
    /// Whether the record with the store's secret was read; without it no key finds its record.
    pub secret_kept: bool,
    /// The last batch found.
    pub found: Option<u64>,
    /// The last batch known to have been acknowledged; `None` if that could not be read.
    pub acknowledged: Option<u64>,
    /// Where the damaged folder is now; `None` after a dry run.
    pub original: Option<PathBuf>,
}

/// Where a journal ends that went on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The journal's number.
    pub journal: u64,
    /// The first byte that could not be read.
    pub at: u64,
}

/// Whether a repair lost anything that had been acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Nothing.
    Nothing,
    /// Perhaps: what was written in the last second before the end, or nobody can tell.
    Possible,
    /// Yes.
    Certain,
}

/// Repairs the store in the folder at `path`.
///
/// Needs as much free space as the store takes. The folder as it was stays beside the repaired
/// one, under the name in [`Repaired::original`].
pub fn repair(path: impl AsRef<Path>) -> Result<Repaired, OpenError> {
    Repair::begin(path.as_ref())?.run(false)
}

/// Says what [`repair`] would find, and leaves everything as it is.
pub fn repair_dry_run(path: impl AsRef<Path>) -> Result<Repaired, OpenError> {
    Repair::begin(path.as_ref())?.run(true)
}

/// A repair under way.
#[derive(Debug)]
struct Repair {
    folder: Folder,
    head: Option<Head>,
    /// Tells the folders of this repair from those of others.
    number: u32,
    workshop: PathBuf,
}

/// How many records are written at once.
const RECORDS_AT_ONCE: usize = 512;

// === impl Repair ===

impl Repair {
    fn begin(path: &Path) -> Result<Self, OpenError> {
        let failed = |source| OpenError::io(path, source);
        let path = path.canonicalize().map_err(failed)?;
        if is_mount_point(&path).map_err(failed)? {
            return Err(OpenError::MountPoint { path });
        }
        let folder = Folder::lock(&path)?;
        match folder.contents() {
            Ok(Contents::Store) | Err(OpenError::Damaged { .. }) => {}
            Ok(Contents::Nothing) => {
                let found = "no store".to_owned();
                return Err(OpenError::NotAStore { path, found });
            }
            Err(refused) => return Err(refused),
        }
        let head = match Head::read(&path) {
            Ok(head) => Some(head),
            Err(Unusable::Damaged) => None,
            Err(Unusable::Io(source)) => return Err(failed(source)),
            Err(Unusable::Newer { found }) => {
                let known = 1;
                return Err(OpenError::Newer { path, found, known });
            }
        };
        let (number, workshop) = workshop(&path).map_err(failed)?;
        Ok(Self {
            folder,
            head,
            number,
            workshop,
        })
    }

    fn run(self, is_dry: bool) -> Result<Repaired, OpenError> {
        let mut repaired = self.rescue(is_dry);
        if let Ok(repaired) = &mut repaired
            && !is_dry
        {
            // From here on the original may be in the workshop, so only success clears that away.
            repaired.original = Some(self.swap().map_err(|error| self.stuck(&error))?);
        }
        if let Err(error) = fs::remove_dir_all(&self.workshop) {
            tracing::warn!(%error, folder = %self.workshop.display(), "left behind");
        }
        repaired
    }

    /// Reads what can be read and, unless it is only asked what that would be, writes it anew.
    fn rescue(&self, is_dry: bool) -> Result<Repaired, OpenError> {
        let failed = |source| OpenError::io(self.folder.path(), source);
        let (source, cut) = Source::open(&self.folder, &self.workshop, self.head.as_ref())?;
        let mut repaired = Repaired {
            records: 0,
            dropped: Vec::new(),
            unreadable: u64::from(source.has_hole()),
            cut,
            journals_only: source.is_partial(),
            secret_kept: false,
            found: source.last().map(|mark| mark.sequence),
            acknowledged: self.head.map(|head| head.sequence),
            original: None,
        };
        if is_dry {
            source.read(&mut repaired, |_, _| Ok(()))?;
            return Ok(repaired);
        }
        let room = MachineDisk.room(&self.workshop).map_err(failed)?;
        if room.free < size(&self.folder.data()).map_err(failed)? {
            let path = self.folder.path().to_owned();
            return Err(OpenError::NoSpace { path });
        }
        self.rebuild(&source, &self.new_folder(), &mut repaired)?;
        Ok(repaired)
    }

    /// Writes everything that can be read into a new store. Its batches go on where the old ones
    /// ended, and its clock does.
    fn rebuild(
        &self,
        source: &Source,
        new: &Path,
        repaired: &mut Repaired,
    ) -> Result<(), OpenError> {
        let failed = |error| open_error(self.folder.path(), error);
        let last = source.last();
        let sequence = repaired.found.max(repaired.acknowledged).unwrap_or(0) + 1;
        let stamp = last.map(|mark| mark.stamp);
        let stamp = stamp.max(self.head.map(|head| head.stamp));
        let first = Mark {
            sequence,
            stamp: stamp.unwrap_or(Timestamp::ZERO),
        };
        // More than any number of openings, where nobody knows how many there were.
        let lost_epoch = first.stamp.as_micros() / 1_000_000;
        let epoch = self.head.map_or(lost_epoch, |head| head.epoch);
        let folder = Folder::lock(new)?;
        let Started {
            base,
            clock,
            mut head,
            mut mark,
            ..
        } = Started::create(&folder, true, Arc::new(SystemClock), first, epoch)?;
        let mut batch = Batch::default();
        let mut latest = clock.now();
        let mut commit = |batch: &mut Batch, now| {
            mark = mark.next(now);
            base.wait_for_room()?;
            batch.commit(&base, mark, false)?;
            batch.clear();
            base.rotate(MEMTABLE)
        };
        source.read(repaired, |slot, value: Value| {
            latest = latest.max(value.written());
            batch.push(slot, None, Some(value));
            match batch.changes().len() {
                RECORDS_AT_ONCE.. => commit(&mut batch, latest).map_err(failed),
                _ => Ok(()),
            }
        })?;
        commit(&mut batch, latest).map_err(failed)?;
        // Closing syncs as well, but does not say whether that failed.
        let synced = base.db.persist(PersistMode::SyncAll);
        synced.map_err(failed)?;
        drop(base);
        head.sequence = mark.sequence;
        head.stamp = latest;
        let written = head.write(folder.path());
        written.map_err(|source| OpenError::io(self.folder.path(), source))
    }

    /// Puts the new folder in the place of the old one. Returns where that is now.
    fn swap(&self) -> io::Result<PathBuf> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};

        let path = self.folder.path();
        let new = &self.new_folder();
        let original = beside(path, &format!(".before-repair-{}", self.number));
        let parent = path.parent().unwrap_or(path);
        // In one step where the system can do that, so that no crash leaves no folder at all: the
        // next open would take that for a new store.
        match renameat_with(CWD, new, CWD, path, RenameFlags::EXCHANGE) {
            Ok(()) => fs::rename(new, &original)?,
            Err(_) => {
                fs::rename(path, &original)?;
                if let Err(error) = fs::rename(new, path) {
                    fs::rename(&original, path)?;
                    return Err(error);
                }
            }
        }
        sync_folder(parent)?;
        Ok(original)
    }

    /// Says where everything is after a swap that came to a halt.
    fn stuck(&self, error: &io::Error) -> OpenError {
        let path = self.folder.path();
        let what = format!(
            "the folders could not change places, look for both in {}.*repair-{}: {error}",
            path.display(),
            self.number
        );
        OpenError::Folder {
            path: path.to_owned(),
            source: io::Error::new(error.kind(), what),
        }
    }

    fn new_folder(&self) -> PathBuf {
        self.workshop.join("new")
    }
}

// === impl Repaired ===

impl Repaired {
    /// Whether anything was lost that had been acknowledged.
    pub fn loss(&self) -> Loss {
        let is_short = self.found < self.acknowledged;
        let has_holes = !self.dropped.is_empty() || self.unreadable > 0;
        if has_holes || self.journals_only || is_short {
            return Loss::Certain;
        }
        // HEAD is a second behind at times, so a batch after it may have been acknowledged.
        match self.acknowledged.is_none() || self.cut.is_some() {
            true => Loss::Possible,
            false => Loss::Nothing,
        }
    }
}

/// Creates the first folder `PATH.repair-N` that is not there yet.
fn workshop(path: &Path) -> io::Result<(u32, PathBuf)> {
    for number in 1.. {
        let folder = beside(path, &format!(".repair-{number}"));
        if beside(path, &format!(".before-repair-{number}")).try_exists()? {
            continue;
        }
        match fs::DirBuilder::new().mode(FOLDER_MODE).create(&folder) {
            Ok(()) => return Ok((number, folder)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("every name is taken"))
}

/// Whether another file system begins at `path`: that cannot be put elsewhere by renaming.
fn is_mount_point(path: &Path) -> io::Result<bool> {
    let Some(parent) = path.parent() else {
        return Ok(true);
    };
    Ok(fs::metadata(path)?.dev() != fs::metadata(parent)?.dev())
}

/// How many bytes of the disk a folder takes.
fn size(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    if !folder.try_exists()? {
        return Ok(0);
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += match metadata.is_dir() {
            true => size(&entry.path())?,
            // Journals are longer than what is in them.
            false => metadata.blocks() * 512,
        };
    }
    Ok(bytes)
}
