//! Guests: connections on the runtimes of callers, for calls that come alone.
//!
//! A call that goes to the store's own thread and back has two more threads woken for it, which
//! takes about as long as a small statement does where the server is near. So each runtime that
//! calls has a connection of its own, up to a limit, and a call that comes while nothing else is
//! under way is sent on it by its caller. As soon as several calls come at a time they go through
//! the queue, because they are cheaper together.
//!
//! A guest ends with its runtime, and nobody else depends on it: calls of other runtimes, and all
//! that has to wait, are the lanes' business.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onceward::SlotId;
use parking_lot::Mutex;
use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::sync::{Notify, oneshot};

use super::batch;
use super::hub::Hub;
use super::queue::{Batch, Job, Kind};
use super::session::{Prepared, Session};
use crate::server::Backoff;

/// How often a guest stirs: sooner than any timer of a call is due.
const STIR: Duration = Duration::from_millis(50);

/// The guests of a store.
#[derive(Debug, Default)]
pub(super) struct Guests(Mutex<Vec<Arc<Guest>>>);

/// A connection on the runtime of callers.
#[derive(Debug)]
struct Guest {
    runtime: Id,
    /// `None` while there is no connection.
    line: Mutex<Option<Arc<Line>>>,
    /// Somebody is using it.
    is_taken: AtomicBool,
    closing: Notify,
}

/// A session with its statements.
struct Line {
    session: Session,
    prepared: Prepared,
}

/// A guest that one caller uses, until this is dropped.
struct Seat {
    guest: Arc<Guest>,
    line: Arc<Line>,
}

/// The slot of a call under way. If its caller goes away in the middle of it, others may have it.
struct Held<'a> {
    hub: &'a Hub,
    kind: Kind,
    slot: Option<SlotId>,
}

/// Takes a guest off the list, however it ends.
struct Leaving {
    hub: Arc<Hub>,
    guest: Arc<Guest>,
}

/// Runs a call on the caller's own runtime if it comes alone, or else gives it back.
pub(super) async fn run(hub: &Arc<Hub>, job: Job) -> Option<Job> {
    let runtime = Handle::try_current().ok();
    // The other flavour is that of tests, which may stop its clock or do without a network.
    let is_fit = |it: &Handle| it.runtime_flavor() == RuntimeFlavor::MultiThread;
    let Some(runtime) = runtime.filter(is_fit) else {
        return Some(job);
    };
    let Some(seat) = hub.guests.seat(runtime.id()) else {
        Guests::invite(hub, &runtime);
        return Some(job);
    };
    let batch = {
        let mut queue = hub.queue.lock();
        if !queue.is_quiet() {
            return Some(job);
        }
        queue.alone(job)
    };
    let held = Held::new(hub, &batch);
    let Line { session, prepared } = &*seat.line;
    if let Err(trouble) = batch::run(hub, session, prepared, batch).await {
        tracing::debug!(why = %trouble, "a connection to PostgreSQL was lost");
        hub.doubts.lost();
        seat.guest.hang_up();
    }
    held.end();
    hub.go_on();
    None
}

// === impl Guests ===

impl Guests {
    /// How many of so many connections may be guests: one at least is for the lanes.
    pub(super) fn most(connections: usize) -> usize {
        (connections / 2).min(connections.saturating_sub(1))
    }

    /// Ends all guests: the store is being closed.
    pub(super) fn close(&self) {
        for guest in &*self.0.lock() {
            guest.closing.notify_one();
        }
    }

    /// Takes the guest of a runtime, if it has one that is free.
    fn seat(&self, runtime: Id) -> Option<Seat> {
        let guests = self.0.lock();
        let guest = guests.iter().find(|guest| guest.runtime == runtime)?;
        let line = guest.line.lock().clone()?;
        let is_free = !guest.is_taken.swap(true, Ordering::AcqRel);
        is_free.then(|| Seat {
            guest: Arc::clone(guest),
            line,
        })
    }

    /// Opens a connection on a runtime, unless it has one or there are enough.
    fn invite(hub: &Arc<Hub>, runtime: &Handle) {
        let mut guests = hub.guests.0.lock();
        let id = runtime.id();
        let is_full = guests.len() >= Self::most(hub.connector.settings.connections);
        if is_full || guests.iter().any(|guest| guest.runtime == id) {
            return;
        }
        let guest = Arc::new(Guest {
            runtime: id,
            line: Mutex::default(),
            is_taken: AtomicBool::new(false),
            closing: Notify::new(),
        });
        guests.push(Arc::clone(&guest));
        let leaving = Leaving {
            hub: Arc::clone(hub),
            guest,
        };
        // It ends when the store is closed, or is dropped with its runtime.
        runtime.spawn(leaving.stay());
    }
}

// === impl Leaving ===

impl Leaving {
    /// Keeps a connection open until the store is closed.
    async fn stay(self) {
        let mut backoff = Backoff::default();
        while !self.hub.is_closing.load(Ordering::Acquire) {
            if let Some(gone) = self.connect().await {
                backoff = Backoff::default();
                tokio::select! {
                    // With what its callers did not wait for, if there is something.
                    _ = gone => self.hub.doubts.lost(),
                    () = self.guest.closing.notified() => {}
                    () = stir() => {}
                }
                self.guest.hang_up();
            }
            tokio::time::sleep(backoff.next()).await;
        }
    }

    /// Connects, and returns what tells of the connection's end. Why it cannot be had, the lanes
    /// tell.
    async fn connect(&self) -> Option<oneshot::Receiver<String>> {
        let mut session = self.hub.connector.connect(None).await.ok()?;
        self.hub.is_home(&session.about).ok()?;
        let (prepared, found) = session.ready(&self.hub.connector).await.ok()?;
        self.hub.found(found);
        let (_, never) = oneshot::channel();
        let gone = std::mem::replace(&mut session.gone, never);
        *self.guest.line.lock() = Some(Arc::new(Line { session, prepared }));
        Some(gone)
    }
}

/// Wakes up now and then, and never ends.
///
/// Whoever sets a timer that is the first to be due wakes the thread that waits for timers, and
/// that thread takes processor time from the server where it is near. Calls set timers that are
/// seconds away, so one that is always due sooner spares them that.
async fn stir() {
    loop {
        tokio::time::sleep(STIR).await;
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.guest.hang_up();
        let mut guests = self.hub.guests.0.lock();
        guests.retain(|guest| !Arc::ptr_eq(guest, &self.guest));
    }
}

// === impl Guest ===

impl Guest {
    /// Gives the connection up; the guest opens another one.
    fn hang_up(&self) {
        *self.line.lock() = None;
    }
}

// === impl Seat ===

impl Drop for Seat {
    fn drop(&mut self) {
        self.guest.is_taken.store(false, Ordering::Release);
    }
}

// === impl Held ===

impl<'a> Held<'a> {
    fn new(hub: &'a Hub, batch: &Batch) -> Self {
        Self {
            hub,
            kind: batch.kind,
            slot: batch.jobs.first().map(|job| job.slot),
        }
    }

    fn end(mut self) {
        self.slot = None;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            if self.kind.is_write() {
                self.hub.doubts.lost();
            }
            self.hub.queue.lock().release(self.kind, [slot]);
            self.hub.go_on();
        }
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}
