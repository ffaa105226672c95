//! The queue: calls that wait for a connection, and how they are put together into batches.
//!
//! Whoever calls puts a [`Job`] here and waits for its answer. A lane that has nothing to do
//! takes all waiting jobs of one kind: a lone call goes at once and alone, and the more calls
//! come while all lanes are busy, the larger the next batch is. No slot is in two batches of
//! writes at a time, for the second would only wait for the first one's lock.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use onceward::{Fence, Scope, SlotId, Timestamp};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::trouble::Trouble;

/// Calls that wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Those of each kind, in the order in which they came.
    waiting: [VecDeque<Job>; Kind::ALL.len()],
    /// Batches that were taken apart, or are to be tried again.
    again: VecDeque<Batch>,
    /// The slots that are being written.
    busy: HashSet<SlotId>,
    /// The kind whose turn it is.
    turn: usize,
    /// Why nothing is taken at all, while that is so.
    refusing: Option<String>,
    is_closed: bool,
    pub(super) figures: Figures,
}

/// How many statements and calls there were: what tests look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Figures {
    /// Batches that were sent.
    pub batches: u64,
    /// Calls that were in them.
    pub calls: u64,
    /// Batches that were taken apart because something in them could not be done.
    pub splits: u64,
    /// Calls that waited for somebody else's lock and were sent again.
    pub retries: u64,
    /// Calls that came alone and were sent by their caller.
    pub lone: u64,
}

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Kind {
    Insert,
    Replace,
    Remove,
    Get,
}

/// A call that waits for its answer.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) kind: Kind,
    pub(super) slot: SlotId,
    /// The fence that a write saw.
    pub(super) seen: Option<Fence>,
    /// What is to be written.
    pub(super) draft: Option<Draft>,
    /// The last moment for it, in microseconds since 1970.
    pub(super) not_after: i64,
    /// When the caller gets an answer whatever happens, by the stopwatch.
    pub(super) deadline: Duration,
    /// How often it was sent and met somebody else's lock.
    pub(super) tries: u32,
    /// Whoever waits. Taken by the first answer, which may come while the statement runs.
    pub(super) reply: Mutex<Option<oneshot::Sender<Result<Answer, Trouble>>>>,
    /// Others who ask the same of this slot, and learn it from the same row.
    pub(super) followers: Vec<Job>,
}

/// A call that was not taken, and why.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) job: Job,
    pub(super) why: String,
}

/// A record on its way into the table.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) fence: Fence,
    pub(super) state: i16,
    pub(super) due_after: i64,
    pub(super) scope: Scope,
    pub(super) record: Vec<u8>,
}

/// What became of a call.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) became: Became,
    pub(super) now: Timestamp,
}

/// What became of a write; a read always finds.
#[derive(Clone, Debug)]
pub(super) enum Became {
    /// It happened.
    Done,
    /// It came too late.
    Late,
    /// This is what the slot holds.
    Found(Option<Raw>),
}

/// A record as the table holds it.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub(super) written: Timestamp,
    pub(super) bytes: Bytes,
}

/// Calls of one kind on slots of which no two are the same, in the order of slots.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) kind: Kind,
    pub(super) jobs: Vec<Job>,
}

// === impl Queue ===

impl Queue {
    /// The most calls that wait at a time. The next one is refused at once.
    const LEN_MAX: usize = 65_536;
    /// The most slots in a batch.
    pub(super) const BATCH_MAX: usize = 256;
    /// A batch takes no further call once it has this many bytes.
    const BATCH_BYTES: usize = 4 << 20;

    /// Takes a call in, or gives it back with the reason why not.
    pub(super) fn push(&mut self, job: Job) -> Result<(), Box<Refused>> {
        if let Some(why) = &self.refusing {
            let why = why.clone();
            return Err(Box::new(Refused { job, why }));
        }
        if self.len() >= Self::LEN_MAX {
            let why = "too many calls are waiting".to_owned();
            return Err(Box::new(Refused { job, why }));
        }
        self.waiting[job.kind as usize].push_back(job);
        Ok(())
    }

    /// Takes the next batch, unless nothing can be sent.
    pub(super) fn take(&mut self) -> Option<Batch> {
        let batch = self.again.pop_front().or_else(|| self.gather())?;
        self.figures.batches += 1;
        self.figures.calls += batch.callers() as u64;
        Some(batch)
    }

    /// Whether nothing waits and nothing is being written.
    pub(super) fn is_quiet(&self) -> bool {
        let is_idle = self.busy.is_empty() && self.again.is_empty() && self.len() == 0;
        is_idle && self.refusing.is_none()
    }

    /// Makes a batch of one call that did not wait.
    pub(super) fn alone(&mut self, job: Job) -> Batch {
        if job.kind.is_write() {
            self.busy.insert(job.slot);
        }
        self.figures.batches += 1;
        self.figures.calls += 1;
        self.figures.lone += 1;
        Batch {
            kind: job.kind,
            jobs: vec![job],
        }
    }

    fn gather(&mut self) -> Option<Batch> {
        for _ in Kind::ALL {
            let kind = Kind::ALL[self.turn];
            self.turn = (self.turn + 1) % Kind::ALL.len();
            let jobs = self.gather_kind(kind);
            if !jobs.is_empty() {
                return Some(Batch { kind, jobs });
            }
        }
        None
    }

    /// Takes what can be sent of one kind; the rest stays in its order.
    fn gather_kind(&mut self, kind: Kind) -> Vec<Job> {
        let waiting = &mut self.waiting[kind as usize];
        let mut batch: Vec<Job> = Vec::with_capacity(waiting.len().min(Self::BATCH_MAX));
        let mut mine: HashMap<SlotId, usize> = HashMap::new();
        let mut left = VecDeque::new();
        let mut bytes = 0;
        while let Some(job) = waiting.pop_front() {
            let leader = mine.get(&job.slot).copied();
            if let Some(at) = leader.filter(|_| kind.is_shared()) {
                batch[at].followers.push(job);
                continue;
            }
            let is_full = batch.len() == Self::BATCH_MAX || bytes >= Self::BATCH_BYTES;
            if is_full {
                waiting.push_front(job);
                break;
            }
            let is_held = kind.is_write() && self.busy.contains(&job.slot);
            if is_held || leader.is_some() {
                left.push_back(job);
                continue;
            }
            mine.insert(job.slot, batch.len());
            bytes += job.draft.as_ref().map_or(0, |draft| draft.record.len());
            batch.push(job);
        }
        while let Some(job) = left.pop_back() {
            waiting.push_front(job);
        }
        if kind.is_write() {
            self.busy.extend(mine.into_keys());
        }
        batch.sort_unstable_by_key(|job| job.slot);
        batch
    }

    /// Takes the halves of a batch in which something could not be done: they go next.
    pub(super) fn split(&mut self, mut batch: Batch) {
        self.figures.splits += 1;
        let half = batch.jobs.split_off(batch.jobs.len() / 2);
        for jobs in [batch.jobs, half] {
            let kind = batch.kind;
            self.again.push_back(Batch { kind, jobs });
        }
    }

    /// Takes a call to be sent again. Its slot stayed busy meanwhile.
    pub(super) fn again(&mut self, job: Job) -> Result<(), Box<Refused>> {
        if let Some(why) = &self.refusing {
            self.busy.remove(&job.slot);
            let why = why.clone();
            return Err(Box::new(Refused { job, why }));
        }
        self.figures.retries += 1;
        let kind = job.kind;
        let jobs = vec![job];
        self.again.push_back(Batch { kind, jobs });
        Ok(())
    }

    /// Puts back readers whose connection was lost: somebody else may read for them.
    pub(super) fn put_back(&mut self, jobs: Vec<Job>) {
        for job in jobs.into_iter().rev() {
            self.waiting[job.kind as usize].push_front(job);
        }
    }

    /// Lets others have the slots of a call that was answered.
    pub(super) fn release(&mut self, kind: Kind, slots: impl IntoIterator<Item = SlotId>) {
        if kind.is_write() {
            for slot in slots {
                self.busy.remove(&slot);
            }
        }
    }

    /// Takes nothing more until [`Queue::accept`], and gives back what waits.
    pub(super) fn refuse(&mut self, why: &str) -> Vec<Job> {
        self.refusing = Some(why.to_owned());
        let again = self.again.drain(..).flat_map(|batch| batch.jobs);
        let again: Vec<_> = again.collect();
        for job in &again {
            self.busy.remove(&job.slot);
        }
        let waiting = self.waiting.iter_mut().flat_map(|jobs| jobs.drain(..));
        again.into_iter().chain(waiting).collect()
    }

    /// Why nothing is taken at the moment, if that is so.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.refusing.as_deref()
    }

    /// Takes calls again, unless it was closed.
    pub(super) fn accept(&mut self) {
        if !self.is_closed {
            self.refusing = None;
        }
    }

    /// Takes nothing any more, and gives back what waits.
    pub(super) fn close(&mut self) -> Vec<Job> {
        self.is_closed = true;
        self.refuse("the store is closed")
    }

    /// Gives back the calls whose deadline has passed.
    pub(super) fn overdue(&mut self, now: Duration) -> Vec<Job> {
        let mut overdue = Vec::new();
        for waiting in &mut self.waiting {
            // All calls have the same span, so that the first to come is the first to be overdue.
            while waiting.front().is_some_and(|job| job.deadline <= now) {
                overdue.extend(waiting.pop_front());
            }
        }
        overdue
    }

    /// How many calls wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.iter().map(VecDeque::len).sum()
    }
}

// === impl Kind ===

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Insert, Self::Replace, Self::Remove, Self::Get];

    pub(super) const fn is_write(self) -> bool {
        !matches!(self, Self::Get)
    }

    /// Whether those who ask this of one slot can share a row: readers, and those who want an
    /// empty slot, of whom all but the first find it taken.
    const fn is_shared(self) -> bool {
        matches!(self, Self::Insert | Self::Get)
    }
}

// === impl Job ===

impl Job {
    /// Answers the caller, and those who follow it.
    pub(super) fn answer(mut self, answer: Result<Answer, Trouble>) {
        for follower in self.followers.drain(..) {
            follower.reply(answer.clone());
        }
        self.reply(answer);
    }

    /// Answers the caller alone.
    pub(super) fn reply(&self, answer: Result<Answer, Trouble>) {
        let reply = self.reply.lock().take();
        // A caller that no longer waits is no error.
        let _ = reply.map(|reply| reply.send(answer));
    }

    fn is_answered(&self) -> bool {
        self.reply.lock().is_none()
    }
}

// === impl Refused ===

impl Refused {
    /// Answers the caller with the reason.
    pub(super) fn answer(self) {
        self.job.answer(Err(Trouble::lost(self.why)));
    }
}

// === impl Batch ===

impl Batch {
    /// How many callers wait for it.
    pub(super) fn callers(&self) -> usize {
        self.jobs.iter().map(|job| 1 + job.followers.len()).sum()
    }

    fn all(&self) -> impl Iterator<Item = &Job> {
        self.jobs
            .iter()
            .flat_map(|job| std::iter::once(job).chain(&job.followers))
    }

    /// When the next of its callers has waited for long enough.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        let waiting = self.all().filter(|job| !job.is_answered());
        waiting.map(|job| job.deadline).min()
    }

    /// Answers callers whose deadline has passed, though what they asked for may still happen.
    pub(super) fn give_up(&self, now: Duration, trouble: &Trouble) {
        for job in self.all().filter(|job| job.deadline <= now) {
            job.reply(Err(trouble.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
