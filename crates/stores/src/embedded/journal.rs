//! Journals: looked at before the database does.
//!
//! The database opens silently with fewer batches where a journal was damaged, and refuses to
//! open where a crash tore the last one. So they are read here first: a torn last batch, which
//! nobody was ever told about, is cut; anything worse is a [`Flaw`].

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use onceward::Timestamp;

mod batch;
pub mod inside;
pub(super) mod pen;
mod place;
mod runway;

pub(super) use batch::Batch;
use batch::{Bad, parse};
pub(super) use pen::Pen;
pub(super) use place::Place;

/// What HEAD promises about the journals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    /// The newest journal it knew, and how many bytes of it were acknowledged.
    pub(super) journal: u64,
    pub(super) length: u64,
    /// Whether each batch was synced before the next one was begun.
    pub(super) synced: bool,
}

/// What the journals hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Scan {
    /// The oldest journal, and the first batch of all. What came before it is in tables.
    pub(super) oldest: u64,
    pub(super) first: Option<Mark>,
    /// The newest journal, and where its last whole batch ends.
    pub(super) journal: u64,
    pub(super) end: u64,
    /// The last batch of all, if there is one.
    pub(super) last: Option<Mark>,
    /// How many bytes behind the last whole batch are to be cut.
    pub(super) torn: u64,
}

/// What every batch carries in every keyspace: its number, and when it was written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Mark {
    pub(super) sequence: u64,
    pub(super) stamp: Timestamp,
}

/// What is wrong with the journals beyond a torn last batch.
#[derive(Debug, thiserror::Error)]
pub(super) enum Flaw {
    #[error("the journals cannot be read")]
    Io(#[from] io::Error),

    #[error("no journal is there")]
    NoJournal,

    #[error("journal {0} is missing")]
    Missing(u64),

    /// The place that is synced and does not read back.
    #[error("journal {journal} cannot be read from byte {at}")]
    Unreadable { journal: u64, at: u64 },
}

/// The part of a file that a disk writes as a whole.
const SECTOR: usize = 512;
/// So many zeros before the end of a sector are not there by chance.
const GAP: usize = 16;

// === impl Mark ===

impl Mark {
    /// The key under which every keyspace keeps the mark of the last batch: shorter than any
    /// other key.
    pub(super) const KEY: &'static [u8] = b"\0seq";

    pub(super) fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[8..].copy_from_slice(&self.stamp.as_micros().to_be_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (sequence, rest) = bytes.split_first_chunk()?;
        let stamp = u64::from_be_bytes(rest.try_into().ok()?);
        Some(Self {
            sequence: u64::from_be_bytes(*sequence),
            stamp: Timestamp::from_micros(stamp),
        })
    }
}

// === impl Scan ===

impl Scan {
    /// Reads all journals in `data`, oldest first, and hands every whole batch to `each`.
    pub(super) fn of(
        data: &Path,
        promise: Option<Promise>,
        mut each: impl FnMut(&Batch<'_>),
    ) -> Result<Self, Flaw> {
        let ids = ids(data)?;
        let newest = *ids.last().ok_or(Flaw::NoJournal)?;
        if let Some(gap) = ids
            .windows(2)
            .find(|pair| pair[0].checked_add(1) != Some(pair[1]))
        {
            return Err(Flaw::Missing(gap[0].saturating_add(1)));
        }
        if let Some(promise) = promise
            && promise.journal > newest
        {
            return Err(Flaw::Missing(promise.journal));
        }
        let mut scan = Self::before(ids[0], newest);
        let mut seqno = None;
        for id in ids {
            let bytes = read(&path(data, id))?;
            scan.take(id, &bytes, promise, &mut seqno, &mut each)?;
        }
        Ok(scan)
    }

    /// A scan that has seen nothing yet.
    fn before(oldest: u64, newest: u64) -> Self {
        Self {
            oldest,
            first: None,
            journal: newest,
            end: 0,
            last: None,
            torn: 0,
        }
    }

    /// Reads the next journal. `seqno` is the database's number of the last batch so far.
    fn take(
        &mut self,
        id: u64,
        bytes: &[u8],
        promise: Option<Promise>,
        seqno: &mut Option<u64>,
        each: &mut impl FnMut(&Batch<'_>),
    ) -> Result<(), Flaw> {
        let written = bytes.iter().rposition(|byte| *byte != 0);
        let bytes = &bytes[..written.map_or(0, |last| last + 1)];
        let promised = promise
            .filter(|it| it.journal == id)
            .map_or(0, |it| it.length);
        let mut at = 0;
        while at < bytes.len() {
            match parse(bytes, at) {
                Ok(batch) if batch.follows(*seqno, self.last) => {
                    each(&batch);
                    *seqno = Some(batch.seqno);
                    self.first.get_or_insert(batch.mark);
                    self.last = Some(batch.mark);
                    at = batch.end;
                }
                bad => {
                    let synced = promise.is_none_or(|it| it.synced);
                    let is_torn = id == self.journal
                        && at as u64 >= promised
                        && bad.is_err_and(|bad| !synced || was_torn(bytes, at, bad, *seqno));
                    if !is_torn {
                        let at = at as u64;
                        return Err(Flaw::Unreadable { journal: id, at });
                    }
                    self.torn = (bytes.len() - at) as u64;
                    break;
                }
            }
        }
        let at = at as u64;
        if at < promised {
            return Err(Flaw::Unreadable { journal: id, at });
        }
        self.end = at;
        Ok(())
    }

    /// Whether batches are missing between `tabled`, the last one in tables, and the journals: a
    /// journal is only removed once all of it is in the tables of every keyspace.
    pub(super) fn has_hole_before(&self, tabled: Option<Mark>) -> bool {
        let reach = tabled.map_or(0, |mark| mark.sequence);
        // With the first journal still there nothing was ever removed.
        let first = self.first.filter(|_| self.oldest > 0);
        first.is_some_and(|first| reach + 1 < first.sequence)
    }

    /// Cuts what is torn, and makes durable what is not promised to be.
    ///
    /// A sync that failed leaves bytes that can be read and will never be written, for the
    /// system takes them for clean. Writing them once more makes them dirty again; on every open,
    /// because nobody knows how the run before ended.
    pub(super) fn settle(&self, data: &Path, promise: Promise) -> io::Result<()> {
        self.cut(data)?;
        // The database syncs a journal before it begins the next, so older ones are durable.
        for id in ids(data)?.into_iter().filter(|id| *id >= promise.journal) {
            let durable = match id == promise.journal && promise.synced {
                true => promise.length,
                // Acknowledged or not, the system had it and perhaps nobody else.
                false => 0,
            };
            let file = File::options()
                .read(true)
                .write(true)
                .open(path(data, id))?;
            let end = match id == self.journal {
                true => self.end,
                false => extent(&file)?,
            };
            rewrite(&file, durable, end)?;
        }
        Ok(())
    }

    /// Cuts what is torn.
    pub(super) fn cut(&self, data: &Path) -> io::Result<()> {
        if self.torn == 0 {
            return Ok(());
        }
        let file = File::options().write(true).open(path(data, self.journal))?;
        file.set_len(self.end)?;
        file.sync_all()
    }
}

/// Writes the bytes from `from` on once more, and syncs them.
fn rewrite(file: &File, from: u64, end: u64) -> io::Result<()> {
    const PAGE: u64 = 4096;
    if end <= from {
        return Ok(());
    }
    let mut at = from / PAGE * PAGE;
    let mut bytes = vec![0; 256 * PAGE as usize];
    while at < end {
        let len = (end - at).min(bytes.len() as u64) as usize;
        file.read_exact_at(&mut bytes[..len], at)?;
        file.write_all_at(&bytes[..len], at)?;
        at += len as u64;
    }
    file.sync_all()
}

/// Copies a journal to another folder, without the emptiness behind it.
pub(super) fn copy(data: &Path, to: &Path, id: u64) -> io::Result<()> {
    fs::write(path(to, id), read(&path(data, id))?)
}

/// Cuts a journal at `at` and removes all later ones: what repairing does about a flaw.
pub(super) fn cut_from(data: &Path, journal: u64, at: u64) -> io::Result<()> {
    for id in ids(data)?.into_iter().filter(|id| *id > journal) {
        fs::remove_file(path(data, id))?;
    }
    let file = File::options().write(true).open(path(data, journal))?;
    if at < file.metadata()?.len() {
        file.set_len(at)?;
    }
    file.sync_all()
}

/// The numbers of the journals, oldest first.
pub(super) fn ids(data: &Path) -> io::Result<Vec<u64>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(data)? {
        let name = entry?.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(".jnl"));
        ids.extend(id.and_then(|id| id.parse::<u64>().ok()));
    }
    ids.sort_unstable();
    Ok(ids)
}

pub(super) fn path(data: &Path, id: u64) -> PathBuf {
    data.join(format!("{id}.jnl"))
}

/// Reads a journal as far as anything was written to it: it is created as a large empty file.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut bytes = vec![0; extent(&file)? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Where the last hole of a file begins.
fn extent(file: &File) -> io::Result<u64> {
    use rustix::fs::{SeekFrom, seek};

    let mut end = 0;
    // A file system that cannot tell says that everything is data.
    while let Ok(data) = seek(file, SeekFrom::Data(end)) {
        end = seek(file, SeekFrom::Hole(data))?;
    }
    Ok(end)
}

/// Whether a crash can have left the batch at `at` like this: bytes are missing, and no whole
/// batch follows, which would prove that this one had been synced.
fn was_torn(bytes: &[u8], at: usize, bad: Bad, seqno: Option<u64>) -> bool {
    let is_short = match bad {
        Bad::Sum { end } => has_hole(&bytes[..end], at),
        Bad::Shape { ended } => !ended || has_hole(bytes, at),
    };
    let mut later = at + 1..bytes.len();
    is_short
        && !later.any(|at| {
            bytes[at] == batch::START && parse(bytes, at).is_ok_and(|it| it.follows(seqno, None))
        })
}

/// Whether a sector that should carry bytes is all zero: it never reached the disk.
fn has_hole(bytes: &[u8], from: usize) -> bool {
    let mut at = from;
    while at < bytes.len() {
        let end = ((at / SECTOR + 1) * SECTOR).min(bytes.len());
        // The end of a sector may be missing alone: it was written before the rest of the batch was.
        let from = match end < bytes.len() {
            true => at.max(end.saturating_sub(GAP)),
            false => at,
        };
        if bytes[from..end].iter().all(|byte| *byte == 0) {
            return true;
        }
        at = end;
    }
    false
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    /// Says which of two journals are written once more.
    fn rewritten(promise: Promise) -> [bool; 2] {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        for id in [3, 4] {
            fs::write(path(data, id), [7; 100]).unwrap();
            let file = File::options().write(true).open(path(data, id)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        let scan = Scan {
            oldest: 3,
            first: None,
            journal: 4,
            end: 100,
            last: None,
            torn: 0,
        };
        scan.settle(data, promise).unwrap();
        [3, 4].map(|id| {
            assert_eq!(fs::read(path(data, id)).unwrap(), [7; 100]);
            let modified = fs::metadata(path(data, id)).unwrap().modified().unwrap();
            modified > SystemTime::UNIX_EPOCH
        })
    }

    #[test]
    fn what_is_not_known_to_be_on_the_disk_is_written_once_more() {
        let promise = |journal, length, synced| Promise {
            journal,
            length,
            synced,
        };
        assert_eq!(rewritten(promise(4, 100, true)), [false, false]);
        assert_eq!(rewritten(promise(4, 50, true)), [false, true]);
        assert_eq!(rewritten(promise(3, 100, true)), [false, true]);
        assert_eq!(rewritten(promise(3, 50, true)), [true, true]);
        assert_eq!(rewritten(promise(4, 100, false)), [false, true]);
        assert_eq!(rewritten(promise(3, 100, false)), [true, true]);
        // The journal that HEAD knew may be in tables by now, and gone.
        assert_eq!(rewritten(promise(2, 100, true)), [true, true]);
    }
}
