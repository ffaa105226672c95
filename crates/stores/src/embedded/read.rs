//! Reading: on threads of its own, because a disk may take its time and runtimes must not wait.

use std::iter::Peekable;
use std::ops::Bound;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::vec;

use fjall::{Iter, Readable as _, UserValue};
use onceward::record::StateName;
use onceward::store::{Error, Filter, Page, Reply};
use onceward::{Record, SlotId};
use tokio::sync::{mpsc, oneshot};

use super::base::{Base, io_cause, unavailable, unreadable};
use super::shared::Shared;
use super::value::Value;
use crate::sync::recv;
use crate::sync::thread::{self, JoinHandle};

/// A thread that reads for others.
#[derive(Debug)]
pub(super) struct Reader {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

type Job = Box<dyn FnOnce(&Shared) + Send>;

/// How many reads may wait before callers do.
const QUEUE: usize = 1024;
/// How many records one page looks at, so that nobody waits long behind it.
const LOOKS_MAX: usize = 2048;

// === impl Reader ===

impl Reader {
    pub(super) fn start(name: &str, shared: Arc<Shared>) -> std::io::Result<Self> {
        let (jobs, mut waiting) = mpsc::channel::<Job>(QUEUE);
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                while let Some(job) = recv(&mut waiting) {
                    // One read that panics over damaged files must not end all others; dropping its
                    // reply says that it failed.
                    let _ = panic::catch_unwind(AssertUnwindSafe(|| job(&shared)));
                }
            })?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Runs `read` on the thread.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shared, &Base) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |shared| {
            let base = shared.base.read();
            let found = match base.as_ref() {
                Some(base) => read(shared, base),
                None => Err(unavailable("it is not open")),
            };
            // Whoever asked may be gone.
            let _ = reply.send(found);
        });
        let jobs = self.jobs.as_ref().expect("jobs are there until the drop");
        let sent = jobs.send(job).await;
        sent.map_err(|_| unavailable("its reader is gone"))?;
        answer.await.map_err(|_| unavailable("its reader failed"))?
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Without jobs to come the thread ends.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Returns the record in `slot`, and remembers it if it is an answer.
pub(super) fn get(
    shared: &Shared,
    base: &Base,
    slot: SlotId,
) -> Result<Reply<Option<Arc<Record>>>, Error> {
    let ticket = shared.recent.ticket(slot);
    // After the ticket: what is written over a record that the database has stands there.
    let found = match shared.board.get(slot) {
        Some(found) => found,
        None => base.get(slot)?,
    };
    let record = found.map(|value| decode(slot, &value)).transpose()?;
    if let Some(record) = &record {
        shared.recent.fill(slot, ticket, record);
    }
    Ok(Reply::new(record, shared.clock.now()))
}

/// Returns the answer in `slot` if it is on the board, and remembers it.
pub(super) fn recall(shared: &Shared, slot: SlotId) -> Option<Arc<Record>> {
    let ticket = shared.recent.ticket(slot);
    let value = shared.board.get(slot)??;
    if !StateName::Completed.covers(value.state()) {
        return None;
    }
    // One that cannot be read is for whoever asks for it to complain of.
    let record = decode(slot, &value).ok()?;
    record.outcome()?;
    shared.recent.fill(slot, ticket, &record);
    Some(record)
}

/// Returns a page of records after `after`.
pub(super) fn list(
    shared: &Shared,
    base: &Base,
    filter: &Filter,
    after: Option<SlotId>,
    limit: usize,
) -> Result<Reply<Page>, Error> {
    // A page without room would never get anywhere.
    let limit = limit.max(1);
    let mut page = Page::default();
    let mut looked = 0;
    let mut last = None;
    // Before the database: what is filed meanwhile is in one of them.
    let (posted, is_all) = shared.board.page(after, LOOKS_MAX);
    let mut rows = Rows {
        cut: posted.last().map(|(slot, _)| *slot).filter(|_| !is_all),
        posted: posted.into_iter().peekable(),
        kept: records_after(base, after),
        ahead: None,
    };
    loop {
        if looked == LOOKS_MAX || page.records.len() == limit {
            page.next = last;
            break;
        }
        let (slot, value) = match rows.next() {
            None => {
                page.next = rows.cut;
                break;
            }
            Some(Ok(row)) => row,
            Some(Err(Trouble::Record(error))) => return short(shared, page, last, error),
            Some(Err(Trouble::Database(error))) => {
                let error = list_error(base, last.or(after), error);
                return short(shared, page, last, error);
            }
        };
        let record = match pick(slot, &value, filter) {
            Ok(record) => record,
            Err(error) => return short(shared, page, last, error),
        };
        looked += 1;
        last = Some(slot);
        page.records.extend(record.map(|record| (slot, record)));
    }
    Ok(Reply::new(page, shared.clock.now()))
}

/// What slots hold, in their order: by the board where that knows, else by the database.
struct Rows {
    posted: Peekable<vec::IntoIter<(SlotId, Option<Value>)>>,
    kept: Iter,
    /// Behind this slot the board has more than is known here, so nothing is said of what follows.
    cut: Option<SlotId>,
    /// What the database has next, where that was looked at already.
    ahead: Option<(SlotId, UserValue)>,
}

/// Why there is no next row.
enum Trouble {
    Record(Error),
    Database(fjall::Error),
}

impl Rows {
    /// The next slot that holds something, and what.
    fn next(&mut self) -> Option<Result<(SlotId, Value), Trouble>> {
        loop {
            if self.cut.is_some() && self.posted.peek().is_none() {
                return None;
            }
            if self.ahead.is_none() {
                match self.look_ahead() {
                    Ok(ahead) => self.ahead = ahead,
                    Err(error) => return Some(Err(Trouble::Database(error))),
                }
            }
            let kept = self.ahead.as_ref().map(|(slot, _)| *slot);
            let is_posted = |(slot, _): &(SlotId, _)| kept.is_none_or(|kept| *slot <= kept);
            if let Some((slot, value)) = self.posted.next_if(is_posted) {
                self.ahead.take_if(|(kept, _)| *kept == slot);
                match value {
                    Some(value) => return Some(Ok((slot, value))),
                    None => continue,
                }
            }
            let (slot, kept) = self.ahead.take()?;
            let value = Value::read(kept);
            return Some(
                value
                    .map(|value| (slot, value))
                    .map_err(|error| Trouble::Record(unreadable(slot, error))),
            );
        }
    }

    fn look_ahead(&mut self) -> fjall::Result<Option<(SlotId, UserValue)>> {
        for entry in self.kept.by_ref() {
            let (key, kept) = entry.into_inner()?;
            // The mark of the last batch is no record.
            if let Ok(slot) = <[u8; SlotId::LEN]>::try_from(&*key) {
                return Ok(Some((SlotId::from_bytes(slot), kept)));
            }
        }
        Ok(None)
    }
}

/// Returns the record in a slot if it passes.
fn pick(slot: SlotId, value: &Value, filter: &Filter) -> Result<Option<Arc<Record>>, Error> {
    if filter
        .state
        .is_some_and(|state| !state.covers(value.state()))
    {
        return Ok(None);
    }
    let record = decode(slot, value)?;
    Ok(Some(record).filter(|record| filter.passes(record)))
}

/// Ends a page before a record that cannot be read. The next page begins with that one, and
/// names it: nobody is kept from what lies before it or behind it.
fn short(
    shared: &Shared,
    mut page: Page,
    last: Option<SlotId>,
    error: Error,
) -> Result<Reply<Page>, Error> {
    match error {
        Error::Unreadable { .. } if last.is_some() => {
            page.next = last;
            Ok(Reply::new(page, shared.clock.now()))
        }
        error => Err(error),
    }
}

fn records_after(base: &Base, after: Option<SlotId>) -> Iter {
    let from = match &after {
        Some(slot) => Bound::Excluded(&slot.as_bytes()[..]),
        None => Bound::Unbounded,
    };
    let bounds = (from, Bound::Unbounded);
    base.db.snapshot().range::<&[u8], _>(&base.records, bounds)
}

/// Names the record after `last`, which could not be read, so that a list can go on behind it.
fn list_error(base: &Base, last: Option<SlotId>, error: fjall::Error) -> Error {
    if io_cause(&error).is_some() {
        return unavailable(error);
    }
    let keys = records_after(base, last).map(fjall::Guard::key);
    let mut slots = keys.map_while(Result::ok).filter_map(|key| {
        let slot = <[u8; SlotId::LEN]>::try_from(&*key);
        slot.ok().map(SlotId::from_bytes)
    });
    match slots.next() {
        Some(slot) => unreadable(slot, error),
        None => unavailable(error),
    }
}

/// Reads the record in a value, checksum included.
pub(super) fn decode(slot: SlotId, value: &Value) -> Result<Arc<Record>, Error> {
    let record = value.decode();
    record
        .map(Arc::new)
        .map_err(|error| unreadable(slot, error))
}
