//! The hub: what callers and the store's own thread share.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use onceward::{Durability, SlotId};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::SERVER;
use super::doubts::Doubts;
use super::durability::Found;
use super::guest::Guests;
use super::home::{Failover, Home};
use super::queue::{Batch, Job, Queue};
use super::session::{About, Connector};
use super::trouble::Trouble;
use crate::reckon::Reckoning;
use crate::server::{Changes, Class};

/// What callers and the store's thread share.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) connector: Connector,
    pub(super) reckoning: Reckoning,
    pub(super) queue: Mutex<Queue>,
    errands: Mutex<VecDeque<Errand>>,
    /// An errand is being run: the others wait, so that they never take all lanes.
    is_on_errand: AtomicBool,
    /// Wakes a lane: there is something to do.
    pub(super) wake: Notify,
    /// Connections on the runtimes of callers.
    pub(super) guests: Guests,
    /// Hints at changed slots. `None` once the store is closed.
    pub(super) changes: Changes,
    /// Changed slots that other nodes are to be told of.
    pub(super) outgoing: Mutex<Vec<SlotId>>,
    pub(super) has_outgoing: Notify,
    /// Lanes that have a connection.
    lanes: AtomicUsize,
    class: Class,
    /// The cluster that the store was opened on.
    home: Mutex<Home>,
    /// Something was written since the clock was last put on record.
    pub(super) has_written: AtomicBool,
    pub(super) is_closing: AtomicBool,
    pub(super) closing: Notify,
    /// Whether what can be read may not be on the standby that commits wait for.
    pub(super) doubts: Arc<Doubts>,
    /// The store's own runtime, which lasts as long as the store.
    own: Handle,
}

/// A statement by itself: a page of a list, a step of a sweep.
pub(super) struct Errand {
    pub(super) text: String,
    pub(super) parameters: Parameters,
    /// When the caller gets an answer whatever happens, by the stopwatch.
    pub(super) deadline: Duration,
    pub(super) reply: oneshot::Sender<Result<Vec<Row>, Trouble>>,
}

/// The parameters of an errand.
pub(super) type Parameters = Vec<Box<dyn ToSql + Sync + Send>>;

/// What a lane does next.
pub(super) enum Work {
    Batch(Batch),
    Errand(Errand),
}

// === impl Hub ===

impl Hub {
    /// How many slots may wait to be told to other nodes: hints beyond that are dropped.
    const OUTGOING_MAX: usize = 16_384;

    pub(super) fn new(
        connector: Connector,
        reckoning: Reckoning,
        home: Home,
        durability: Durability,
    ) -> Self {
        let doubts = Doubts::default();
        doubts.wait(durability == Durability::D3);
        Self {
            connector,
            reckoning,
            queue: Mutex::default(),
            errands: Mutex::default(),
            is_on_errand: AtomicBool::new(false),
            wake: Notify::new(),
            guests: Guests::default(),
            changes: Changes::default(),
            outgoing: Mutex::default(),
            has_outgoing: Notify::new(),
            lanes: AtomicUsize::new(0),
            class: Class::new(durability),
            home: Mutex::new(home),
            has_written: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            closing: Notify::new(),
            doubts: Arc::new(doubts),
            own: Handle::current(),
        }
    }

    /// When a call that comes now has to be answered.
    pub(super) fn deadline(&self) -> Duration {
        self.reckoning.stopwatch() + self.connector.settings.timeout
    }

    /// Puts a call into the queue.
    pub(super) fn ask(&self, job: Job) -> Result<(), Trouble> {
        let pushed = self.queue.lock().push(job);
        pushed.map_err(|refused| Trouble::lost(refused.why))?;
        // The last to fall asleep: a lone caller always meets the same, warm connection.
        self.wake.notify_last();
        Ok(())
    }

    /// Wakes a lane for those who waited for a slot that is free by now.
    pub(super) fn go_on(&self) {
        if self.queue.lock().len() > 0 {
            self.wake.notify_last();
        }
    }

    /// Runs a statement by itself.
    pub(super) async fn run(
        &self,
        text: &str,
        parameters: Parameters,
    ) -> Result<Vec<Row>, Trouble> {
        let (reply, answer) = oneshot::channel();
        if let Some(why) = self.queue.lock().refusal() {
            return Err(Trouble::lost(why));
        }
        self.errands.lock().push_back(Errand {
            text: text.to_owned(),
            parameters,
            deadline: self.deadline(),
            reply,
        });
        self.wake.notify_last();
        let lost = |_| Trouble::lost("the store was closed");
        answer.await.map_err(lost)?
    }

    /// What a lane does next, if there is something.
    pub(super) fn next(&self) -> Option<Work> {
        if !self.is_on_errand.load(Ordering::Acquire)
            && let Some(errand) = self.errands.lock().pop_front()
        {
            self.is_on_errand.store(true, Ordering::Release);
            return Some(Work::Errand(errand));
        }
        self.queue.lock().take().map(Work::Batch)
    }

    /// Lets the next errand begin.
    pub(super) fn end_errand(&self) {
        self.is_on_errand.store(false, Ordering::Release);
        if !self.errands.lock().is_empty() {
            self.wake.notify_last();
        }
    }

    /// Takes note that a lane has a connection.
    pub(super) fn lane_up(&self) {
        if self.lanes.fetch_add(1, Ordering::AcqRel) == 0 {
            self.queue.lock().accept();
        }
    }

    /// Takes note that a lane has lost its connection.
    pub(super) fn lane_down(&self) {
        self.lanes.fetch_sub(1, Ordering::AcqRel);
    }

    /// Sends everybody away if no lane has a connection: a caller that is told at once can say so,
    /// and nothing piles up.
    pub(super) fn unreachable(&self, why: &str) {
        if self.lanes.load(Ordering::Acquire) == 0 {
            self.send_away(why);
        }
    }

    /// Answers all who wait with an error, and takes nobody in any more.
    pub(super) fn end(&self) {
        self.is_closing.store(true, Ordering::Release);
        let jobs = self.queue.lock().close();
        self.dismiss(jobs, "the store is closed");
        self.wake.notify_waiters();
        self.guests.close();
    }

    /// Answers all who wait with an error, and takes nobody in for now.
    fn send_away(&self, why: &str) {
        let jobs = self.queue.lock().refuse(why);
        self.dismiss(jobs, why);
    }

    fn dismiss(&self, jobs: Vec<Job>, why: &str) {
        let trouble = Trouble::lost(why);
        for job in jobs {
            job.answer(Err(trouble.clone()));
        }
        for errand in self.errands.lock().drain(..) {
            // A caller that no longer waits is no error.
            let _ = errand.reply.send(Err(trouble.clone()));
        }
    }

    /// Answers those who have waited for too long.
    pub(super) fn reap(&self) {
        let now = self.reckoning.stopwatch();
        let overdue = self.queue.lock().overdue(now);
        for job in overdue {
            job.answer(Err(Trouble::lost("no connection was free in time")));
        }
        let mut errands = self.errands.lock();
        while errands.front().is_some_and(|it| it.deadline <= now) {
            let errand = errands.pop_front();
            let trouble = Trouble::lost("no connection was free in time");
            let _ = errand.map(|it| it.reply.send(Err(trouble)));
        }
    }

    /// Hints at slots that changed: here, and to other nodes those where somebody may wait.
    pub(super) fn changed(&self, slots: &[SlotId], is_end_of_claim: impl Fn(SlotId) -> bool) {
        self.changes.hint(slots.iter().copied());
        let mut outgoing = self.outgoing.lock();
        let before = outgoing.len();
        let room = Self::OUTGOING_MAX.saturating_sub(before);
        let ends = slots.iter().copied().filter(|slot| is_end_of_claim(*slot));
        outgoing.extend(ends.take(room));
        if outgoing.len() > before {
            self.has_outgoing.notify_one();
        }
    }

    /// What an acknowledged write survives, as far as was last found out.
    pub(super) fn durability(&self) -> Durability {
        self.class.get()
    }

    /// Takes note of what was found out about the server, and tells of a change.
    pub(super) fn found(&self, found: Found) {
        let found = self.home.lock().found(found);
        let class = found.class();
        self.doubts.wait(class == Durability::D3);
        self.class.change(class, SERVER);
    }

    /// Whether this is a server of the cluster that the store was opened on. A failover within it
    /// is told of.
    pub(super) fn is_home(&self, about: &About) -> Result<(), String> {
        let met = self.home.lock().meet(about)?;
        if let Some(Failover { before, now }) = met {
            tracing::warn!(
                before,
                now,
                durability = %self.durability(),
                "PostgreSQL failed over; below D3 the last writes before it may be lost"
            );
        }
        Ok(())
    }

    /// Begins to close.
    pub(super) fn close(&self) {
        self.closing.notify_one();
    }
}

/// Lets a call wait before it is sent again, and wakes a lane then.
pub(super) fn later(hub: &Arc<Hub>, job: Job, wait: Duration) {
    let hub = Arc::clone(hub);
    let own = hub.own.clone();
    // Not on the caller's runtime, which may end before that.
    own.spawn(async move {
        tokio::time::sleep(wait).await;
        let Some(job) = in_time(&hub, job) else {
            return;
        };
        let put = hub.queue.lock().again(job);
        match put {
            Ok(()) => hub.wake.notify_last(),
            Err(refused) => refused.answer(),
        }
    });
}

/// Gives a call back, unless its time is up: then it is answered, and not sent again behind its
/// caller's back.
pub(super) fn in_time(hub: &Hub, job: Job) -> Option<Job> {
    if hub.reckoning.stopwatch() < job.deadline {
        return Some(job);
    }
    hub.queue.lock().release(job.kind, [job.slot]);
    hub.go_on();
    job.answer(Err(Trouble::lost("somebody else holds the record")));
    None
}

impl std::fmt::Debug for Errand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Errand").finish_non_exhaustive()
    }
}
