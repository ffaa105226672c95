//! The embedded store: records in a folder of this machine.
//!
//! One writer batches concurrent writes and syncs once per batch; a write is acknowledged after
//! that. Every batch carries a number, and a small file, HEAD, remembers the highest one that was
//! acknowledged, so that a folder which lost something is refused instead of served. A batch that
//! a crash tore was never acknowledged and is cut when the store is opened.
//!
//! `docs/embedded.md` tells the same for operators.

use std::io;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream;
use onceward::clock::GuardedClock;
use onceward::record::StateName;
use onceward::store::{Error, Filter, Hints, Insert, Page, Reply, Swap, Swept, hints};
use onceward::{Durability, Fence, Record, SlotId, Store, Timestamp};
use tokio::sync::{broadcast, oneshot};

mod base;
mod batch;
mod board;
mod claims;
mod couriers;
mod disk;
mod file;
mod group;
mod head;
mod intake;
mod journal;
mod judge;
mod keeper;
mod layout;
mod looks;
mod lull;
mod options;
mod read;
mod recent;
mod recover;
mod repair;
mod shared;
mod start;
mod sweep;
mod value;
#[cfg(onceward_shuttle)]
mod warm;
mod writer;

#[doc(hidden)]
pub use disk::{Disk, Room};
#[doc(hidden)]
pub use journal::inside;
pub use options::Options;
pub use repair::{Cut, Loss, Repaired, repair, repair_dry_run};

use base::{Base, unavailable};
use board::Board;
use claims::Claims;
use couriers::Couriers;
use disk::Reserve;
use file::Filer;
use group::Fate;
use intake::Intake;
use journal::Pen;
use judge::{Judged, Write};
use keeper::Keeper;
use layout::Folder;
use looks::Looks;
use lull::Lull;
use read::Reader;
use recent::Recent;
use shared::Shared;
use start::Started;
use sweep::{Cursor, Sweep};
use value::{Draft, Value};
use writer::Writer;

use crate::OpenError;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Mutex, RwLock};

/// A store in a folder of this machine.
///
/// Dropping it closes it, and waits until the folder is free again.
///
/// Answers to many callers at once are handed out by a task of the runtime that they ask from, so
/// its threads must not all be blocked by callers who wait for theirs.
///
/// ```
/// use onceward_stores::embedded::EmbeddedStore;
///
/// let folder = tempfile::tempdir().unwrap();
/// let store = EmbeddedStore::open(folder.path().join("store")).unwrap();
/// store.close();
/// ```
#[derive(Debug)]
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
    reader: Reader,
    /// A page takes longer than a record, so lists have a thread of their own.
    lister: Reader,
}

/// What became of a write.
enum Became {
    Done,
    /// This is in the slot instead.
    Found(Option<Arc<Record>>),
    Late,
}

const KIND: &str = "embedded";

// === impl EmbeddedStore ===

impl EmbeddedStore {
    /// How many hints a slow watcher may lag behind before it loses some.
    const HINTS: usize = 1024;

    /// Opens the store in the folder at `path`, or creates one there.
    ///
    /// Blocks until the journals are read, which takes a second or two after a crash.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::at(path).open()
    }

    /// Returns the options of a store in the folder at `path`.
    pub fn at(path: impl AsRef<Path>) -> Options {
        Options::new(path.as_ref())
    }

    /// Closes the store: answers what was asked, writes HEAD and frees the folder. Blocks until
    /// that is done; whatever is asked later is answered with an error.
    pub fn close(&self) {
        let Some(writer) = self.writer.lock().take() else {
            return;
        };
        self.shared.is_closing.store(true, Ordering::Release);
        self.shared.intake.close();
        if writer.join().is_err() {
            tracing::error!("the writer of the embedded store panicked");
        }
    }

    /// The clock that stamps the records.
    pub fn clock(&self) -> &GuardedClock {
        &self.shared.clock
    }

    fn start(options: Options) -> Result<Self, OpenError> {
        let Options {
            path,
            sync,
            clock: machine,
            recent,
            reserve,
            journal,
            large,
            disk,
        } = options;
        let folder = Folder::lock(&path)?;
        let Started {
            base,
            clock,
            head,
            place,
            mark,
        } = Started::new(&folder, sync, Arc::clone(&machine))?;
        let is_large = base.len() >= large;
        let shared = Arc::new(Shared {
            folder,
            base: RwLock::new(Some(base)),
            clock,
            machine,
            board: Board::new(),
            intake: Intake::new(),
            recent: Recent::new(recent),
            couriers: Couriers::default(),
            disk,
            reserve: Reserve::new(reserve),
            sync,
            journal,
            large,
            changes: Mutex::new(Some(broadcast::channel(Self::HINTS).0)),
            is_watched: AtomicBool::new(false),
            looks: Looks::new(is_large),
            is_down: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
        });
        let no_thread = |source: io::Error| OpenError::io(&path, source);
        let writer = Writer {
            shared: Arc::clone(&shared),
            claims: Claims::default(),
            cursor: Cursor::at(head.swept),
            chores: Cursor::chores(),
            mark,
            pen: Pen::take_over(&place, sync).map_err(|error| OpenError::io(&path, error))?,
            filer: Filer::default(),
            gone: Vec::new(),
            epoch: head.epoch,
            keeper: Keeper::start(path.clone(), head).map_err(no_thread)?,
            batch: Default::default(),
            group: None,
            sweeps: Default::default(),
            room: Vec::new(),
            taken: 0,
            lull: Lull::default(),
        };
        let reader = Reader::start("onceward-reader", Arc::clone(&shared)).map_err(no_thread)?;
        let lister = Reader::start("onceward-lister", Arc::clone(&shared)).map_err(no_thread)?;
        let writer = thread::Builder::new()
            .name("onceward-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(no_thread)?;
        Ok(Self {
            shared,
            writer: Mutex::new(Some(writer)),
            reader,
            lister,
        })
    }

    async fn write(
        &self,
        slot: SlotId,
        seen: Option<Fence>,
        record: Option<&Record>,
        not_after: Timestamp,
    ) -> Result<Reply<Became>, Error> {
        let shared = &*self.shared;
        let mut write = Write {
            slot,
            seen,
            draft: record.map(Draft::of),
            is_beginning: record.is_some_and(|record| seen.is_none() || is_new_claim(record)),
            not_after,
        };
        let (now, group) = loop {
            match self.judge(&mut write).await? {
                Judged::Late(now) => return Ok(Reply::new(Became::Late, now)),
                Judged::Found(now, ticket, found) => {
                    let found = self.found(slot, ticket, found)?;
                    return Ok(Reply::new(Became::Found(found), now));
                }
                Judged::Written(now, group) => break (now, group),
                Judged::Wait(group) => {
                    // However it ended: what the slot holds is known again, or nothing is.
                    group.wait(&shared.couriers).await;
                }
                Judged::Look => unreachable!("whoever may wait looks"),
            }
        };
        match group.wait(&shared.couriers).await {
            Fate::Unknown => Err(unavailable("it failed while it was writing")),
            Fate::Durable if group.is_late(slot) => Ok(Reply::new(Became::Late, now)),
            Fate::Durable => Ok(Reply::new(Became::Done, now)),
        }
    }

    /// Judges a write here, or on a thread that may wait for a disk.
    async fn judge(&self, write: &mut Write) -> Result<Judged, Error> {
        if self.shared.is_down.load(Ordering::Acquire) {
            return Err(unavailable("it is being opened"));
        }
        let here = match self.shared.base.read().as_ref() {
            Some(base) => self.shared.judge(base, write, false)?,
            None => return Err(unavailable("it is not open")),
        };
        if !matches!(here, Judged::Look) {
            return Ok(here);
        }
        let mut elsewhere = write.take();
        let judge = move |shared: &Shared, base: &Base| {
            let judged = shared.judge(base, &mut elsewhere, true)?;
            Ok((judged, elsewhere))
        };
        let (judged, back) = Box::pin(self.reader.run(judge)).await?;
        *write = back;
        Ok(judged)
    }

    /// Reads what a write found, and remembers it if it is an answer.
    fn found(
        &self,
        slot: SlotId,
        ticket: recent::Ticket,
        value: Option<Value>,
    ) -> Result<Option<Arc<Record>>, Error> {
        let Some(value) = value else {
            return Ok(None);
        };
        let record = read::decode(slot, &value)?;
        self.shared.recent.fill(slot, ticket, &record);
        Ok(Some(record))
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.close();
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        let Reply { value, now } = self.write(slot, None, Some(record), not_after).await?;
        let insert = match value {
            Became::Done => Insert::Done,
            Became::Late => Insert::Late,
            Became::Found(found) => {
                Insert::Taken(found.expect("an empty slot would have been taken"))
            }
        };
        Ok(Reply::new(insert, now))
    }

    async fn replace(
        &self,
        slot: SlotId,
        seen: Fence,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        let reply = self
            .write(slot, Some(seen), Some(record), not_after)
            .await?;
        Ok(Reply::new(reply.value.into(), reply.now))
    }

    async fn remove(
        &self,
        slot: SlotId,
        seen: Fence,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        let reply = self.write(slot, Some(seen), None, not_after).await?;
        Ok(Reply::new(reply.value.into(), reply.now))
    }

    async fn get(&self, slot: SlotId) -> Result<Reply<Option<Arc<Record>>>, Error> {
        if !self.shared.is_down.load(Ordering::Acquire)
            && let Some(found) = self.shared.board.get(slot)
        {
            let record = found.map(|value| read::decode(slot, &value)).transpose()?;
            return Ok(Reply::new(record, self.shared.clock.now()));
        }
        let read = move |shared: &Shared, base: &Base| read::get(shared, base, slot);
        self.reader.run(read).await
    }

    fn recall(&self, slot: SlotId) -> Option<Reply<Arc<Record>>> {
        let shared = &self.shared;
        if shared.is_down.load(Ordering::Acquire) || shared.is_closing.load(Ordering::Acquire) {
            return None;
        }
        let record = shared.recent.get(slot);
        let record = record.or_else(|| read::recall(shared, slot))?;
        Some(Reply::new(record, shared.clock.now()))
    }

    /// Nothing is remembered beside the slots.
    async fn forget(&self, _: SlotId, _: Fence) -> Result<(), Error> {
        Ok(())
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<SlotId>,
        limit: usize,
    ) -> Result<Reply<Page>, Error> {
        let filter = filter.clone();
        self.lister
            .run(move |shared, base| read::list(shared, base, &filter, after, limit))
            .await
    }

    async fn sweep(&self, before: Timestamp, limit: usize) -> Result<Reply<Swept>, Error> {
        let (reply, answer) = oneshot::channel();
        if self.shared.is_down.load(Ordering::Acquire) {
            return Err(unavailable("it is being opened"));
        }
        if !self.shared.intake.sweep(Sweep::new(before, limit, reply)) {
            return Err(unavailable("it is closed"));
        }
        let answer = answer.await;
        let Reply { value: found, now } =
            answer.map_err(|_| unavailable("it failed while it was sweeping"))??;
        let lapsed = found.lapsed.iter();
        let swept = Swept {
            removed: found.removed,
            lapsed: lapsed
                .filter_map(|(slot, value)| match read::decode(*slot, value) {
                    Ok(claim) => Some((*slot, claim)),
                    // It stays as it is, and is no reason to keep the others waiting.
                    Err(error) => {
                        tracing::error!(%error, "a claim that lapsed cannot be read");
                        None
                    }
                })
                .collect(),
            more: found.more,
        };
        Ok(Reply::new(swept, now))
    }

    fn watch(&self) -> Hints {
        let changes = self.shared.changes.lock();
        let Some(changes) = changes.as_ref().map(broadcast::Sender::subscribe) else {
            return stream::empty().boxed();
        };
        self.shared.is_watched.store(true, Ordering::Relaxed);
        hints(changes)
    }

    fn durability(&self) -> Durability {
        match self.shared.sync {
            true => Durability::D2,
            false => Durability::D1,
        }
    }

    fn kind(&self) -> &'static str {
        KIND
    }
}

// === impl Swap ===

impl From<Became> for Swap {
    fn from(became: Became) -> Self {
        match became {
            Became::Done => Self::Done,
            Became::Found(found) => Self::Moved(found),
            Became::Late => Self::Late,
        }
    }
}

/// Whether `record` is the first write of a claim: renewing one must go on while the disk fills.
fn is_new_claim(record: &Record) -> bool {
    record.state.name() == StateName::Claimed && record.mark == Some(record.fence)
}
