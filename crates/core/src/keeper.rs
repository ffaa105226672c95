//! The keeper: one task per engine that looks after what must not depend on a caller.
//!
//! It renews live claims, finishes claims whose caller went away in the middle of saying how
//! they ended, and takes back claims that were asked for and never learned of. A task per claim
//! would do the same and cost more than the claim.

use std::sync::{Arc, Weak};
use std::time::Duration;

use slab::Slab;

use crate::claim::{Holding, Pause};
use crate::clock::micros;
use crate::engine::Shared;
use crate::store::Swap;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, Notify, nearest, shards, time};
use crate::{Fence, Record, SlotId, State, Timestamp};

/// Where live claims are kept.
#[derive(Debug)]
pub(crate) struct Keeper {
    shards: Box<[Mutex<Slab<Arc<Holding>>>]>,
    chores: Mutex<Vec<Chore>>,
    /// Held once more by each stray that is looked after.
    strays: Arc<()>,
    wake: Arc<Notify>,
    /// The task is there.
    started: AtomicBool,
    /// The task sleeps until somebody wakes it.
    idle: AtomicBool,
    /// How long the task sleeps at the most, in microseconds: it follows the shortest lease.
    pace: AtomicU64,
}

/// Says that the task is gone when its runtime takes it away: the next claim starts another.
struct Tending(Weak<Shared>);

/// Something to be done that its caller no longer waits for.
#[derive(Debug)]
enum Chore {
    Finish(Arc<Holding>, usize),
    /// The second is one of as many as there are strays.
    TakeBack(Stray, Arc<()>),
}

/// A claim that was asked for, and nobody knows whether the store granted it.
#[derive(Debug)]
pub(crate) struct Stray {
    pub(crate) id: SlotId,
    /// The marks it was asked for with.
    pub(crate) marks: Vec<Fence>,
    /// The store's time past which none of them can land any more.
    pub(crate) not_after: Timestamp,
}

// === impl Keeper ===

impl Keeper {
    const SHARDS: usize = shards(16);
    const PACE_MAX: Duration = Duration::from_secs(1);
    const PACE_MIN: Duration = Duration::from_millis(5);
    /// How many strays are looked after. In an outage every arrival leaves one, and watching them
    /// all would trample a store that is coming back; one more is left to lapse.
    const STRAYS_MAX: usize = 1_000;

    pub(crate) fn new() -> Self {
        Self {
            shards: (0..Self::SHARDS).map(|_| Mutex::default()).collect(),
            chores: Mutex::default(),
            strays: Arc::default(),
            wake: Arc::default(),
            started: AtomicBool::new(false),
            idle: AtomicBool::new(false),
            pace: AtomicU64::new(micros(Self::PACE_MAX)),
        }
    }

    /// Looks after `holding` from now on, and returns its place.
    pub(crate) fn keep(&self, holding: &Arc<Holding>) -> usize {
        let shard = nearest() % Self::SHARDS;
        let place = self.shards[shard].lock().insert(holding.clone());
        let pace = micros(Self::pace(holding));
        let hurry = pace < self.pace.load(Ordering::Relaxed);
        if hurry {
            self.pace.fetch_min(pace, Ordering::Relaxed);
        }
        if hurry || self.idle.load(Ordering::Relaxed) {
            self.wake.notify_one();
        }
        self.start(&holding.shared);
        place * Self::SHARDS + shard
    }

    /// Looks after the claim no longer: it ended, or its holder says nothing.
    pub(crate) fn forget(&self, place: usize) {
        let (shard, place) = (place % Self::SHARDS, place / Self::SHARDS);
        let holding = self.shards[shard].lock().remove(place);
        // Only now: it may be the last that is left of the claim.
        drop(holding);
    }

    /// Finishes a claim whose caller went away.
    pub(crate) fn finish(&self, holding: &Arc<Holding>, place: usize) {
        self.take_on(&holding.shared, Chore::Finish(holding.clone(), place));
    }

    /// Takes back a claim that nobody learned of.
    pub(crate) fn take_back(&self, shared: &Arc<Shared>, stray: Stray) {
        let watched = self.strays.clone();
        if Arc::strong_count(&watched) > Self::STRAYS_MAX {
            tracing::warn!(slot = ?stray.id, "a claim that nobody learned of is left to lapse");
            return;
        }
        self.take_on(shared, Chore::TakeBack(stray, watched));
    }

    /// Whether there is nothing to look after.
    pub(crate) fn is_empty(&self) -> bool {
        self.chores.lock().is_empty() && self.shards.iter().all(|shard| shard.lock().is_empty())
    }

    /// The claims that are alive.
    pub(crate) fn all(&self) -> Vec<Arc<Holding>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(shard.lock().iter().map(|(_, holding)| holding.clone()));
        }
        all
    }

    fn take_on(&self, shared: &Arc<Shared>, chore: Chore) {
        self.chores.lock().push(chore);
        self.start(shared);
        self.wake.notify_one();
    }

    /// How often to look at a claim: four looks per renewal notice in time that one is due.
    fn pace(holding: &Holding) -> Duration {
        (holding.lease() / 12).clamp(Self::PACE_MIN, Self::PACE_MAX)
    }

    /// Starts the task unless there is one. It ends when the engine is gone, or its runtime.
    pub(crate) fn start(&self, shared: &Arc<Shared>) {
        if self.started.load(Ordering::Relaxed) || self.started.swap(true, Ordering::Relaxed) {
            return;
        }
        // Without a runtime there is nobody to do chores; the next call may bring one.
        let tending = Tending(Arc::downgrade(shared));
        let tending = tend(tending, self.wake.clone());
        shared.tasks.try_spawn_apart(tending);
    }

    /// Starts what is due, and returns how long nothing will be.
    fn look_around(&self, shared: &Arc<Shared>) -> Duration {
        // Under the lock, so that a chore is always seen: as one to do, or as a task.
        let mut chores = self.chores.lock();
        for chore in chores.drain(..) {
            shared.tasks.spawn(chore.done(shared.clone()));
        }
        drop(chores);
        // Said before looking: a claim that comes meanwhile wakes the task once too often.
        self.idle.store(true, Ordering::Relaxed);
        self.pace.store(micros(Self::PACE_MAX), Ordering::Relaxed);
        let mut any = false;
        let mut pace = Self::PACE_MAX;
        for shard in &self.shards {
            for (_, holding) in shard.lock().iter() {
                any = true;
                pace = pace.min(Self::pace(holding));
                if let Some(renewing) = holding.start_renewing() {
                    shared.tasks.spawn(renewing.renew());
                }
            }
        }
        if !any {
            return Duration::MAX;
        }
        self.idle.store(false, Ordering::Relaxed);
        self.pace.fetch_min(micros(pace), Ordering::Relaxed);
        pace
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

async fn tend(tending: Tending, wake: Arc<Notify>) {
    loop {
        let Some(engine) = tending.0.upgrade() else {
            return;
        };
        let pause = engine.keeper.look_around(&engine);
        drop(engine);
        // Either is a reason to look around.
        let _ = time::timeout(pause, wake.notified()).await;
    }
}

// === impl Tending ===

impl Drop for Tending {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.keeper.started.store(false, Ordering::Relaxed);
        }
    }
}

// === impl Chore ===

impl Chore {
    async fn done(self, shared: Arc<Shared>) {
        match self {
            Self::Finish(holding, place) => {
                if let Err(error) = holding.finish().await {
                    tracing::warn!(slot = ?holding.arrival.id(), %error, "claim ended in vain");
                }
                shared.keeper.forget(place);
            }
            Self::TakeBack(stray, _watched) => stray.taken_back(&shared).await,
        }
    }
}

// === impl Stray ===

impl Stray {
    /// Releases the claim if the store granted it, watching until it cannot land any more.
    ///
    /// The work never started under these marks, so it provably did not happen. A claim that was
    /// asked for more than once may land more than once: then finding it is not the end.
    async fn taken_back(&self, shared: &Shared) {
        let reach = &shared.reach;
        let mut pause = Pause::default();
        loop {
            let over = match reach.ask(reach.store.get(self.id)).await {
                Ok(reply) => match reply.value.filter(|found| self.is_ours(found)) {
                    Some(found) => self.release(shared, &found).await && self.marks.len() == 1,
                    None => reply.now > self.not_after || self.not_after == Timestamp::NEVER,
                },
                Err(error) => !error.is_transient(),
            };
            if over {
                return;
            }
            pause.take().await;
        }
    }

    /// Whether `found` is the claim that was asked for, and something can be done about it: what
    /// an operator settled stays, and so does what an earlier attempt left unknown.
    fn is_ours(&self, found: &Record) -> bool {
        found.mark.is_some_and(|mark| self.marks.contains(&mark))
            && match found.state {
                State::Claimed(_) => true,
                State::Unknown(_) => found.attempt == 1,
                State::Completed(_) | State::Open | State::Reserved(_) => false,
            }
    }

    /// Returns whether it is released; if it failed, or the record moved, look again.
    async fn release(&self, shared: &Shared, found: &Record) -> bool {
        let reach = &shared.reach;
        let fence = reach.fence(Some(found.fence));
        let released = match found.released(fence) {
            Some(record) => {
                let call = reach
                    .store
                    .replace(self.id, found.fence, &record, Timestamp::NEVER);
                reach.ask(call).await
            }
            None => {
                let call = reach.store.remove(self.id, found.fence, Timestamp::NEVER);
                reach.ask(call).await
            }
        };
        let done = released.is_ok_and(|reply| reply.value == Swap::Done);
        if done {
            shared.room.poke(self.id);
        }
        done
    }
}
