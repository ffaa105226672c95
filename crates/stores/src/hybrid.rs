//! The hybrid store: a database grants, a cache in front of it remembers answers.
//!
//! The *truth* is a store of its own, and the only one that claims are granted by. The *cache*
//! holds [memos](Memo): completed records, written after the truth acknowledged them, that end
//! before the record does. A retry whose memo is there and whose payload is the same is answered
//! without the truth; everything else goes to the truth. So a cache that is empty, slow, away or
//! restored from yesterday makes retries slower and never wrong: what it lacks says nothing, and
//! what it has is an answer that was given.
//!
//! Three things could make it wrong, and each has its rule:
//!
//! - A record that changes while its memo lives. Nothing but an operator does that, and
//!   [`Store::forget`] leaves a tombstone in the cache first, over which no late memo is written.
//! - A memo that outlives its record. It ends a margin earlier, by the clock of the truth.
//! - A truth that lost what it acknowledged. A memo of which the truth knows nothing is *evidence*:
//!   it is answered all the same, kept, counted and told of ([`Regressions`]), and no claim is
//!   granted against it.
//!
//! One gap is left: a cache that loses its tombstones within a minute of an operator's word, while a
//! memo is on its way, may remember what was to be forgotten. Let the cache keep what it is told
//! across its own restarts (`appendonly yes`) where that matters.
//!
//! Where to read on: [`memo`] says what is remembered and for how long, [`evidence`] what a memo is
//! worth beside what the truth holds, [`breaker`] when the cache is left out, [`chores`] what is
//! done in the background.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onceward::bugs::{Bug, seeded};
use onceward::clock::{Clock, SystemClock};
use onceward::store::{Error, Filter, Hints, Insert, Page, Reply, Swap, Swept};
use onceward::{BoxError, Durability, Fence, MemoryStore, Record, SlotId, State, Store, Timestamp};
use tokio::time::timeout;

use crate::postgres::PostgresStore;

mod breaker;
mod chores;
mod evidence;
mod memo;
mod memory;
mod redis;
mod value;

pub use chores::Chores;
pub use evidence::Regressions;
pub use memo::Memo;
pub use memory::{MemoryCache, Snapshot};
pub use redis::RedisCache;

use breaker::Breaker;
use chores::{Door, Worker};
use evidence::Worth;

/// A store that grants, and tells its time without being asked.
pub trait Truth: Store {
    /// The store's time by what is known here, without waiting: no earlier than any time it told.
    fn now(&self) -> Timestamp;
}

/// Where memos are: by slot, with rules that hold whoever writes.
///
/// A memo is only written over an older one, and never over a tombstone with a later fence. What
/// it holds may vanish at any time.
#[async_trait]
pub trait Cache: fmt::Debug + Send + Sync + 'static {
    /// Returns the memo about `slot`, if there is one.
    async fn look(&self, slot: SlotId) -> Result<Option<Memo>, BoxError>;

    /// Writes a memo that ends after `life`, unless one as new or a tombstone is there.
    ///
    /// It reaches the cache soon, or not at all: not after a tombstone has gone again.
    async fn note(&self, slot: SlotId, memo: &Memo, life: Duration) -> Result<(), BoxError>;

    /// Removes the memo, whatever it is, and leaves a tombstone: no memo with a fence below
    /// `before` is written until that is gone, in an hour.
    async fn bury(&self, slot: SlotId, before: Fence) -> Result<(), BoxError>;

    /// Marks the memo with the fence `fence` as evidence and keeps it for `life`. Returns whether
    /// it was there.
    async fn keep(&self, slot: SlotId, fence: Fence, life: Duration) -> Result<bool, BoxError>;
}

/// A store in front of which a cache remembers answers.
///
/// Clones share one store; dropping the last one ends what is done in the background.
#[derive(Clone, Debug)]
pub struct HybridStore {
    parts: Arc<Parts>,
    door: Door,
    /// Ends the thread with the last clone.
    _worker: Option<Arc<Worker>>,
}

/// What a hybrid store is made of.
#[derive(Debug)]
struct Parts {
    truth: Arc<dyn Truth>,
    cache: Arc<dyn Cache>,
    clock: Arc<dyn Clock>,
    breaker: Breaker,
    regressions: Arc<Regressions>,
}

/// The cache could not be told that an answer is to be forgotten.
#[derive(Debug, thiserror::Error)]
#[error(
    "the cache cannot be told, and may go on answering what it remembers: try again when it \
     answers, or switch it off on every node"
)]
struct NotTold(#[source] BoxError);

const KIND: &str = "hybrid";

/// How long a look into the cache may take before the truth is asked instead.
const LOOK_PATIENCE: Duration = Duration::from_millis(50);

/// How long leaving a tombstone may take.
const BURY_PATIENCE: Duration = Duration::from_secs(2);

// === impl Truth ===

impl Truth for PostgresStore {
    fn now(&self) -> Timestamp {
        self.now()
    }
}

impl Truth for MemoryStore {
    fn now(&self) -> Timestamp {
        self.clock().now()
    }
}

// === impl HybridStore ===

impl HybridStore {
    /// Returns a store that does its chores on a thread of its own.
    pub fn start(truth: Arc<dyn Truth>, cache: Arc<dyn Cache>) -> std::io::Result<Self> {
        let (mut store, chores) = Self::new(truth, cache, Arc::new(SystemClock));
        store._worker = Some(Arc::new(Worker::start(chores)?));
        Ok(store)
    }

    /// Returns a store, and the chores that somebody has to run.
    pub fn new(
        truth: Arc<dyn Truth>,
        cache: Arc<dyn Cache>,
        clock: Arc<dyn Clock>,
    ) -> (Self, Chores) {
        let parts = Arc::new(Parts {
            truth,
            cache,
            clock,
            breaker: Breaker::default(),
            regressions: Arc::default(),
        });
        let (door, chores) = chores::new(parts.clone());
        let store = Self {
            parts,
            door,
            _worker: None,
        };
        (store, chores)
    }

    /// What the truth was found to have lost.
    pub fn regressions(&self) -> &Arc<Regressions> {
        &self.parts.regressions
    }

    /// Inserts into the truth, and remembers what that shows.
    async fn grant(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        let sent = self.parts.clock.monotonic();
        let reply = self.parts.truth.insert(slot, record, not_after).await?;
        match &reply.value {
            Insert::Done => self.written(slot, record, reply.now, sent),
            Insert::Taken(found) => self.remember(slot, found, reply.now, sent),
            Insert::Late => {}
        }
        Ok(reply)
    }

    /// Decides about a claim for another payload than the memo's.
    ///
    /// The truth is asked what it holds before it is asked to grant anything: where it lost the
    /// record, the memo alone knows that the key is taken.
    async fn dispute(
        &self,
        slot: SlotId,
        memo: &Memo,
    ) -> Result<Option<Reply<Arc<Record>>>, Error> {
        let parts = &self.parts;
        let Reply { value, now } = parts.truth.get(slot).await?;
        match evidence::worth(&memo.record, value.as_deref()) {
            Worth::Lost => match parts.confirm(slot, memo, now).await {
                Some(false) => Ok(None),
                // Where the cache has gone meanwhile, what it said a moment ago still counts.
                Some(true) | None => Ok(Some(Reply::new(memo.record.clone(), now))),
            },
            Worth::Held | Worth::Overruled => Ok(value.map(|found| Reply::new(found, now))),
        }
    }

    /// Remembers a record that was just written.
    fn written(&self, slot: SlotId, record: &Record, now: Timestamp, sent: Duration) {
        if matches!(record.state, State::Completed(_)) {
            self.remember(slot, &Arc::new(record.stamped(now)), now, sent);
        }
    }

    /// Remembers an answer that the truth has, in the background and if there is room for it.
    fn remember(&self, slot: SlotId, found: &Arc<Record>, now: Timestamp, sent: Duration) {
        if slot == SlotId::RESERVED || !self.parts.breaker.is_closed() {
            return;
        }
        if let Some(memo) = Memo::of(found, now) {
            self.door.note(slot, memo, now, sent);
        }
    }
}

#[async_trait]
impl Store for HybridStore {
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        if !matches!(record.state, State::Claimed(_)) {
            return self.grant(slot, record, not_after).await;
        }
        let memo = match self.parts.consult(slot).await {
            Some(memo) => memo,
            None if seeded(Bug::CacheGrants) && slot != SlotId::RESERVED => {
                return Ok(Reply::new(Insert::Done, self.parts.truth.now()));
            }
            None => return self.grant(slot, record, not_after).await,
        };
        if memo.record.seal == record.seal {
            self.door.check(slot, &memo);
            let now = self.parts.truth.now();
            return Ok(Reply::new(Insert::Taken(memo.record), now));
        }
        match self.dispute(slot, &memo).await? {
            Some(Reply { value, now }) => Ok(Reply::new(Insert::Taken(value), now)),
            None => self.grant(slot, record, not_after).await,
        }
    }

    async fn replace(
        &self,
        slot: SlotId,
        seen: Fence,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        // A claim over something that the truth shows as ended or silent: not against evidence.
        let begins = matches!(record.state, State::Claimed(_)) && record.mark == Some(record.fence);
        if begins
            && let Some(memo) = self.parts.consult(slot).await
            && let Some(Reply { value, now }) = self.dispute(slot, &memo).await?
            && value.fence != seen
        {
            // The truth was not asked, and would have looked at the time first.
            let swap = match now > not_after {
                true => Swap::Late,
                false => Swap::Moved(Some(value)),
            };
            return Ok(Reply::new(swap, now));
        }
        let sent = self.parts.clock.monotonic();
        let truth = &self.parts.truth;
        let reply = truth.replace(slot, seen, record, not_after).await?;
        if reply.value == Swap::Done {
            self.written(slot, record, reply.now, sent);
        }
        Ok(reply)
    }

    async fn remove(
        &self,
        slot: SlotId,
        seen: Fence,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        self.parts.truth.remove(slot, seen, not_after).await
    }

    async fn get(&self, slot: SlotId) -> Result<Reply<Option<Arc<Record>>>, Error> {
        if seeded(Bug::AbsenceBelieved)
            && slot != SlotId::RESERVED
            && self.parts.consult(slot).await.is_none()
        {
            return Ok(Reply::new(None, self.parts.truth.now()));
        }
        self.parts.truth.get(slot).await
    }

    fn recall(&self, slot: SlotId) -> Option<Reply<Arc<Record>>> {
        self.parts.truth.recall(slot)
    }

    async fn forget(&self, slot: SlotId, before: Fence) -> Result<(), Error> {
        if slot == SlotId::RESERVED || seeded(Bug::NoTombstone) {
            return Ok(());
        }
        self.parts.truth.forget(slot, before).await?;
        let buried = timeout(BURY_PATIENCE, self.parts.cache.bury(slot, before)).await;
        let told = buried.unwrap_or_else(|elapsed| Err(elapsed.into()));
        told.map_err(|error| Error::unavailable(KIND, NotTold(error)))
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<SlotId>,
        limit: usize,
    ) -> Result<Reply<Page>, Error> {
        self.parts.truth.list(filter, after, limit).await
    }

    async fn sweep(&self, before: Timestamp, limit: usize) -> Result<Reply<Swept>, Error> {
        self.parts.truth.sweep(before, limit).await
    }

    fn watch(&self) -> Hints {
        self.parts.truth.watch()
    }

    fn durability(&self) -> Durability {
        self.parts.truth.durability()
    }

    fn kind(&self) -> &'static str {
        KIND
    }
}

// === impl Parts ===

impl Parts {
    /// Returns the memo about `slot` that counts now, if the cache has it at hand.
    async fn consult(&self, slot: SlotId) -> Option<Memo> {
        if slot == SlotId::RESERVED || !self.breaker.lets_pass(self.clock.monotonic()) {
            return None;
        }
        let looked = timeout(LOOK_PATIENCE, self.cache.look(slot)).await;
        match looked.unwrap_or_else(|elapsed| Err(elapsed.into())) {
            Ok(memo) => {
                self.breaker.succeeded();
                memo.filter(|memo| memo.counts_at(self.truth.now()))
            }
            Err(error) => {
                self.failed(&error);
                None
            }
        }
    }

    /// Takes note that the truth lacks what a memo says, unless that was forgotten on purpose
    /// meanwhile. Returns whether it was lost; `None` if the cache cannot say.
    async fn confirm(&self, slot: SlotId, memo: &Memo, now: Timestamp) -> Option<bool> {
        if seeded(Bug::EvidenceDropped) {
            return Some(false);
        }
        let life = memo.until.since(now);
        let kept = timeout(
            BURY_PATIENCE,
            self.cache.keep(slot, memo.record.fence, life),
        )
        .await;
        match kept.unwrap_or_else(|elapsed| Err(elapsed.into())) {
            Ok(is_there) => {
                if is_there {
                    self.regressions.tell(slot, memo);
                }
                Some(is_there)
            }
            Err(error) => {
                self.failed(&error);
                None
            }
        }
    }

    fn failed(&self, error: &BoxError) {
        if self.breaker.failed(self.clock.monotonic()) {
            tracing::warn!(%error, "the cache does not answer and is left out for a while");
        }
    }
}

#[cfg(test)]
mod tests;
