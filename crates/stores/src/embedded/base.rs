//! The base: the database under the store, with the settings that were measured.

use std::fmt;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PartitioningPolicy, PinningPolicy,
};
use fjall::{
    AbstractTree as _, CompressionType, Database, Keyspace, KeyspaceCreateOptions,
    KvSeparationOptions, OwnedWriteBatch, PersistMode, UserValue,
};
use onceward::SlotId;
use onceward::bugs::{Bug, seeded};
use onceward::store::Error;

use super::journal::Mark;
use super::value::Value;
use crate::OpenError;

/// The open database.
///
/// Whoever wants it closed drops every clone of what is in here: a keyspace that lives holds the
/// database's own lock.
pub(super) struct Base {
    pub(super) db: Database,
    /// Records by slot.
    pub(super) records: Keyspace,
    /// What is to be looked at when; see [`Value::index_key`].
    pub(super) index: Keyspace,
}

/// What the database is divided into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Records,
    Index,
}

const MIB: u64 = 1 << 20;
/// How much is written to a journal before what it says is filed: a full batch still fits behind it,
/// into the room that a journal is made with.
pub(super) const JOURNAL: u64 = 48 * MIB;
/// How much a repair keeps in memtables, which are rotated by us: the database's own rotation can
/// wait for itself forever when it has one worker, and is slower with two.
pub(super) const MEMTABLE: u64 = 32 * MIB;
/// From here on the database would sleep inside a commit without looking whether a worker died.
const SEALED_MAX: usize = 3;
const RUNS_MAX: usize = 25;
/// Values from here on are kept out of the tree. Claims are shorter, outcomes mostly are not.
const SEPARATE_FROM: u32 = 256;
/// Bounds the time that an open takes.
const JOURNALS: u64 = 128 * MIB;
const BLOCKS: u64 = 64 * MIB;
/// So many runs are merged at a time, into a next level of so many tables of such a length. What is
/// filed lies anywhere between the first key and the last, so each merge writes all of that level
/// anew: twelve runs into 192 MiB are half as much to write as four into 256. A new slot is looked
/// for in every run. A folder keeps what it was made with.
const RUNS: u8 = 12;
const TABLE: u64 = 16 * MIB;
/// Of so many records what says that a slot is empty is in memory as a rule: filters take 10 bits for
/// each, and the blocks that lead to records about as much.
pub(super) const LARGE: usize = 10_000_000;

// === impl Base ===

impl Base {
    /// Opens the database in `data`, or creates it.
    pub(super) fn open(data: &Path, store: &Path) -> Result<Self, OpenError> {
        // The files were checked as far as they carry sums of their own. What is damaged beyond
        // that may make the database panic, which is a way of refusing.
        guarded(store, || Self::open_unguarded(data, 1))
    }

    /// Opens it without a worker, so that nothing is written to tables meanwhile.
    pub(super) fn open_still(data: &Path, store: &Path) -> Result<Self, OpenError> {
        guarded(store, || Self::open_unguarded(data, 0))
    }

    fn open_unguarded(data: &Path, workers: usize) -> fjall::Result<Self> {
        let db = Database::builder(data)
            .cache_size(BLOCKS)
            .max_journaling_size(JOURNALS)
            .worker_threads_unchecked(workers)
            .manual_journal_persist(true)
            .journal_compression(CompressionType::None)
            .max_cached_files(Some(cached_files()))
            .open()?;
        let records = db.keyspace("records", records_options)?;
        let index = db.keyspace("index", index_options)?;
        Ok(Self { db, records, index })
    }

    /// A batch that is as durable as `sync` says once it is committed.
    pub(super) fn batch(&self, sync: bool) -> OwnedWriteBatch {
        let mode = match sync {
            true => PersistMode::SyncData,
            false => PersistMode::Buffer,
        };
        self.db.batch().durability(Some(mode))
    }

    pub(super) fn part(&self, part: Part) -> &Keyspace {
        match part {
            Part::Records => &self.records,
            Part::Index => &self.index,
        }
    }

    /// Returns what is in `slot`.
    pub(super) fn get(&self, slot: SlotId) -> Result<Option<Value>, Error> {
        let Some(found) = self.kept(slot) else {
            return Err(unreadable(slot, "the database panicked over it"));
        };
        if found.is_err() && seeded(Bug::CorruptIsAbsent) {
            return Ok(None);
        }
        match found.map_err(|error| read_error(slot, error))? {
            None => Ok(None),
            Some(kept) => Value::read(kept)
                .map(Some)
                .map_err(|error| unreadable(slot, error)),
        }
    }

    /// The bytes in `slot`, or `None` where the database panicked over them: damage that carries
    /// no sum makes it do so, which concerns this record alone.
    pub(super) fn kept(&self, slot: SlotId) -> Option<fjall::Result<Option<UserValue>>> {
        panic::catch_unwind(AssertUnwindSafe(|| self.records.get(slot.as_bytes()))).ok()
    }

    /// The marks of the last batch in each keyspace. They differ if one of them lost something.
    pub(super) fn marks(&self) -> fjall::Result<[Option<Mark>; 2]> {
        let mark = |keyspace: &Keyspace| -> fjall::Result<Option<Mark>> {
            let kept = keyspace.get(Mark::KEY)?;
            Ok(kept.and_then(|bytes| Mark::read(&bytes)))
        };
        Ok([mark(&self.records)?, mark(&self.index)?])
    }

    /// The marks of the last batches that are in tables: the journals need not hold those.
    pub(super) fn tabled(&self) -> fjall::Result<[Option<Mark>; 2]> {
        let mark = |keyspace: &Keyspace| -> fjall::Result<Option<Mark>> {
            let Some(seqno) = keyspace.tree.get_highest_persisted_seqno() else {
                return Ok(None);
            };
            let kept = keyspace.tree.get(Mark::KEY, seqno + 1)?;
            Ok(kept.and_then(|bytes| Mark::read(&bytes)))
        };
        Ok([mark(&self.records)?, mark(&self.index)?])
    }

    /// How many records there are, about.
    pub(super) fn len(&self) -> usize {
        self.records.approximate_len()
    }

    /// Waits until the database takes another batch, or another table. Fails if it never will.
    pub(super) fn wait_for_room(&self) -> fjall::Result<()> {
        let is_full = |keyspace: &Keyspace| {
            keyspace.sealed_memtable_count() >= SEALED_MAX
                || keyspace.tree.l0_run_count() >= RUNS_MAX
        };
        while is_full(&self.records) || is_full(&self.index) {
            self.check()?;
            thread::park_timeout(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Says whether a worker of the database died.
    pub(super) fn check(&self) -> fjall::Result<()> {
        self.db.persist(PersistMode::Buffer)
    }

    /// Seals memtables of more than `max` bytes, half of that for the index.
    pub(super) fn rotate(&self, max: u64) -> fjall::Result<()> {
        for (keyspace, max) in [(&self.records, max), (&self.index, max / 2)] {
            if keyspace.tree.active_memtable().size() > max {
                keyspace.rotate_memtable()?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Base").finish_non_exhaustive()
    }
}

/// Calls the database, and takes a panic for a refusal.
fn guarded<T>(store: &Path, call: impl FnOnce() -> fjall::Result<T>) -> Result<T, OpenError> {
    match panic::catch_unwind(AssertUnwindSafe(call)) {
        Ok(answer) => answer.map_err(|error| open_error(store, error)),
        Err(_) => Err(OpenError::damaged(store, "the database cannot be read")),
    }
}

fn records_options() -> KeyspaceCreateOptions {
    let bloom = |bits| FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(bits));
    options()
        // A filter that is wrong costs a read. There are many runs, and they are small.
        .filter_policy(FilterPolicy::new([bloom(16.0), bloom(10.0)]))
        .filter_block_pinning_policy(PinningPolicy::new([true, true, false]))
        .filter_block_partitioning_policy(PartitioningPolicy::new([false, false, true]))
        .with_kv_separation(Some(
            KvSeparationOptions::default()
                .compression(CompressionType::None)
                .separation_threshold(SEPARATE_FROM)
                .file_target_size(64 * MIB)
                .staleness_threshold(0.25)
                .age_cutoff(0.25),
        ))
}

fn index_options() -> KeyspaceCreateOptions {
    options().filter_policy(FilterPolicy::disabled())
}

fn options() -> KeyspaceCreateOptions {
    let leveled = Leveled::default()
        .with_l0_threshold(RUNS)
        .with_table_target_size(TABLE)
        .with_level_ratio_policy(vec![10.0]);
    KeyspaceCreateOptions::default()
        .manual_journal_persist(true)
        .max_memtable_size(u64::MAX)
        .data_block_size_policy(BlockSizePolicy::all(4096))
        .data_block_compression_policy(CompressionPolicy::disabled())
        .index_block_compression_policy(CompressionPolicy::disabled())
        .index_block_pinning_policy(PinningPolicy::new([true, false]))
        .index_block_partitioning_policy(PartitioningPolicy::new([false, true]))
        .compaction_strategy(Arc::new(leveled))
}

/// How many files to keep open: what a store of twenty million records uses, or half of what the
/// process may have.
fn cached_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(900, |limit| (limit / 2).clamp(10, 900) as usize)
}

/// What a failed read of a slot means: rot is the record's trouble, the rest is the disk's.
fn read_error(slot: SlotId, error: fjall::Error) -> Error {
    match io_cause(&error) {
        Some(_) => unavailable(error),
        None => unreadable(slot, error),
    }
}

pub(super) fn unreadable(slot: SlotId, source: impl Into<onceward::BoxError>) -> Error {
    Error::Unreadable {
        slot,
        source: source.into(),
    }
}

pub(super) fn unavailable(source: impl Into<onceward::BoxError>) -> Error {
    Error::unavailable(super::KIND, source)
}

pub(super) fn open_error(store: &Path, error: fjall::Error) -> OpenError {
    if matches!(error, fjall::Error::Locked) {
        return OpenError::InUse { path: store.into() };
    }
    match io_cause(&error) {
        Some(cause) => {
            let again = match cause.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(cause.kind(), cause.to_string()),
            };
            OpenError::io(store, again)
        }
        None => OpenError::damaged_by(store, "the database cannot be read", error),
    }
}

/// The trouble with the disk behind an error, if it is that.
pub(super) fn io_cause(error: &fjall::Error) -> Option<&io::Error> {
    let (fjall::Error::Io(cause) | fjall::Error::Storage(fjall::LsmError::Io(cause))) = error
    else {
        return None;
    };
    // A file that the manifest names and that is not there, or too short, is damage. In one that is
    // shorter than its trailer the place to read from lies before its beginning, which is invalid.
    match cause.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::InvalidData
        | io::ErrorKind::InvalidInput => None,
        _ => Some(cause),
    }
}
