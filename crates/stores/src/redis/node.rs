//! Nodes: one server each, what waits for it, and the lanes that it is sent on.
//!
//! A lane is a connection that takes what waits, sends all of it at once and hands out the
//! answers: a lone call pays one round trip, and many share one.
//!
//! The server does one thing at a time. So lanes take turns: while it works on the commands of
//! one, callers that another has answered come back with the next ones. For that a lane takes no
//! more than its share of all that there is to do, and few commands are held back for a moment
//! while many are under way: the server would not get to them any sooner.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::ask::Ask;
use super::link::Hub;
use super::settings::Host;
use super::trouble::Trouble;
use super::{connect::Session, lane};

/// A server, and what waits for it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: usize,
    /// Where it was when it was last connected to.
    pub(super) host: Mutex<Host>,
    queue: Mutex<Queue>,
    /// Wakes a lane: there is something to do.
    pub(super) wake: Notify,
    /// Lanes that have a connection.
    lanes: AtomicUsize,
    /// No keys are there any more.
    is_retired: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Ask>,
    /// How many commands were sent and are not answered.
    under_way: usize,
    /// The deadline of the latest command that was sent.
    sent: Duration,
    /// What waits is not held back any longer.
    is_overdue: bool,
    /// Why nobody is taken in for now.
    refusal: Option<Arc<str>>,
}

/// Commands that a lane has taken, until this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay<'a> {
    node: &'a Node,
    count: usize,
}

// === impl Node ===

impl Node {
    /// How many commands may wait for one server: more would only time out.
    const WAITING_MAX: usize = 65_536;

    pub(super) fn new(id: usize, host: Host) -> Self {
        Self {
            id,
            host: Mutex::new(host),
            queue: Mutex::default(),
            wake: Notify::new(),
            lanes: AtomicUsize::new(0),
            is_retired: AtomicBool::new(false),
        }
    }

    /// Puts a command into the queue.
    pub(super) fn push(&self, ask: Ask) {
        let mut queue = self.queue.lock();
        let refused = match &queue.refusal {
            Some(why) => Some(Arc::clone(why)),
            None if queue.waiting.len() >= Self::WAITING_MAX => {
                Some("too many calls wait for the server".into())
            }
            None => None,
        };
        match refused {
            Some(why) => {
                drop(queue);
                ask.answer(Err(Trouble::lost(why)));
            }
            None => {
                queue.waiting.push_back(ask);
                let is_ready = queue.is_ready();
                drop(queue);
                if is_ready {
                    // The last to fall asleep: a lone caller always meets the same, warm connection.
                    self.wake.notify_last();
                }
            }
        }
    }

    /// What a lane sends next, if anything is to be sent now. What nobody waits for is left out.
    pub(super) fn take(&self) -> (Vec<Ask>, UnderWay<'_>) {
        let mut queue = self.queue.lock();
        let batch = queue.take(self.lanes.load(Ordering::Acquire));
        let is_ready = queue.is_ready();
        drop(queue);
        if is_ready {
            self.wake.notify_one();
        }
        let count = batch.len();
        (batch, UnderWay { node: self, count })
    }

    /// Everything that waits, to be sent elsewhere.
    pub(super) fn drain(&self) -> VecDeque<Ask> {
        std::mem::take(&mut self.queue.lock().waiting)
    }

    /// Answers those who have waited for too long.
    pub(super) fn reap(&self, now: Duration) {
        let mut overdue = Vec::new();
        let mut queue = self.queue.lock();
        // Those that were sent before are not in the order of their deadlines.
        if queue.waiting.iter().any(|ask| ask.deadline <= now) {
            let waiting = std::mem::take(&mut queue.waiting);
            for ask in waiting {
                match ask.deadline <= now {
                    true => overdue.push(ask),
                    false => queue.waiting.push_back(ask),
                }
            }
        }
        queue.is_overdue = !queue.waiting.is_empty();
        if queue.is_overdue {
            self.wake.notify_last();
        }
        drop(queue);
        for ask in overdue {
            ask.answer(Err(Trouble::lost("the server was not free in time")));
        }
    }

    /// Takes note that a lane has a connection.
    pub(super) fn lane_up(&self, host: &Host) {
        host.clone_into(&mut self.host.lock());
        self.lanes.fetch_add(1, Ordering::AcqRel);
        self.queue.lock().refusal = None;
    }

    /// Takes note that a lane has lost its connection.
    pub(super) fn lane_down(&self) {
        self.lanes.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn is_up(&self) -> bool {
        self.lanes.load(Ordering::Acquire) > 0
    }

    /// Sends everybody away if no lane has a connection: a caller that is told at once can say
    /// so, and nothing piles up.
    pub(super) fn unreachable(&self, why: &str) {
        if !self.is_up() {
            self.refuse(why);
        }
    }

    /// Answers all who wait with an error, and takes nobody in until there is a connection.
    pub(super) fn refuse(&self, why: &str) {
        let mut queue = self.queue.lock();
        queue.refusal = Some(why.into());
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        for ask in waiting {
            ask.answer(Err(Trouble::lost(why)));
        }
    }

    /// Starts the lanes. The first gets a session that there is already.
    pub(super) fn start(self: &Arc<Self>, hub: &Arc<Hub>, mut first: Option<Session>) {
        for _ in 0..hub.connector.settings.connections {
            let (hub, node) = (Arc::clone(hub), Arc::clone(self));
            let lane = lane::run(Arc::clone(&hub), node, first.take());
            hub.spawn(lane);
        }
    }

    /// Ends the lanes once they have nothing to do.
    pub(super) fn retire(&self) {
        self.is_retired.store(true, Ordering::Release);
        self.wake.notify_waiters();
    }

    /// Takes a server back into service. Returns whether it has to be started.
    pub(super) fn revive(&self) -> bool {
        self.is_retired.swap(false, Ordering::AcqRel)
    }

    pub(super) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Acquire)
    }
}

// === impl Queue ===

impl Queue {
    /// How many commands are sent at once at the most: the first of them wait for the last.
    const BATCH_MAX: usize = 256;

    /// As many are sent at once even if that leaves nothing for another lane.
    const SHARE_MIN: usize = 8;

    /// How much later than the last command that was sent one may come and be held back.
    const HOLD: Duration = Duration::from_millis(1);

    /// Whether what waits is to be sent now. If much is under way and little waits, more will come
    /// before the server has got to it.
    fn is_ready(&self) -> bool {
        match self.waiting.back() {
            None => false,
            Some(latest) => {
                self.is_overdue
                    || self.under_way <= 2 * self.waiting.len()
                    || latest.deadline.saturating_sub(self.sent) > Self::HOLD
            }
        }
    }

    /// What one of so many lanes sends next.
    fn take(&mut self, lanes: usize) -> Vec<Ask> {
        if !self.is_ready() {
            return Vec::new();
        }
        let share = (self.waiting.len() + self.under_way).div_ceil(lanes.clamp(1, 2));
        let share = share.clamp(Self::SHARE_MIN, Self::BATCH_MAX);
        let count = self.waiting.len().min(share);
        let taken = self.waiting.drain(..count);
        let batch: Vec<_> = taken.filter(|ask| !ask.is_forsaken()).collect();
        self.under_way += batch.len();
        self.is_overdue = false;
        if let Some(latest) = batch.last() {
            self.sent = self.sent.max(latest.deadline);
        }
        batch
    }
}

// === impl UnderWay ===

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.node.queue.lock().under_way -= self.count;
    }
}

#[cfg(test)]
mod tests {
    use redis::cmd;

    use super::super::ask::{Nature, Target};
    use super::*;

    fn node() -> Node {
        let host = Host {
            name: "h".to_owned(),
            port: 1,
        };
        Node::new(0, host)
    }

    fn ask(seconds: u64) -> Ask {
        let mut ask = Ask::new(Target::Slot(0), cmd("PING"), Nature::Read);
        ask.deadline = Duration::from_secs(seconds);
        ask
    }

    #[test]
    fn whoever_waits_too_long_is_told_whatever_the_order() {
        let node = node();
        let (mut late, mut early) = (ask(9), ask(3));
        let (mut later, mut told) = (late.expect(), early.expect());
        node.push(late);
        node.push(early);
        node.reap(Duration::from_secs(5));
        assert!(told.try_recv().unwrap().is_err());
        assert!(later.try_recv().is_err());
        assert_eq!(node.take().0.len(), 1);
    }

    /// Lets so many callers ask for something at this time.
    fn push(node: &Node, count: usize, seconds: u64) -> Vec<impl Sized> {
        let asks = (0..count).map(|_| ask(seconds));
        let pushed = asks.map(|mut ask| {
            let answer = ask.expect();
            node.push(ask);
            answer
        });
        pushed.collect()
    }

    #[test]
    fn two_lanes_share_what_there_is_to_do() {
        let node = node();
        let host = node.host.lock().clone();
        node.lane_up(&host);
        node.lane_up(&host);
        let _callers = push(&node, 64, 9);
        let (first, _under_way) = node.take();
        let (second, _too) = node.take();
        assert_eq!((first.len(), second.len()), (32, 32));
    }

    #[test]
    fn few_commands_wait_for_more_while_many_are_under_way() {
        let node = node();
        let _many = push(&node, 64, 9);
        let (_, under_way) = node.take();
        let _few = push(&node, 3, 9);
        assert_eq!(node.take().0.len(), 0);
        drop(under_way);
        assert_eq!(node.take().0.len(), 3);
    }

    #[test]
    fn nobody_is_held_back_for_long() {
        let node = node();
        let _many = push(&node, 64, 9);
        let (_, _under_way) = node.take();
        let _few = push(&node, 3, 9);
        assert_eq!(node.take().0.len(), 0);
        node.reap(Duration::from_secs(1));
        assert_eq!(node.take().0.len(), 3);
        let _late = push(&node, 1, 10);
        assert_eq!(node.take().0.len(), 1);
    }

    #[test]
    fn nobody_is_taken_in_while_the_server_is_away() {
        let node = node();
        let (mut first, mut second) = (ask(9), ask(9));
        let (mut one, mut two) = (first.expect(), second.expect());
        node.push(first);
        node.unreachable("it is away");
        node.push(second);
        assert!(one.try_recv().unwrap().is_err());
        assert!(two.try_recv().unwrap().is_err());
        let host = node.host.lock().clone();
        node.lane_up(&host);
        node.push(ask(9));
        assert_eq!(node.drain().len(), 1);
    }
}
