//! Where a repair reads from: a copy of the database, mended until it opens, or else the journals.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use fjall::UserValue;
use onceward::SlotId;

use super::salvage::salvage;
use super::{Cut, Repaired};
use crate::OpenError;
use crate::embedded::base::Base;
use crate::embedded::head::Head;
use crate::embedded::journal::{self, Flaw, Mark, Scan};
use crate::embedded::layout::{
    DATABASE_VERSION, Folder, KEYSPACES, Purpose, check_database, mend_current,
};
use crate::embedded::read;
use crate::embedded::value::Value;

/// What can be read of a damaged store.
#[derive(Debug)]
pub(super) enum Source {
    /// The database opens.
    Database {
        base: Base,
        last: Option<Mark>,
        /// A journal is gone of which not everything is in tables.
        has_hole: bool,
    },
    /// It does not. This is what the journals say.
    Journals {
        records: BTreeMap<SlotId, Vec<u8>>,
        last: Option<Mark>,
        /// They begin with the very first batch, so nothing is missing.
        is_whole: bool,
    },
}

/// The keyspaces whose contents are the same in every store, or follow from the records: the
/// names, then the index as well.
const REPLACEABLE: [&[u64]; 3] = [&[], &[0], &[0, 2]];
const RECORDS: u64 = 1;

// === impl Source ===

impl Source {
    /// Makes a copy that can be read.
    pub(super) fn open(
        folder: &Folder,
        workshop: &Path,
        head: Option<&Head>,
    ) -> Result<(Self, Option<Cut>), OpenError> {
        let failed = |source| OpenError::io(folder.path(), source);
        let mut cut = None;
        for replaced in REPLACEABLE {
            // Each attempt gets a new copy: the database deletes what it does not like.
            let copy = workshop.join(format!("copy-{}", replaced.len()));
            copy_database(&folder.data(), &copy).map_err(failed)?;
            let scan;
            (cut, scan) = mend_journals(&copy, head).map_err(failed)?;
            if let Some((base, tabled)) = open_copy(&copy, workshop, replaced).map_err(failed)? {
                let [last, _] = base.marks().unwrap_or_default();
                let has_hole = scan.has_hole_before(tabled);
                let source = Self::Database {
                    base,
                    last,
                    has_hole,
                };
                return Ok((source, cut));
            }
        }
        let copy = workshop.join("copy-0");
        let mut first = None;
        let mut records = BTreeMap::new();
        let scan = Scan::of(&copy, None, |batch| {
            first.get_or_insert(batch.mark.sequence);
            for item in batch.items.iter().filter(|item| item.keyspace == RECORDS) {
                let Ok(slot) = <[u8; SlotId::LEN]>::try_from(item.key) else {
                    continue;
                };
                let slot = SlotId::from_bytes(slot);
                match item.value {
                    Some(value) => drop(records.insert(slot, value.to_vec())),
                    None => drop(records.remove(&slot)),
                }
            }
        });
        let source = Self::Journals {
            records,
            last: scan.ok().and_then(|scan| scan.last),
            is_whole: first == Some(1),
        };
        Ok((source, cut))
    }

    /// The last batch it holds.
    pub(super) fn last(&self) -> Option<Mark> {
        match self {
            Self::Database { last, .. } | Self::Journals { last, .. } => *last,
        }
    }

    /// Whether batches are missing between the tables and the journals.
    pub(super) fn has_hole(&self) -> bool {
        matches!(self, Self::Database { has_hole: true, .. })
    }

    /// Whether everything that had left the journals is gone.
    pub(super) fn is_partial(&self) -> bool {
        matches!(
            self,
            Self::Journals {
                is_whole: false,
                ..
            }
        )
    }

    /// Hands every record that can be read to `keep`, and counts the others.
    pub(super) fn read(
        &self,
        repaired: &mut Repaired,
        mut keep: impl FnMut(SlotId, Value) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        let mut sift = |repaired: &mut Repaired, slot, kept: Option<UserValue>| {
            let value = kept.and_then(|kept| Value::read(kept).ok());
            // Decoding looks at the record's checksum.
            match value.filter(|value| read::decode(slot, value).is_ok()) {
                Some(value) => {
                    repaired.records += 1;
                    repaired.secret_kept |= slot == SlotId::RESERVED;
                    keep(slot, value)
                }
                None => {
                    repaired.dropped.push(slot);
                    Ok(())
                }
            }
        };
        match self {
            Self::Database { base, .. } => salvage(base, repaired, &mut sift),
            Self::Journals { records, .. } => records
                .iter()
                .try_for_each(|(slot, kept)| sift(repaired, *slot, Some(kept.as_slice().into()))),
        }
    }
}

/// Opens a copy with some of its keyspaces replaced by those of a new database. Also returns the
/// mark of the last batch in the tables of the records.
fn open_copy(
    copy: &Path,
    workshop: &Path,
    replaced: &[u64],
) -> io::Result<Option<(Base, Option<Mark>)>> {
    fs::write(copy.join("version"), DATABASE_VERSION)?;
    if !replaced.is_empty() {
        let fresh = workshop.join("fresh");
        // Closed at once: only its files are of interest.
        let Ok(base) = Base::open(&fresh, &fresh) else {
            return Ok(None);
        };
        drop(base);
        for keyspace in replaced {
            let at = |data: &Path| data.join("keyspaces").join(keyspace.to_string());
            remove_if_there(&at(copy))?;
            copy_folder(&at(&fresh), &at(copy))?;
        }
        fs::remove_dir_all(&fresh)?;
    }
    for keyspace in KEYSPACES {
        if !mend_current(&copy.join("keyspaces").join(keyspace.to_string()))? {
            return Ok(None);
        }
    }
    if check_database(copy, Purpose::Reading)?.is_err() {
        return Ok(None);
    }
    // Without a worker, which would tidy up by files that nothing was checked of.
    let opened = Base::open_still(copy, copy).ok();
    // Another number means that the old keyspace was not recognised.
    let opened = opened.filter(|base| base.records.id() == RECORDS);
    Ok(opened.map(|base| {
        let [tabled, _] = base.tabled().unwrap_or_default();
        (base, tabled)
    }))
}

/// Cuts the journals where they cannot be read on, and says where and what is left.
fn mend_journals(data: &Path, head: Option<&Head>) -> io::Result<(Option<Cut>, Scan)> {
    let mut cut = None;
    loop {
        match Scan::of(data, None, |_| {}) {
            Ok(scan) => {
                scan.cut(data)?;
                return Ok((cut, scan));
            }
            Err(Flaw::Unreadable { journal, at }) => {
                journal::cut_from(data, journal, at)?;
                cut = Some(Cut { journal, at });
            }
            Err(Flaw::Missing(id)) => {
                journal::cut_from(data, id - 1, u64::MAX)?;
                cut = Some(Cut { journal: id, at: 0 });
            }
            Err(Flaw::NoJournal) => {
                // With no journal at all the database would count from the beginning again.
                let id = head.map_or(0, |head| head.journal);
                File::create(journal::path(data, id))?;
                cut = Some(Cut { journal: id, at: 0 });
            }
            Err(Flaw::Io(error)) => return Err(error),
        }
    }
}

/// Copies a database. Tables and blobs are never changed, only removed, so they are linked.
fn copy_database(data: &Path, copy: &Path) -> io::Result<()> {
    fs::create_dir_all(copy.join("keyspaces"))?;
    if !data.try_exists()? {
        return Ok(());
    }
    for id in journal::ids(data)? {
        journal::copy(data, copy, id)?;
    }
    match data.join("keyspaces").try_exists()? {
        true => copy_folder(&data.join("keyspaces"), &copy.join("keyspaces")),
        false => Ok(()),
    }
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let is_immutable = ["tables", "blobs"].iter().any(|name| from.ends_with(name));
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (old, new) = (entry.path(), to.join(entry.file_name()));
        if entry.metadata()?.is_dir() {
            copy_folder(&old, &new)?;
        } else if !is_immutable || fs::hard_link(&old, &new).is_err() {
            fs::copy(&old, &new)?;
        }
    }
    Ok(())
}

fn remove_if_there(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
