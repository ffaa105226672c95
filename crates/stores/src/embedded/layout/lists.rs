//! Lists: what the database makes room for by a count that it has not checked.
//!
//! A manifest, a table and a file of blobs each end with a list of their sections, and a section
//! may be a list itself. The database makes room for as many entries as a list says it has before
//! it looks at the sum, and where it is told of more than there is memory, the process ends. So the
//! lists of every file that the manifest names are read here first. They are short, and lie behind
//! the data, which is left alone.
//!
//! ```text
//! list     "TOC!" | entries 4 | entry: at 8 | length 8 | name's length 2 | name
//! trailer  "SFA!" 01 00 | xxh3 of the list 16 | where it begins 8 | its length 8
//! ```
//! Integers are little-endian. Nobody reads the length of the list, so it may be anything.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

/// What a database is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// For serving, with a worker that tidies up.
    Serving,
    /// For reading what is there, and nothing else. What only a worker looks at may be damaged.
    Reading,
}

/// A file that ends with a list of its sections.
#[derive(Debug)]
struct Archive {
    file: File,
    length: u64,
    sections: Vec<Section>,
}

/// A part of a file.
#[derive(Debug)]
struct Section {
    name: Vec<u8>,
    at: u64,
    length: u64,
}

/// What a manifest names, by number.
#[derive(Debug)]
struct Named {
    tables: Vec<u64>,
    blobs: Vec<u64>,
}

/// Bytes that are taken from the front.
struct Rest<'a>(&'a [u8]);

const START: &[u8; 4] = b"TOC!";
/// What every trailer begins with: its name, its version and the kind of its sum.
const TRAILER_START: &[u8; 6] = b"SFA!\x01\x00";
const TRAILER_LEN: usize = TRAILER_START.len() + 16 + 8 + 8;
const LEVELS: u8 = 7;
/// What every manifest says. A database that reads anything else there panics, and panics again
/// while it is cleared away, which ends the process.
const MANIFEST: [(&str, u8); 3] = [
    ("format_version", 3),
    ("level_count", LEVELS),
    ("filter_hash_type", 0),
];
/// What the fields of a link take: a blob file's number, and how much of it is referred to.
const LINK_LEN: usize = 4 * 8;
/// What the fields of a blob file take in the manifest's account of what is to be tidied up.
const STALE_LEN: usize = 8 + 4 + 8 + 8;

/// Returns the first file of a keyspace with a list that cannot be read, if there is one.
pub(super) fn first_unreadable(
    keyspace: &Path,
    manifest: PathBuf,
    purpose: Purpose,
) -> io::Result<Option<PathBuf>> {
    let named = Archive::open(&manifest)?;
    let named = named.map(|it| it.named()).transpose()?.flatten();
    let Some(named) = named else {
        return Ok(Some(manifest));
    };
    let numbered = |folder: &str, id: u64| keyspace.join(folder).join(id.to_string());
    for id in named.tables {
        let path = numbered("tables", id);
        let is_sound = match Archive::open(&path)? {
            None => false,
            Some(table) => purpose == Purpose::Reading || table.has_sound_links()?,
        };
        if !is_sound {
            return Ok(Some(path));
        }
    }
    for id in named.blobs {
        let path = numbered("blobs", id);
        if Archive::open(&path)?.is_none() {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

// === impl Archive ===

impl Archive {
    /// Reads the list at the end of a file. `None` if that cannot be, or no file is there.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let length = file.metadata()?.len();
        let mut archive = Self {
            file,
            length,
            sections: Vec::new(),
        };
        let Some(trailer_at) = length.checked_sub(TRAILER_LEN as u64) else {
            return Ok(None);
        };
        let trailer = archive.bytes(trailer_at, TRAILER_LEN as u64)?;
        let Some((sum, at)) = trailer.as_deref().and_then(read_trailer) else {
            return Ok(None);
        };
        // Looked at first, for the list reaches as far as the trailer wherever it begins.
        if archive.bytes(at, START.len() as u64)?.as_deref() != Some(START) {
            return Ok(None);
        }
        let Some(length) = trailer_at.checked_sub(at) else {
            return Ok(None);
        };
        let list = archive.bytes(at, length)?;
        let Some(sections) = list.and_then(|list| read_list(&list, sum)) else {
            return Ok(None);
        };
        archive.sections = sections;
        Ok(Some(archive))
    }

    /// What it names as a manifest. `None` if a list in there is not as long as it says, or if it
    /// is not as the database takes it for granted.
    fn named(&self) -> io::Result<Option<Named>> {
        for (name, value) in MANIFEST {
            if self.section(name.as_bytes())?.as_deref() != Some(&[value]) {
                return Ok(None);
            }
        }
        let tables = self.section(b"tables")?;
        let blobs = self.section(b"blob_files")?;
        let stale = self.section(b"blob_gc_stats")?;
        let (Some(tables), Some(blobs), Some(stale)) = (tables, blobs, stale) else {
            return Ok(None);
        };
        let tables = read_tables(&tables);
        let blobs = read_blobs(&blobs);
        let named = tables
            .zip(blobs)
            .map(|(tables, blobs)| Named { tables, blobs });
        Ok(named.filter(|_| is_counted(&stale, STALE_LEN)))
    }

    /// Whether the list of the blob files that it refers to as a table is as long as it says.
    fn has_sound_links(&self) -> io::Result<bool> {
        let name = b"linked_blob_files";
        if !self.sections.iter().any(|it| it.name == name) {
            return Ok(true);
        }
        let links = self.section(name)?;
        Ok(links.is_some_and(|links| is_counted(&links, LINK_LEN)))
    }

    fn section(&self, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
        match self.sections.iter().find(|it| it.name == name) {
            Some(section) => self.bytes(section.at, section.length),
            None => Ok(None),
        }
    }

    /// Reads a part of the file, if it has as much.
    fn bytes(&self, at: u64, length: u64) -> io::Result<Option<Vec<u8>>> {
        let end = at.checked_add(length);
        if end.is_none_or(|end| end > self.length) {
            return Ok(None);
        }
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(Some(bytes))
    }
}

/// The sum of the list, and where it begins.
fn read_trailer(bytes: &[u8]) -> Option<(u128, u64)> {
    let mut rest = Rest(bytes);
    (rest.take()? == TRAILER_START).then_some(())?;
    Some((u128::from_le_bytes(*rest.take()?), rest.u64()?))
}

/// Reads a list, which the bytes begin with, if the sum is its own.
fn read_list(bytes: &[u8], sum: u128) -> Option<Vec<Section>> {
    let mut rest = Rest(bytes);
    rest.take::<{ START.len() }>()?;
    let count = rest.u32()?;
    let mut sections = Vec::new();
    for _ in 0..count {
        let (at, length) = (rest.u64()?, rest.u64()?);
        let name_len = u16::from_le_bytes(*rest.take()?);
        let name = rest.some(name_len.into())?.to_vec();
        sections.push(Section { name, at, length });
    }
    let list = &bytes[..bytes.len() - rest.0.len()];
    (xxh3_128(list) == sum).then_some(sections)
}

/// The tables of a manifest: levels 1, of runs 1, of tables 4; of number 8, sum 17, seqno 8 each.
/// There are no empty runs.
fn read_tables(bytes: &[u8]) -> Option<Vec<u64>> {
    let mut rest = Rest(bytes);
    let mut tables = Vec::new();
    if rest.u8()? != LEVELS {
        return None;
    }
    for _ in 0..LEVELS {
        for _ in 0..rest.u8()? {
            let count = rest.u32().filter(|count| *count > 0)?;
            for _ in 0..count {
                tables.push(rest.u64()?);
                rest.some(17 + 8)?;
            }
        }
    }
    Some(tables)
}

/// The blob files of a manifest: their number 4; number 8 and sum 17 of each.
fn read_blobs(bytes: &[u8]) -> Option<Vec<u64>> {
    let mut rest = Rest(bytes);
    let mut blobs = Vec::new();
    for _ in 0..rest.u32()? {
        blobs.push(rest.u64()?);
        rest.some(17)?;
    }
    Some(blobs)
}

/// Whether a list has as many entries of this length as it says, and nothing else.
fn is_counted(list: &[u8], entry_len: usize) -> bool {
    let mut rest = Rest(list);
    let count = rest.u32().map(u64::from);
    count.is_some_and(|count| count * entry_len as u64 == rest.0.len() as u64)
}

// === impl Rest ===

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(taken)
    }

    fn some(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(|bytes| u8::from_le_bytes(*bytes))
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(|bytes| u32::from_le_bytes(*bytes))
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(|bytes| u64::from_le_bytes(*bytes))
    }
}
