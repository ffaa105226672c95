//! The world of a schedule: an embedded store, and the disk under it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use onceward::store::{Error, Insert, Swap};
use onceward::sync::point;
use onceward::testing::{ManualClock, records};
use onceward::{Record, SlotId, Store as _, Timestamp};
use onceward_stores::embedded::{Disk, EmbeddedStore, Room};
use shuttle::Runner;
use shuttle::scheduler::RandomScheduler;

use crate::explore::config;

/// A store in the hands of a schedule.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) store: Arc<EmbeddedStore>,
    pub(crate) disk: Arc<SlowDisk>,
    /// Tells the slots of this schedule from those of all others.
    number: u64,
}

/// A disk that takes its time and counts its batches.
#[derive(Debug, Default)]
pub(crate) struct SlowDisk {
    /// How many batches were begun, and are durable.
    begun: AtomicUsize,
    durable: AtomicUsize,
    /// The batch that fails before it is written, or after; 0 is none.
    fails_before: AtomicUsize,
    fails_after: AtomicUsize,
    pub(crate) failures: AtomicUsize,
}

// === impl World ===

impl World {
    /// A store of its own for each schedule, over one folder for each test.
    pub(crate) fn new(folder: &Path) -> Self {
        static SCHEDULES: AtomicU64 = AtomicU64::new(0);
        let disk = Arc::new(SlowDisk::default());
        Self {
            store: Arc::new(open(folder, &disk)),
            disk,
            number: SCHEDULES.fetch_add(1, Ordering::Relaxed),
        }
    }

    pub(crate) fn slot(&self, name: &str) -> SlotId {
        records::slot(&format!("{} {name}", self.number))
    }

    /// Puts `record` into an empty slot.
    pub(crate) async fn insert(&self, slot: SlotId, record: &Record) -> Result<Insert, Error> {
        let asked = self.disk.begun();
        let reply = self.store.insert(slot, record, Timestamp::NEVER).await?;
        if reply.value == Insert::Done {
            self.disk.has_written_since(asked);
        }
        Ok(reply.value)
    }

    /// Puts `record` over `seen`; `None` removes.
    pub(crate) async fn swap(
        &self,
        slot: SlotId,
        seen: &Record,
        record: Option<&Record>,
    ) -> Result<Swap, Error> {
        let asked = self.disk.begun();
        let (seen, never) = (seen.fence, Timestamp::NEVER);
        let reply = match record {
            Some(record) => self.store.replace(slot, seen, record, never).await?,
            None => self.store.remove(slot, seen, never).await?,
        };
        if reply.value == Swap::Done {
            self.disk.has_written_since(asked);
        }
        Ok(reply.value)
    }

    pub(crate) async fn get(&self, slot: SlotId) -> Result<Option<Arc<Record>>, Error> {
        Ok(self.store.get(slot).await?.value)
    }
}

/// Opens the store in `folder` once, so that all schedules find it open.
pub(crate) fn warm(folder: &Path) {
    let folder = folder.to_owned();
    let scheduler = RandomScheduler::new_from_seed(0, 1);
    Runner::new(scheduler, config()).run(move || drop(World::new(&folder)));
}

/// Opens the store in `folder`.
pub(crate) fn open(folder: &Path, disk: &Arc<SlowDisk>) -> EmbeddedStore {
    EmbeddedStore::at(folder)
        .clock(Arc::new(ManualClock::new()))
        .sync(false)
        .disk(disk.clone())
        .open()
        .expect("the store opens")
}

/// A folder in memory, if the machine has such a place: schedules sync nothing.
pub(crate) fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    folder.expect("a folder for the store")
}

/// The same record, one step further.
pub(crate) fn after(record: &Record) -> Record {
    Record {
        attempt: record.attempt + 1,
        ..records::rewritten(record)
    }
}

// === impl SlowDisk ===

impl SlowDisk {
    /// Fails one batch from now on: the first, or the next one, before it is written or after.
    pub(crate) fn fail_soon(&self, batches: usize, is_written: bool) {
        let which = match is_written {
            true => &self.fails_after,
            false => &self.fails_before,
        };
        which.store(self.begun() + batches, Ordering::Relaxed);
    }

    /// How many batches were begun.
    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    /// A batch that was begun after `asked` others is durable.
    fn has_written_since(&self, asked: usize) {
        let durable = self.durable.load(Ordering::Relaxed);
        assert!(durable > asked, "acknowledged before it was durable");
    }

    fn fail_if(&self, which: &AtomicUsize, batch: usize) -> io::Result<()> {
        if which.load(Ordering::Relaxed) == batch {
            self.failures.fetch_add(1, Ordering::Relaxed);
            return Err(io::Error::other("told to fail"));
        }
        Ok(())
    }
}

impl Disk for SlowDisk {
    fn room(&self, _: &Path) -> io::Result<Room> {
        let all = u64::MAX;
        Ok(Room { free: all, all })
    }

    fn writing(&self) -> io::Result<()> {
        let batch = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        point();
        self.fail_if(&self.fails_before, batch)
    }

    fn written(&self) -> io::Result<()> {
        point();
        let batch = self.begun();
        self.fail_if(&self.fails_after, batch)?;
        self.durable.store(batch, Ordering::Relaxed);
        point();
        Ok(())
    }
}
