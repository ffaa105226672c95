//! What lies around a store's folder: those it lies in, and what repairs leave beside it.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::OpenError;
use crate::embedded::head::sync_folder;

/// Records may hold what callers sent, so nobody else looks in.
pub(crate) const FOLDER_MODE: u32 = 0o700;

/// Creates a folder and those it lies in, each with a durable name.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    let mut missing = Vec::new();
    for folder in path.ancestors().filter(|it| !it.as_os_str().is_empty()) {
        if folder.try_exists()? {
            break;
        }
        missing.push(folder);
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(path)?;
    missing
        .into_iter()
        .rev()
        .try_for_each(|folder| sync_folder(parent(folder)))
}

pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

/// The name of something that lies beside the store at `path`.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Refuses to begin a new store where a repair ended halfway: the store is in another folder.
pub(crate) fn refuse_half_repaired(path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::io(path, source);
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let Some(name) = real.file_name() else {
        return Ok(());
    };
    let entries = match fs::read_dir(parent(&real)) {
        Ok(entries) => entries,
        // Without one there is nothing beside, and one that hides its names has to be believed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let is_left = |other: &Path, suffix| {
        let start = beside(Path::new(name), suffix);
        let (other, start) = (other.as_os_str().as_bytes(), start.as_os_str().as_bytes());
        let number = other.strip_prefix(start);
        number.is_some_and(|it| !it.is_empty() && it.iter().all(u8::is_ascii_digit))
    };
    for entry in entries {
        let other = PathBuf::from(entry.map_err(failed)?.file_name());
        if is_left(&other, ".before-repair-") || is_left(&other, ".repair-") {
            return Err(OpenError::HalfRepaired {
                path: path.to_owned(),
                found: real.with_file_name(other),
            });
        }
    }
    Ok(())
}
