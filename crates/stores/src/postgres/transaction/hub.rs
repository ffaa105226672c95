//! The hub: where those wait who did not get a slot, without a connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use onceward::store::{Reply, Store as _};
use onceward::{Busy, SlotId, State};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::task::AbortHandle;

use super::super::PostgresStore;

/// Who in this process wants which slot.
#[derive(Debug)]
pub(super) struct Hub {
    store: PostgresStore,
    slots: Mutex<HashMap<SlotId, Arc<Queue>>>,
    /// How many wait in all.
    waiting: AtomicUsize,
    listener: Mutex<Option<AbortHandle>>,
}

/// Those of this process who want one slot.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Whoever has it asks the database; the others wait for what comes of it.
    pub(super) turn: tokio::sync::Mutex<()>,
    told: Notify,
    seats: Mutex<usize>,
    /// How many of them wait.
    waiting: AtomicUsize,
}

/// A place among them.
#[derive(Debug)]
pub(super) struct Seat {
    hub: Arc<Hub>,
    queue: Arc<Queue>,
    slot: SlotId,
}

/// A place in the line of those who wait for a slot, while there is one.
#[derive(Debug)]
pub(super) struct Line<'a>(&'a Seat);

/// A place among those who wait for a slot. It holds no connection.
#[derive(Debug)]
pub struct Waiter {
    seat: Seat,
    busy: Option<Busy>,
}

// === impl Hub ===

impl Hub {
    /// How long to wait at first before asking again, when nothing is heard.
    pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(10);
    /// How long to wait at the most before asking again.
    pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(250);

    /// How many may wait for one slot.
    const PER_SLOT: usize = 10_000;
    /// How many may wait in all.
    const IN_ALL: usize = 20_000;

    pub(super) fn new(store: PostgresStore) -> Arc<Self> {
        Arc::new(Self {
            store,
            slots: Mutex::default(),
            waiting: AtomicUsize::new(0),
            listener: Mutex::default(),
        })
    }

    /// Takes a place among those who want `slot`.
    pub(super) fn seat(self: &Arc<Self>, slot: SlotId) -> Seat {
        let mut slots = self.slots.lock();
        let queue = slots.entry(slot).or_default().clone();
        *queue.seats.lock() += 1;
        Seat {
            hub: self.clone(),
            queue,
            slot,
        }
    }

    /// Says that something may have changed in `slot`.
    pub(super) fn tell(&self, slot: SlotId) {
        if let Some(queue) = self.slots.lock().get(&slot) {
            queue.told.notify_waiters();
        }
    }

    /// Listens to the store's hints, from the first one who waits on.
    fn listen(self: &Arc<Self>) {
        let mut listener = self.listener.lock();
        // One that ended went with its runtime, or with the store.
        if listener.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let mut hints = self.store.watch();
        let hub = Arc::downgrade(self);
        let task = tokio::spawn(async move {
            while let Some(slot) = hints.next().await {
                let Some(hub) = hub.upgrade() else { return };
                hub.tell(slot);
            }
        });
        *listener = Some(task.abort_handle());
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if let Some(task) = self.listener.lock().take() {
            task.abort();
        }
    }
}

// === impl Seat ===

impl Seat {
    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Returns what ends once something may have changed, from this moment on.
    pub(super) fn told(&self) -> Notified<'_> {
        self.hub.listen();
        self.queue.told.notified()
    }

    /// Takes a place in the line, or returns `None` where too many wait already: whoever waits
    /// takes room, and one slow slot or many must not take all of it.
    pub(super) fn line(&self) -> Option<Line<'_>> {
        let line = Line(self);
        // Counted first, and taken back by the drop.
        let of_slot = self.queue.waiting.fetch_add(1, Ordering::Relaxed);
        let in_all = self.hub.waiting.fetch_add(1, Ordering::Relaxed);
        (of_slot < Hub::PER_SLOT && in_all < Hub::IN_ALL).then_some(line)
    }

    /// Whether the slot holds something to act upon, as far as can be told.
    async fn is_settled(&self) -> bool {
        match self.hub.store.get(self.slot).await {
            Ok(Reply { value, now }) => value.is_some_and(|record| {
                !matches!(record.state, State::Claimed(_)) || record.has_lapsed(now)
            }),
            Err(_) => false,
        }
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.0.queue.waiting.fetch_sub(1, Ordering::Relaxed);
        self.0.hub.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut slots = self.hub.slots.lock();
        let mut seats = self.queue.seats.lock();
        *seats -= 1;
        if *seats == 0 {
            slots.remove(&self.slot);
        }
    }
}

// === impl Waiter ===

impl Waiter {
    pub(super) fn new(seat: Seat, busy: Option<Busy>) -> Self {
        Self { seat, busy }
    }

    pub(super) fn into_busy(self) -> Option<Busy> {
        self.busy
    }

    /// How long until the holder's lease lapses, where it has one. A transaction has none: it
    /// ends when it ends.
    pub fn retry_after(&self) -> Option<Duration> {
        self.busy.as_ref().map(|busy| busy.retry_after)
    }

    /// Waits until it is worth beginning again: somebody said that the slot changed, or a
    /// moment has passed. Roll back first, so that no connection is held meanwhile. Returns
    /// `false` at once where too many wait already: tell the caller to come back later instead.
    ///
    /// Needs a tokio runtime, as everything that waits.
    pub async fn wait(self) -> bool {
        let Some(_line) = self.seat.line() else {
            return false;
        };
        let told = self.seat.told();
        // After that: what is told from here on is heard, and what was told before is seen.
        if !self.seat.is_settled().await {
            // Either is a reason to look.
            let _ = tokio::time::timeout(Hub::LONGEST_PAUSE / 2, told).await;
        }
        true
    }
}
