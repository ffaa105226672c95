//! A store that fails on demand.

use std::collections::HashMap;
use std::future::{self, Future};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::store::{Error, Filter, Insert, Page, Reply, Store, Swap, Swept};
use crate::{Fence, Record, SlotId, Timestamp};

/// A store in front of another one: it counts the calls, and fails those it is told to.
///
/// Calls are numbered from 1 in the order in which they reach the store, so a run can be counted
/// once and then failed at each of its calls in turn. [`recall`](Store::recall) and
/// [`watch`](Store::watch) are no calls: they wait for nothing and may always say nothing.
#[derive(Debug)]
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    plan: Mutex<Plan>,
    /// How often held calls were let go.
    released: watch::Sender<u64>,
    /// How many calls are held.
    held: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Plan {
    down: bool,
    /// Nothing is at hand, as with a store across a network.
    far: bool,
    calls: Vec<Call>,
    faults: HashMap<usize, Fault>,
    faults_of: HashMap<Call, (usize, Fault)>,
}

/// A method of a store, as far as it is counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Call {
    /// [`Store::insert`].
    Insert,
    /// [`Store::replace`].
    Replace,
    /// [`Store::remove`].
    Remove,
    /// [`Store::get`].
    Get,
    /// [`Store::list`].
    List,
    /// [`Store::sweep`].
    Sweep,
}

/// What goes wrong with a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// It is not applied, and fails.
    Error,
    /// It is applied, and fails all the same.
    LostReply,
    /// It is not applied, and never answers.
    NeverApplied,
    /// It is applied, and never answers.
    NeverAnswered,
    /// It waits for [`FaultyStore::release`] and is then applied, even if its caller went away.
    Held,
    /// There is no room for it. Calls that need none are not affected.
    Full,
    /// It finds bytes that are no record. Calls about no slot in particular are not affected.
    Unreadable,
}

// === impl FaultyStore ===

impl FaultyStore {
    /// Returns a store that passes every call on to `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            plan: Mutex::default(),
            released: watch::Sender::new(0),
            held: watch::Sender::new(0),
        }
    }

    /// The calls there were so far, in their order: number 1 comes first.
    pub fn calls(&self) -> Vec<Call> {
        self.plan.lock().calls.clone()
    }

    /// How many calls there were so far.
    pub fn count(&self) -> usize {
        self.plan.lock().calls.len()
    }

    /// How many calls of one kind there were so far.
    pub fn count_of(&self, call: Call) -> usize {
        let plan = self.plan.lock();
        plan.calls.iter().filter(|it| **it == call).count()
    }

    /// Fails call number `n`, counted from 1.
    pub fn fail_at(&self, n: usize, fault: Fault) {
        self.plan.lock().faults.insert(n, fault);
    }

    /// Fails the next call.
    pub fn fail_next(&self, fault: Fault) {
        let mut plan = self.plan.lock();
        let next = plan.calls.len() + 1;
        plan.faults.insert(next, fault);
    }

    /// Fails the next `times` calls of one kind.
    pub fn fail_next_of(&self, call: Call, times: usize, fault: Fault) {
        self.plan.lock().faults_of.insert(call, (times, fault));
    }

    /// Fails every call from now on, as [`Fault::Error`] does, or none.
    pub fn set_down(&self, down: bool) {
        self.plan.lock().down = down;
    }

    /// Is up again, and forgets the faults that have not come about.
    pub fn mend(&self) {
        let mut plan = self.plan.lock();
        plan.down = false;
        plan.faults.clear();
        plan.faults_of.clear();
    }

    /// Whether the store has nothing at hand for [`Store::recall`], as one across a network.
    pub fn set_far(&self, far: bool) {
        self.plan.lock().far = far;
    }

    /// Lets all calls go that are held.
    pub fn release(&self) {
        self.released.send_modify(|times| *times += 1);
    }

    /// Waits until a call is held.
    pub async fn until_held(&self) {
        let mut held = self.held.subscribe();
        let any = held.wait_for(|held| *held > 0).await;
        any.expect("the store, and so the sender, is alive");
    }

    /// Numbers a call, and says what goes wrong with it.
    fn number(&self, call: Call) -> Option<Fault> {
        let mut plan = self.plan.lock();
        plan.calls.push(call);
        let number = plan.calls.len();
        let mut fault = plan.faults.remove(&number);
        if let Some((times @ 1.., planned)) = plan.faults_of.get_mut(&call) {
            *times -= 1;
            fault = fault.or(Some(*planned));
        }
        match plan.down {
            true => Some(Fault::Error),
            false => fault,
        }
    }

    /// Does `apply` as far as the plan allows.
    async fn go<T: Send + 'static>(
        &self,
        call: Call,
        slot: Option<SlotId>,
        apply: impl Future<Output = Result<Reply<T>, Error>> + Send + 'static,
    ) -> Result<Reply<T>, Error> {
        let lost = |why: &'static str| Err(Error::unavailable(self.kind(), why));
        match (self.number(call), slot) {
            (Some(Fault::Full), _) if call.needs_room() => Err(Error::Full {
                store: self.kind(),
                why: "told to be".into(),
            }),
            (Some(Fault::Unreadable), Some(slot)) => Err(Error::Unreadable {
                slot,
                source: "told to be".into(),
            }),
            (None | Some(Fault::Full | Fault::Unreadable), _) => apply.await,
            (Some(Fault::Error), _) => lost("told to fail"),
            (Some(Fault::LostReply), _) => {
                apply.await?;
                lost("told to lose the reply")
            }
            (Some(Fault::NeverApplied), _) => future::pending().await,
            (Some(Fault::NeverAnswered), _) => {
                apply.await?;
                future::pending().await
            }
            (Some(Fault::Held), _) => self.hold(apply).await,
        }
    }

    /// Applies the call once it is let go, in a task of its own: what is on its way to a store
    /// arrives whether or not anybody still waits for it.
    async fn hold<T: Send + 'static>(
        &self,
        apply: impl Future<Output = Result<Reply<T>, Error>> + Send + 'static,
    ) -> Result<Reply<T>, Error> {
        let mut released = self.released.subscribe();
        let held = self.held.clone();
        held.send_modify(|held| *held += 1);
        let task = tokio::spawn(async move {
            // A store that is gone lets nothing go: then nobody is left to see it.
            let let_go = released.changed().await;
            held.send_modify(|held| *held -= 1);
            match let_go {
                Ok(()) => apply.await,
                Err(_) => future::pending().await,
            }
        });
        task.await.expect("a held call does not panic")
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn insert(
        &self,
        slot: SlotId,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Insert>, Error> {
        let (inner, record) = (self.inner.clone(), record.clone());
        let apply = async move { inner.insert(slot, &record, not_after).await };
        self.go(Call::Insert, Some(slot), apply).await
    }

    async fn replace(
        &self,
        slot: SlotId,
        seen: Fence,
        record: &Record,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        let (inner, record) = (self.inner.clone(), record.clone());
        let apply = async move { inner.replace(slot, seen, &record, not_after).await };
        self.go(Call::Replace, Some(slot), apply).await
    }

    async fn remove(
        &self,
        slot: SlotId,
        seen: Fence,
        not_after: Timestamp,
    ) -> Result<Reply<Swap>, Error> {
        let inner = self.inner.clone();
        let apply = async move { inner.remove(slot, seen, not_after).await };
        self.go(Call::Remove, Some(slot), apply).await
    }

    async fn get(&self, slot: SlotId) -> Result<Reply<Option<Arc<Record>>>, Error> {
        let inner = self.inner.clone();
        let apply = async move { inner.get(slot).await };
        self.go(Call::Get, Some(slot), apply).await
    }

    fn recall(&self, slot: SlotId) -> Option<Reply<Arc<Record>>> {
        let silent = {
            let plan = self.plan.lock();
            plan.down || plan.far
        };
        match silent {
            true => None,
            false => self.inner.recall(slot),
        }
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<SlotId>,
        limit: usize,
    ) -> Result<Reply<Page>, Error> {
        let (inner, filter) = (self.inner.clone(), filter.clone());
        let apply = async move { inner.list(&filter, after, limit).await };
        self.go(Call::List, None, apply).await
    }

    async fn sweep(&self, before: Timestamp, limit: usize) -> Result<Reply<Swept>, Error> {
        let inner = self.inner.clone();
        let apply = async move { inner.sweep(before, limit).await };
        self.go(Call::Sweep, None, apply).await
    }

    crate::forward!(forget, watch, durability, kind);
}

// === impl Call ===

impl Call {
    /// Whether the call may make a store grow.
    const fn needs_room(self) -> bool {
        matches!(self, Self::Insert | Self::Replace)
    }
}

// === impl Fault ===

impl Fault {
    /// Every fault, for tests that try them all.
    pub const ALL: [Self; 7] = [
        Self::Error,
        Self::LostReply,
        Self::NeverApplied,
        Self::NeverAnswered,
        Self::Held,
        Self::Full,
        Self::Unreadable,
    ];
}
