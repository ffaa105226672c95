//! The log of a recorded process: see `shim/record.c` for its events.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// What a process did to the files of one folder, and what it said meanwhile.
#[derive(Debug)]
pub struct Log {
    bytes: Vec<u8>,
    /// In the order in which they happened.
    pub changes: Vec<Change>,
    /// The inode of the folder itself.
    pub root: u64,
    /// How many changes only say what was there at the beginning.
    pub begun: usize,
}

/// One thing that happened. Bytes are named by where they lie in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A file was created.
    Create(u64, String),
    /// A folder was created.
    Folder(u64, String),
    /// A file has one more name.
    Link(u64, String),
    /// A name is gone.
    Unlink(String),
    /// What was called by the first name is called by the second.
    Rename(String, String),
    /// Two names changed places.
    Swap(String, String),
    /// Bytes were written at an offset.
    Write(u64, u64, Range<usize>),
    /// A file has this size.
    Resize(u64, u64),
    /// A sync of a file or folder began, under this ticket.
    Syncing(u64, u64),
    /// That sync ended well.
    Synced(u64, u64),
    /// The process said a line.
    Said(Range<usize>),
}

/// Why a file is not a log.
#[derive(Debug, thiserror::Error)]
pub enum NotALog {
    /// It cannot be read.
    #[error("the log cannot be read")]
    Io(#[from] io::Error),

    /// An event makes no sense.
    #[error("event {0} of the log makes no sense")]
    Event(usize),
}

const HEADER: usize = 24;

// === impl Log ===

impl Log {
    /// Reads the log in `file`. An event that a kill cut short is left out.
    pub fn read(file: &Path) -> Result<Self, NotALog> {
        let bytes = fs::read(file)?;
        let mut log = Self {
            bytes,
            changes: Vec::new(),
            root: 0,
            begun: 0,
        };
        let mut at = 0;
        while let Some(header) = log.bytes.get(at..at + HEADER) {
            let len = u32::from_le_bytes(header[..4].try_into().expect("four bytes")) as usize;
            let kind = header[4];
            let inode = u64::from_le_bytes(header[8..16].try_into().expect("eight bytes"));
            let number = u64::from_le_bytes(header[16..].try_into().expect("eight bytes"));
            let data = at + HEADER..at + HEADER + len;
            if data.end > log.bytes.len() {
                break;
            }
            at = data.end;
            let event = log.changes.len();
            if kind == b'R' {
                log.root = inode;
                log.begun = event;
                continue;
            }
            let change = log.parse(kind, inode, number, data);
            log.changes.push(change.ok_or(NotALog::Event(event))?);
        }
        Ok(log)
    }

    /// A log made by hand.
    #[cfg(test)]
    pub(super) fn of(bytes: Vec<u8>, changes: Vec<Change>, root: u64) -> Self {
        Self {
            bytes,
            changes,
            root,
            begun: 0,
        }
    }

    /// Begins a log of the folder `below`: with what is in it, as if it had been synced, and
    /// with what was said about that.
    pub fn begin(file: &Path, below: &Path, said: &[String]) -> io::Result<()> {
        let mut log = File::create(file)?;
        let root = fs::metadata(below)?.ino();
        write(&mut log, b'R', root, 0, b"")?;
        note_folder(&mut log, below, "")?;
        for line in said {
            write(&mut log, b'!', 0, 0, line.as_bytes())?;
        }
        // Once more at the end of the beginning.
        write(&mut log, b'R', root, 0, b"")
    }

    /// The bytes of a write or of a line.
    pub fn bytes(&self, range: &Range<usize>) -> &[u8] {
        &self.bytes[range.clone()]
    }

    fn parse(&self, kind: u8, inode: u64, number: u64, data: Range<usize>) -> Option<Change> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let path = || text(&self.bytes[data.clone()]);
        let paths = || {
            let bytes = &self.bytes[data.clone()];
            let middle = bytes.iter().position(|byte| *byte == 0)?;
            Some((text(&bytes[..middle])?, text(&bytes[middle + 1..])?))
        };
        Some(match kind {
            b'c' => Change::Create(inode, path()?),
            b'm' => Change::Folder(inode, path()?),
            b'l' => Change::Link(inode, path()?),
            b'u' => Change::Unlink(path()?),
            b'r' => paths().map(|(old, new)| Change::Rename(old, new))?,
            b'x' => paths().map(|(one, other)| Change::Swap(one, other))?,
            b'w' => Change::Write(inode, number, data),
            b't' => Change::Resize(inode, number),
            b's' => Change::Syncing(inode, number),
            b'e' => Change::Synced(inode, number),
            b'!' => Change::Said(data),
            _ => return None,
        })
    }
}

fn note_folder(log: &mut File, folder: &Path, path: &str) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let below = match path {
            "" => name,
            path => format!("{path}/{name}"),
        };
        let metadata = entry.metadata()?;
        let inode = metadata.ino();
        if metadata.is_dir() {
            write(log, b'm', inode, 0, below.as_bytes())?;
            note_folder(log, &entry.path(), &below)?;
        } else {
            let mut bytes = fs::read(entry.path())?;
            let end = bytes.iter().rposition(|byte| *byte != 0);
            bytes.truncate(end.map_or(0, |last| last + 1));
            write(log, b'c', inode, 0, below.as_bytes())?;
            write(log, b't', inode, metadata.len(), b"")?;
            write(log, b'w', inode, 0, &bytes)?;
            sync(log, inode)?;
        }
    }
    sync(log, fs::metadata(folder)?.ino())
}

fn sync(log: &mut File, inode: u64) -> io::Result<()> {
    write(log, b's', inode, inode, b"")?;
    write(log, b'e', inode, inode, b"")
}

fn write(log: &mut File, kind: u8, inode: u64, number: u64, data: &[u8]) -> io::Result<()> {
    let len = u32::try_from(data.len()).map_err(io::Error::other)?;
    let mut event = len.to_le_bytes().to_vec();
    event.extend([kind, 0, 0, 0]);
    event.extend(inode.to_le_bytes());
    event.extend(number.to_le_bytes());
    event.extend(data);
    log.write_all(&event)
}
