//! Stores: maps of slots to records in which every write names the fence it saw.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};

use crate::record::StateName;
use crate::sync::broadcast;
use crate::{Fence, Record, SlotId, Timestamp};

mod forward;
pub(crate) mod memory;

/// An error of whatever kind, where nobody has to tell kinds apart.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A map of slots to records in which every write names the fence it saw.
///
/// A store compares and swaps and holds no protocol: it never looks into a record further than
/// its fence, its state's name and when it is due. What to write is decided by
/// [`decide`](crate::protocol::decide), in one place for all stores.
///
/// # Contract
///
/// - Writes to one slot are linearizable, and so is [`get`](Store::get).
/// - `Err` means "may have happened"; `Taken`, `Moved` and `Late` mean "did not". The one
///   exception is [`Error::Full`], which did not happen either.
/// - Every [`Reply`] carries the store's own clock, which never goes back, at the moment of the
///   read or write. A write stamps [`Record::written`] with it, atomically with the write.
/// - A write that reaches the store after `not_after`, by the store's clock, changes nothing and
///   is answered `Late`.
/// - A write is answered `Done` only once it is as durable as [`Store::durability`] says, and
///   nothing is read that is not.
/// - A record whose bytes cannot be read is [`Error::Unreadable`], never absent.
/// - The methods are cancel safe in one sense: a write whose future is dropped may still happen,
///   as a whole.
/// - A store may remember answers beside the slots, and answer an [`insert`](Store::insert) `Taken`
///   from them: with a completed record that was in the slot, until that comes due. Whoever takes
///   such a record away or changes its outcome calls [`forget`](Store::forget) first.
///
/// [`testing::conformance`](crate::testing) holds every store to this.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Puts `record` into an empty slot, or returns the record already there.
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error>;

    /// Replaces the record in `slot` if its fence is still `seen`.
    async fn replace(
        &self,
        slot: SlotId,
        seen: Fence,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error>;

    /// Removes the record in `slot` if its fence is still `seen`.
    async fn remove(
        &self,
        slot: SlotId,
        seen: Fence,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error>;

    /// Returns the record in `slot`, if there is one.
    async fn get(&self, slot: SlotId) -> Result<Reply<Option<Arc<Record>>>, Error>;

    /// Returns a completed record that the store has at hand, without waiting for anything.
    ///
    /// `None` says nothing at all. What is returned is as durable and as current as what
    /// [`get`](Store::get) would return: this is how replays cost next to nothing.
    fn recall(&self, slot: SlotId) -> Option<Reply<Arc<Record>>>;

    /// Forgets every answer about `slot` with a fence below `before` that is remembered beside the
    /// slot, here or by other nodes, and remembers none of them again.
    ///
    /// Called before an operator's write, with the fence of that write. `Ok` is a promise; after
    /// `Err` the write must not be sent. A store that remembers nothing has nothing to do.
    async fn forget(&self, slot: SlotId, before: Fence) -> Result<(), Error>;

    /// Returns the records that `filter` lets pass, in the order of their slots, after `after`.
    ///
    /// A page is not a snapshot: a record written meanwhile may be seen or not. A page may hold
    /// fewer than `limit` records, even none, and still have a next one. A `limit` of 0 counts as
    /// 1.
    async fn list(
        &self,
        filter: &Filter,
        after: Option<SlotId>,
        limit: usize,
    ) -> Result<Reply<Page>, Error>;

    /// Removes records that came due before `before` and may expire, and reports those that came
    /// due and [do not](StateName::expires), such as lapsed claims, without touching them. Looks
    /// at `limit` records at the most.
    ///
    /// A horizon in the future counts as now. Whether a record is due is decided in the same
    /// atomic step as its removal.
    async fn sweep(&self, before: Timestamp, limit: usize) -> Result<Reply<Swept>, Error>;

    /// Returns a stream of slots that changed: hints only, some may be missing or superfluous.
    ///
    /// One stream per process is enough; it ends when the store is closed.
    fn watch(&self) -> Hints;

    /// What an acknowledged write survives.
    fn durability(&self) -> Durability;

    /// The kind of store, in a word: `memory`, `embedded`, `postgres`.
    fn kind(&self) -> &'static str;
}

/// An answer of a store that is still to come.
pub type Pending<'a, T> = BoxFuture<'a, Result<Reply<T>, Error>>;

/// Whether a store has been told something, which is still to come.
pub type Told<'a> = BoxFuture<'a, Result<(), Error>>;

/// Slots that changed, as [`Store::watch`] returns them.
pub type Hints = BoxStream<'static, SlotId>;

/// Returns the slots that a store tells of on a channel. Whoever listens too slowly misses some.
pub fn hints(changes: broadcast::Receiver<SlotId>) -> Hints {
    stream::unfold(changes, |mut changes| async move {
        loop {
            match changes.recv().await {
                Ok(slot) => return Some((slot, changes)),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    })
    .boxed()
}

/// What a store answered, and when it did so by its own clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply<T> {
    /// The answer.
    pub value: T,
    /// The store's clock at the moment of the read or write.
    pub now: Timestamp,
}

/// What became of an insert.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Insert {
    /// The record is in the slot, stamped with the reply's time.
    Done,
    /// The slot holds this record. Nothing was written.
    Taken(Arc<Record>),
    /// It came too late. Nothing was written.
    Late,
}

/// What became of a replacement or removal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Swap {
    /// The write happened, stamped with the reply's time.
    Done,
    /// Another fence was there, or nothing. Nothing was written.
    Moved(Option<Arc<Record>>),
    /// It came too late. Nothing was written.
    Late,
}

/// Which records to list. Every part that is set has to hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Records of this tenant.
    pub tenant: Option<String>,
    /// Records of this operation.
    pub operation: Option<String>,
    /// Records in this state.
    pub state: Option<StateName>,
    /// Records last written before this moment.
    pub written_before: Option<Timestamp>,
}

/// One page of a list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// The records, by slot.
    pub records: Vec<(SlotId, Arc<Record>)>,
    /// Where the next page goes on, if there is one.
    pub next: Option<SlotId>,
}

/// What one step of sweeping did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// How many expired records were removed.
    pub removed: usize,
    /// What is due and a matter for the protocol. Claims whose holder fell silent: the engine
    /// marks them unknown. Bodies that go before their records, and reservations: it looks whether
    /// the work that they stand for is still kept.
    pub lapsed: Vec<(SlotId, Arc<Record>)>,
    /// Whether there may be more that is due.
    pub more: bool,
}

/// What an acknowledged write survives, from nothing to the loss of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Durability {
    /// Nothing, in a failover or restart.
    D0,
    /// kill -9, not power loss.
    D1,
    /// kill and power loss of the node.
    D2,
    /// The loss of a node.
    D3,
}

/// Why a store could not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing came back: a write may or may not have happened.
    #[error("{store} store is unavailable")]
    Unavailable {
        /// The kind of store.
        store: &'static str,
        /// What went wrong.
        source: BoxError,
    },

    /// The bytes in the slot are not a record that this version can read.
    #[error("record in slot {slot:?} cannot be read")]
    Unreadable {
        /// The slot.
        slot: SlotId,
        /// What is wrong with the bytes.
        source: BoxError,
    },

    /// There is no room for new claims. Nothing was written.
    #[error("{store} store takes no new claims: {why}")]
    Full {
        /// The kind of store.
        store: &'static str,
        /// What is full.
        why: String,
    },
}

// === impl Reply ===

impl<T> Reply<T> {
    /// Returns the reply `value` at the time `now`.
    pub fn new(value: T, now: Timestamp) -> Self {
        Self { value, now }
    }
}

// === impl Filter ===

impl Filter {
    /// Whether `record` passes.
    pub fn passes(&self, record: &Record) -> bool {
        let Self {
            tenant,
            operation,
            state,
            written_before,
        } = self;
        tenant
            .as_deref()
            .is_none_or(|it| it == record.scope.tenant())
            && operation
                .as_deref()
                .is_none_or(|it| it == record.scope.operation())
            && state.is_none_or(|it| it.covers(record.state.name()))
            && written_before.is_none_or(|it| record.written < it)
    }
}

// === impl Durability ===

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

// === impl Error ===

impl Error {
    /// Returns the error of a store that did not answer.
    pub fn unavailable(store: &'static str, source: impl Into<BoxError>) -> Self {
        Self::Unavailable {
            store,
            source: source.into(),
        }
    }

    /// Whether asking again may help: an unreadable record stays unreadable.
    pub fn is_transient(&self) -> bool {
        !matches!(self, Self::Unreadable { .. })
    }
}
