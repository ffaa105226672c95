//! Waiting: many duplicates behind one watcher per slot.
//!
//! A waiter holds no connection and asks no store: one task per slot and process looks at the
//! record whenever there is a reason to, and tells everybody who waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;

use crate::engine::Shared;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, Notify, time};
use crate::{Fence, Record, Scope, SlotId, State, Timestamp};

/// Where duplicates wait.
#[derive(Debug, Default)]
pub(crate) struct Room {
    inner: Mutex<Inner>,
    /// As many as there are seats taken; read without the lock on every completion.
    total: AtomicUsize,
    listening: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    slots: HashMap<SlotId, Arc<Watch>>,
    tenants: HashMap<Box<str>, usize>,
}

/// What the waiters of one slot share.
#[derive(Debug, Default)]
struct Watch {
    news: Mutex<News>,
    /// Wakes the waiters in the order in which they came: a simulation has to repeat itself.
    told: Notify,
    poke: Notify,
    seats: AtomicUsize,
    /// The last round in which somebody was elected to act.
    elected: AtomicU64,
}

/// What was last seen in a slot, once there was something to act on.
#[derive(Clone, Debug, Default)]
pub(crate) struct News {
    pub(crate) record: Option<Arc<Record>>,
    pub(crate) now: Timestamp,
    /// Counts the news, from 1.
    pub(crate) round: u64,
    /// How often the slot was seen to become free.
    pub(crate) releases: u64,
    /// Nobody was seen to take the slot since it last became free.
    vacant: bool,
}

/// A place among the waiters of one slot.
#[derive(Debug)]
pub(crate) struct Seat {
    shared: Arc<Shared>,
    watch: Arc<Watch>,
    id: SlotId,
    scope: Scope,
    /// News from before this moment is old: the waiter itself saw the slot later.
    since: Timestamp,
}

/// Says that nobody listens any more, when hints or the runtime end: the next waiter starts anew.
struct Listening(Weak<Shared>);

// === impl Room ===

impl Room {
    /// How long a watcher goes without looking, when nothing tells it to.
    const POLL: Duration = Duration::from_millis(500);

    /// Takes a seat, or `None` if there are too many waiting already.
    ///
    /// `since` is when the caller itself saw that somebody else is at it.
    pub(crate) fn enter(
        shared: &Arc<Shared>,
        id: SlotId,
        scope: &Scope,
        since: Timestamp,
    ) -> Option<Seat> {
        let (room, limits) = (&shared.room, &shared.limits);
        let scope = scope.clone();
        let mut inner = room.inner.lock();
        let of_tenant = inner.tenants.get(scope.tenant()).copied().unwrap_or(0);
        let of_slot = inner
            .slots
            .get(&id)
            .map_or(0, |watch| watch.seats.load(Ordering::Relaxed));
        if of_slot >= limits.waiters_per_slot
            || of_tenant >= limits.waiters_per_tenant
            || room.total.load(Ordering::Relaxed) >= limits.waiters
        {
            return None;
        }
        // Before the watcher can look: a completion that comes after its look has to see that
        // somebody waits.
        let total = room.total.fetch_add(1, Ordering::Relaxed) + 1;
        match inner.tenants.get_mut(scope.tenant()) {
            Some(count) => *count += 1,
            None => drop(inner.tenants.insert(scope.tenant().into(), 1)),
        }
        let watch = inner.slots.entry(id).or_default().clone();
        if watch.seats.fetch_add(1, Ordering::Relaxed) == 0 {
            // After the seat is taken, for a watcher of nobody ends.
            let watching = Room::watch(shared.clone(), id, watch.clone());
            shared.tasks.spawn(watching);
        }
        drop(inner);
        shared.reach.meters.waiters.set(total as f64);
        room.listen(shared);
        Some(Seat {
            shared: shared.clone(),
            watch,
            id,
            scope,
            since,
        })
    }

    /// Counts who waits, under the lock.
    #[cfg(any(onceward_shuttle, onceward_loom))]
    pub(crate) fn count(&self) -> crate::sync::Waiting {
        let inner = self.inner.lock();
        let seats = |watch: &Arc<Watch>| watch.seats.load(Ordering::Relaxed);
        crate::sync::Waiting {
            total: self.total.load(Ordering::Relaxed),
            slots: inner.slots.len(),
            of_slot: inner.slots.values().map(seats).max().unwrap_or(0),
            tenants: inner.tenants.len(),
            of_tenant: inner.tenants.values().copied().max().unwrap_or(0),
        }
    }

    /// Says that something may have changed in `slot`.
    pub(crate) fn poke(&self, slot: SlotId) {
        if self.total.load(Ordering::Relaxed) == 0 {
            return;
        }
        if let Some(watch) = self.inner.lock().slots.get(&slot) {
            watch.poke.notify_one();
        }
    }

    fn leave(&self, seat: &Seat) {
        let mut inner = self.inner.lock();
        let tenant = seat.scope.tenant();
        if let Some(count) = inner.tenants.get_mut(tenant) {
            *count -= 1;
            if *count == 0 {
                inner.tenants.remove(tenant);
            }
        }
        if seat.watch.seats.fetch_sub(1, Ordering::Relaxed) == 1 {
            inner.slots.remove(&seat.id);
            // The watcher looks up, finds nobody and ends.
            seat.watch.poke.notify_one();
        }
        let total = self.total.fetch_sub(1, Ordering::Relaxed) - 1;
        drop(inner);
        seat.shared.reach.meters.waiters.set(total as f64);
    }

    /// Listens to the store's hints from the first waiter on.
    fn listen(&self, shared: &Arc<Shared>) {
        if self.listening.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut hints = shared.reach.store.watch();
        let listening = Listening(Arc::downgrade(shared));
        shared.tasks.spawn_apart(async move {
            while let Some(slot) = hints.next().await {
                let Some(shared) = listening.0.upgrade() else {
                    return;
                };
                shared.room.poke(slot);
            }
        });
    }

    /// Looks at one slot for all who wait for it, until nobody does.
    async fn watch(shared: Arc<Shared>, id: SlotId, watch: Arc<Watch>) {
        let reach = &shared.reach;
        while watch.seats.load(Ordering::Relaxed) > 0 {
            let mut pause = reach.jittered(Self::POLL);
            // A store that is away is asked again: a waiter gives up by its own deadline.
            if let Ok(reply) = reach.ask(reach.store.get(id)).await {
                let until = watch.tell(reply.value, reply.now);
                pause = pause.min(until);
            }
            // Either is a reason to look.
            let _ = time::timeout(pause, watch.poke.notified()).await;
        }
    }
}

// === impl Listening ===

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.room.listening.store(false, Ordering::Relaxed);
        }
    }
}

// === impl Watch ===

impl Watch {
    /// Tells the waiters what is in the slot, unless it is a live claim: nothing to act on.
    /// Returns how long that stays so.
    fn tell(&self, record: Option<Arc<Record>>, now: Timestamp) -> Duration {
        if let Some(record) = &record
            && matches!(record.state, State::Claimed(_))
            && !record.has_lapsed(now)
        {
            self.taken();
            return record.due().since(now) + Duration::from_millis(1);
        }
        let free = match &record {
            None => true,
            Some(record) => matches!(record.state, State::Open) || record.has_expired(now),
        };
        let mut news = self.news.lock();
        // Seeing the same vacancy twice is one release.
        let same = news.vacant && fence(news.record.as_ref()) == fence(record.as_ref());
        news.releases += u64::from(free && !same);
        news.vacant = free;
        news.round += 1;
        news.record = record;
        news.now = now;
        drop(news);
        self.told.notify_waiters();
        Duration::MAX
    }

    /// Somebody has taken the slot, so the next vacancy is another one. No news to anybody.
    fn taken(&self) {
        self.news.lock().vacant = false;
    }
}

fn fence(record: Option<&Arc<Record>>) -> Option<Fence> {
    record.map(|record| record.fence)
}

// === impl Seat ===

impl Seat {
    /// Waits for something to act on, after round `seen`.
    pub(crate) async fn news_after(&self, seen: u64) -> News {
        loop {
            // Before looking: what is told from here on wakes this waiter.
            let told = self.watch.told.notified();
            {
                let news = self.watch.news.lock();
                if news.round > seen && news.now >= self.since {
                    return news.clone();
                }
            }
            told.await;
        }
    }

    /// How often the slot had become free when this seat was taken.
    pub(crate) fn releases(&self) -> u64 {
        self.watch.news.lock().releases
    }

    /// Whether this waiter is the one to act on this round of news.
    pub(crate) fn is_elected(&self, news: &News) -> bool {
        self.watch.elected.fetch_max(news.round, Ordering::Relaxed) < news.round
    }

    /// Says that this waiter has the claim: the watcher may look too late to see it.
    pub(crate) fn claimed(&self) {
        self.watch.taken();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.room.leave(self);
    }
}
