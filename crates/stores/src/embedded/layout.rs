//! Layout: what lies where in a store's folder, and whether it is a store's folder at all.
//!
//! ```text
//! FORMAT   the version of this layout        HEAD   what was acknowledged
//! LOCK     held by whoever has it open       NEW    there until the folder is complete
//! data/    the database: journals, keyspaces
//! ```

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_128;

mod around;
mod lists;

pub(super) use around::{FOLDER_MODE, beside, refuse_half_repaired};
use around::{create, parent};
pub(super) use lists::Purpose;

use super::head::{Head, checked, replace, summed, sync_folder};
use crate::OpenError;

/// The folder of a store, locked for as long as this lives.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The lock goes when the file is closed.
    lock: Mutex<Option<File>>,
}

/// What a folder holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Contents {
    /// Nothing, or a store that was never completed and so never held anything.
    Nothing,
    /// A store.
    Store,
}

pub(super) const FORMAT: &str = "FORMAT";
const FORMAT_TITLE: &str = "onceward-store";
const FORMAT_VERSION: u32 = 1;

const LOCK: &str = "LOCK";
const NEW: &str = "NEW";
pub(super) const DATA: &str = "data";
const OURS: [&str; 7] = [
    FORMAT,
    "FORMAT.new",
    Head::FILE,
    "HEAD.new",
    LOCK,
    NEW,
    DATA,
];

/// The database's own folders: its names and options, the records, the index.
pub(super) const KEYSPACES: [u64; 3] = [0, 1, 2];
const CURRENT: &str = "current";
pub(super) const DATABASE_VERSION: &[u8] = b"FJL\x03";

// === impl Folder ===

impl Folder {
    /// Locks the folder at `path`, creating it if there is none.
    pub(super) fn lock(path: &Path) -> Result<Self, OpenError> {
        let failed = |source| OpenError::io(path, source);
        if !path.try_exists().map_err(failed)? {
            refuse_half_repaired(path)?;
            create(path).map_err(failed)?;
        }
        refuse_strangers(path)?;
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join(LOCK))
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                lock: Mutex::new(Some(lock)),
            }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.into() }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Lets others lock the folder.
    pub(super) fn unlock(&self) {
        self.lock.lock().take();
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn data(&self) -> PathBuf {
        self.path.join(DATA)
    }

    /// Looks at what is there and whether this version can read it.
    pub(super) fn contents(&self) -> Result<Contents, OpenError> {
        let failed = |source| OpenError::io(&self.path, source);
        let there = |name: &str| self.path.join(name).try_exists().map_err(failed);
        if there(FORMAT)? {
            self.check_format()?;
            // It ended between the two last steps of its creation. Were it left there, a folder
            // that loses FORMAT later would be taken for one that was never completed.
            if there(NEW)? {
                self.drop_new().map_err(failed)?;
            }
            return Ok(Contents::Store);
        }
        if there(NEW)? || !(there(Head::FILE)? || there(DATA)?) {
            return Ok(Contents::Nothing);
        }
        Err(OpenError::damaged(&self.path, "FORMAT is missing"))
    }

    /// Clears what an unfinished creation left, and marks the folder as one.
    pub(super) fn begin(&self) -> io::Result<()> {
        // Whoever made the folder may have ended before its name was durable.
        match sync_folder(parent(&self.path)) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
        File::create(self.path.join(NEW))?.sync_all()?;
        match fs::remove_dir_all(self.data()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => sync_folder(&self.path),
        }
    }

    /// Says that the folder is complete.
    pub(super) fn complete(&self) -> io::Result<()> {
        let format = summed(format!("{FORMAT_TITLE} {FORMAT_VERSION}\n"));
        replace(&self.path, FORMAT, &format)?;
        self.drop_new()
    }

    fn drop_new(&self) -> io::Result<()> {
        fs::remove_file(self.path.join(NEW))?;
        sync_folder(&self.path)
    }

    fn check_format(&self) -> Result<(), OpenError> {
        let bytes =
            fs::read(self.path.join(FORMAT)).map_err(|source| OpenError::io(&self.path, source))?;
        let version = checked(&bytes)
            .and_then(|text| text.strip_prefix(FORMAT_TITLE))
            .and_then(|text| text.trim().parse().ok());
        match version {
            Some(FORMAT_VERSION) => Ok(()),
            Some(found) if found > FORMAT_VERSION => Err(OpenError::Newer {
                path: self.path.clone(),
                found,
                known: FORMAT_VERSION,
            }),
            _ => Err(OpenError::damaged(&self.path, "FORMAT cannot be read")),
        }
    }
}

/// Makes the names of all folders below `folder` durable: the database sees to those in its
/// keyspaces, but not to those of the keyspaces themselves.
pub(super) fn sync_folders(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    sync_folder(folder)
}

/// Refuses a folder with files that no store puts there: it is somebody else's.
fn refuse_strangers(path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::io(path, source);
    for entry in fs::read_dir(path).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let known = OURS.iter().any(|ours| name == *ours) || name == "lost+found";
        if !known {
            return Err(OpenError::NotAStore {
                path: path.into(),
                found: name.to_string_lossy().into_owned(),
            });
        }
    }
    Ok(())
}

/// Checks the parts of the database that it does not check itself, or not in time: it deletes a
/// keyspace whose `current` is missing, never looks at the checksum in there, and believes what
/// lists say of their length.
pub(super) fn check_database(data: &Path, purpose: Purpose) -> io::Result<Result<(), String>> {
    match fs::read(data.join("version")) {
        Ok(version) if version == DATABASE_VERSION => {}
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => return Ok(Err("data/version cannot be read".to_owned())),
    }
    for keyspace in KEYSPACES {
        let folder = data.join("keyspaces").join(keyspace.to_string());
        let Some(manifest) = sound_manifest(&folder)? else {
            return Ok(Err(format!(
                "the manifest of keyspace {keyspace} cannot be read"
            )));
        };
        if let Some(file) = lists::first_unreadable(&folder, manifest, purpose)? {
            let name = file.strip_prefix(data).unwrap_or(&file).display();
            return Ok(Err(format!("{DATA}/{name} cannot be read")));
        }
    }
    // Only ever empty, so a new one is as good.
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(data.join("lock"))?;
    Ok(Ok(()))
}

/// The manifest that `current` names, if it carries the checksum of that.
fn sound_manifest(keyspace: &Path) -> io::Result<Option<PathBuf>> {
    let current = read_if_there(&keyspace.join(CURRENT))?;
    let Some((version, sum)) = current.as_deref().and_then(read_current) else {
        return Ok(None);
    };
    let path = keyspace.join(format!("v{version}"));
    let manifest = read_if_there(&path)?;
    let is_sound = manifest.is_some_and(|bytes| xxh3_128(&bytes) == sum);
    Ok(is_sound.then_some(path))
}

/// Mends a `current` that is missing or damaged. Says whether the manifest it names is sound.
///
/// A sum that is off by a few bits was damaged itself; that of a damaged manifest is an altogether
/// different one, and such a manifest is not to be read.
pub(super) fn mend_current(keyspace: &Path) -> io::Result<bool> {
    if !keyspace.try_exists()? || sound_manifest(keyspace)?.is_some() {
        return keyspace.try_exists();
    }
    let mut versions = Vec::new();
    for entry in fs::read_dir(keyspace)? {
        let name = entry?.file_name();
        let version = name.to_str().and_then(|name| name.strip_prefix('v'));
        versions.extend(version.and_then(|it| it.parse::<u64>().ok()));
    }
    versions.sort_unstable();
    let current = read_if_there(&keyspace.join(CURRENT))?;
    let recorded = current.as_deref().and_then(read_current);
    for version in versions.into_iter().rev() {
        let sum = xxh3_128(&fs::read(keyspace.join(format!("v{version}")))?);
        if recorded.is_none_or(|(_, recorded)| (sum ^ recorded).count_ones() <= 8) {
            fs::write(keyspace.join(CURRENT), write_current(version, sum))?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads `current`: version 8, sum 16, kind 1.
fn read_current(bytes: &[u8]) -> Option<(u64, u128)> {
    let (version, rest) = bytes.split_first_chunk()?;
    let (sum, kind) = rest.split_first_chunk()?;
    (kind == [0]).then(|| (u64::from_le_bytes(*version), u128::from_le_bytes(*sum)))
}

fn write_current(version: u64, sum: u128) -> Vec<u8> {
    let mut bytes = version.to_le_bytes().to_vec();
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.push(0);
    bytes
}

fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
