//! Chores: what is done in the background, so that no caller waits for it.
//!
//! Memos are written, and memos that were answered are compared with the truth. Both queues are
//! bounded and drop what does not fit: a memo that is not written makes a retry slower, and an
//! answer that is asked for again is compared then.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use futures_util::{StreamExt as _, stream};
use onceward::store::Reply;
use onceward::{Outcome, SlotId, Timestamp};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::evidence::{Worth, worth};
use super::{BURY_PATIENCE, Memo, Parts};

/// How many memos wait to be written at the most.
const NOTES_MAX: usize = 4_096;
/// How many bytes of answers they hold at the most.
const NOTES_BYTES_MAX: usize = 64 << 20;
/// How many are written at once.
const NOTES_AT_ONCE: usize = 64;
/// A memo that waited longer than this is not written any more: a tombstone may have come and gone.
const NOTE_AGE_MAX: Duration = Duration::from_secs(30);

/// How many answers wait to be compared at the most.
pub(super) const CHECKS_MAX: usize = 1_024;
/// How often the answer of one slot is compared.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// How many slots are known to have been compared lately: more than are compared in that time.
const CHECKED_MAX: usize = 16_384;
/// The pause between two comparisons: the truth has better things to do.
const CHECK_PAUSE: Duration = Duration::from_millis(20);

/// Where chores are handed in.
#[derive(Clone, Debug)]
pub(super) struct Door {
    parts: Arc<Parts>,
    notes: mpsc::Sender<Note>,
    checks: mpsc::Sender<(SlotId, Memo)>,
    /// The bytes of answers that wait to be written.
    bytes: Arc<AtomicUsize>,
    /// When slots were last handed in for comparison.
    checked: Arc<Mutex<HashMap<SlotId, Duration>>>,
}

/// What a hybrid store does in the background, for as long as [`Chores::run`] runs.
#[derive(Debug)]
pub struct Chores {
    parts: Arc<Parts>,
    notes: mpsc::Receiver<Note>,
    checks: mpsc::Receiver<(SlotId, Memo)>,
    bytes: Arc<AtomicUsize>,
}

/// A memo to be written.
#[derive(Debug)]
struct Note {
    slot: SlotId,
    memo: Memo,
    /// When the truth was asked that gave it, by the monotonic clock.
    sent: Duration,
    /// The truth's time when it did.
    now: Timestamp,
    len: usize,
}

/// A thread that runs the chores.
#[derive(Debug)]
pub(super) struct Worker {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Returns the door of the chores, and the chores.
pub(super) fn new(parts: Arc<Parts>) -> (Door, Chores) {
    let (notes, notes_in) = mpsc::channel(NOTES_MAX);
    let (checks, checks_in) = mpsc::channel(CHECKS_MAX);
    let bytes = Arc::new(AtomicUsize::new(0));
    let door = Door {
        parts: parts.clone(),
        notes,
        checks,
        bytes: bytes.clone(),
        checked: Arc::default(),
    };
    let chores = Chores {
        parts,
        notes: notes_in,
        checks: checks_in,
        bytes,
    };
    (door, chores)
}

// === impl Door ===

impl Door {
    /// Has a memo written, if there is room. The truth gave it when it was asked at `sent`.
    pub(super) fn note(&self, slot: SlotId, memo: Memo, now: Timestamp, sent: Duration) {
        let len = memo.record.outcome().map_or(0, Outcome::kept_len);
        if self.bytes.load(Ordering::Relaxed) + len > NOTES_BYTES_MAX {
            return;
        }
        let note = Note {
            slot,
            memo,
            sent,
            now,
            len,
        };
        self.bytes.fetch_add(len, Ordering::Relaxed);
        if self.notes.try_send(note).is_err() {
            self.bytes.fetch_sub(len, Ordering::Relaxed);
        }
    }

    /// Has a memo that was answered compared with the truth, unless that was done lately.
    pub(super) fn check(&self, slot: SlotId, memo: &Memo) {
        // Answers come faster than they are compared, so there is mostly no room, and nothing
        // more is to be done then. It is compared when it is asked for again.
        let Ok(room) = self.checks.try_reserve() else {
            return;
        };
        let now = self.parts.clock.monotonic();
        let mut checked = self.checked.lock();
        let is_late = |at: &Duration| now.saturating_sub(*at) < CHECK_EVERY;
        if checked.get(&slot).is_some_and(is_late) {
            return;
        }
        if checked.len() >= CHECKED_MAX {
            checked.retain(|_, at| is_late(at));
        }
        if checked.len() < CHECKED_MAX {
            checked.insert(slot, now);
            room.send((slot, memo.clone()));
        }
    }
}

// === impl Chores ===

impl Chores {
    /// Does what is handed in, until every clone of the store is gone.
    ///
    /// Cancel safe: what is dropped is not done.
    pub async fn run(self) {
        let Self {
            parts,
            notes,
            checks,
            bytes,
        } = self;
        let notes = arriving(notes).for_each_concurrent(NOTES_AT_ONCE, |note| {
            let (parts, bytes) = (parts.clone(), bytes.clone());
            async move {
                note.write(&parts).await;
                bytes.fetch_sub(note.len, Ordering::Relaxed);
            }
        });
        let checks = arriving(checks).for_each(|(slot, memo)| {
            let parts = parts.clone();
            async move {
                parts.compare(slot, &memo).await;
                sleep(CHECK_PAUSE).await;
            }
        });
        tokio::join!(notes, checks);
    }
}

fn arriving<T>(from: mpsc::Receiver<T>) -> impl stream::Stream<Item = T> {
    stream::unfold(from, |mut from| async {
        let next = from.recv().await?;
        Some((next, from))
    })
}

// === impl Note ===

impl Note {
    async fn write(&self, parts: &Parts) {
        let age = parts.clock.monotonic().saturating_sub(self.sent);
        if age > NOTE_AGE_MAX || !parts.breaker.is_closed() {
            return;
        }
        let life = self.memo.until.since(self.now + age);
        let noting = parts.cache.note(self.slot, &self.memo, life);
        let noted = timeout(BURY_PATIENCE, noting).await;
        match noted.unwrap_or_else(|elapsed| Err(elapsed.into())) {
            Ok(()) => parts.breaker.succeeded(),
            Err(error) => parts.failed(&error),
        }
    }
}

// === impl Parts ===

impl Parts {
    /// Compares a memo that was answered with what the truth holds.
    async fn compare(&self, slot: SlotId, memo: &Memo) {
        let Ok(Reply { value, now }) = self.truth.get(slot).await else {
            return;
        };
        if !memo.counts_at(now) {
            return;
        }
        match (worth(&memo.record, value.as_deref()), value) {
            (Worth::Lost, _) => {
                self.confirm(slot, memo, now).await;
            }
            (Worth::Held, Some(found)) if found.fence != memo.record.fence => {
                if let Some(newer) = Memo::of(&found, now) {
                    let life = newer.until.since(now);
                    let _ = timeout(BURY_PATIENCE, self.cache.note(slot, &newer, life)).await;
                }
            }
            (Worth::Overruled, Some(found)) => {
                tracing::warn!(?slot, "the cache remembered an answer that was overruled");
                let bury = self.cache.bury(slot, found.fence);
                let _ = timeout(BURY_PATIENCE, bury).await;
            }
            (Worth::Held | Worth::Overruled, _) => {}
        }
    }
}

// === impl Worker ===

impl Worker {
    /// Starts a thread that runs the chores until it is dropped.
    pub(super) fn start(chores: Chores) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let (end, ended) = oneshot::channel();
        let work = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = chores.run() => {}
                    _ = ended => {}
                }
            });
        };
        let thread = thread::Builder::new().name("onceward-cache".into());
        Ok(Self {
            end: Some(end),
            thread: Some(thread.spawn(work)?),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A thread that has ended already is told nothing.
        drop(self.end.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the cache panicked");
        }
    }
}
