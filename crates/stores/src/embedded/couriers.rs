//! Couriers: tasks that hand answers out where the callers are.
//!
//! Whoever wakes a task of another thread pays for it: a lock, and as often as not a system call,
//! for every single one. The writer answers hundreds at a time, so it leaves the answers for one
//! runtime in a bag, and wakes the one task there that hands them out. What wakes a task in its own
//! thread is next to nothing.

use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::{Poll, Waker};

use onceward::store::Error;
use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::sync::oneshot;

use super::writer::Answer;
use crate::sync::Mutex;

/// Where an answer is waited for.
pub(super) type Reply = oneshot::Sender<Result<Answer, Error>>;

/// The couriers of all runtimes from which somebody asked, until the store is closed.
#[derive(Debug)]
pub(super) struct Couriers(Mutex<Option<Vec<Home>>>);

/// A runtime, and who hands out there.
#[derive(Debug)]
struct Home {
    runtime: Id,
    courier: Arc<Courier>,
}

/// What is to be handed out in one runtime.
#[derive(Default)]
pub(super) struct Courier(Mutex<Bag>);

#[derive(Default)]
struct Bag {
    answers: Vec<(Reply, Answer)>,
    /// Wakes the task that hands out.
    task: Option<Waker>,
    /// There is no such task any more.
    is_over: bool,
}

/// The task's hold on its courier: when it is gone, nobody is left who would hand out.
struct Round(Arc<Courier>);

// === impl Couriers ===

impl Couriers {
    /// The courier of the current runtime, if one is worth while there.
    ///
    /// Only a runtime with threads of its own has one. Others go on only while somebody drives
    /// them, and that may be the very caller who waits for its answer some other way.
    ///
    /// Nobody waits for the task: it ends with its runtime or with the store, whichever is first,
    /// and hands out what is left then. To wait for it could be to wait for one's own runtime.
    pub(super) fn here(&self) -> Option<Arc<Courier>> {
        let runtime = Handle::try_current().ok()?;
        if runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
            return None;
        }
        let id = runtime.id();
        let mut homes = self.0.lock();
        let homes = homes.as_mut()?;
        if let Some(home) = homes.iter().find(|home| home.runtime == id) {
            return Some(Arc::clone(&home.courier));
        }
        // Runtimes may come and go.
        homes.retain(|home| !home.courier.0.lock().is_over);
        let courier = Arc::<Courier>::default();
        runtime.spawn(Round(Arc::clone(&courier)).run());
        homes.push(Home {
            runtime: id,
            courier: Arc::clone(&courier),
        });
        Some(courier)
    }

    /// Ends all of them. What is still asked for is answered directly.
    pub(super) fn end(&self) {
        let homes = self.0.lock().take();
        for home in homes.into_iter().flatten() {
            home.courier.end();
        }
    }
}

impl Drop for Couriers {
    /// A writer that died has not ended them.
    fn drop(&mut self) {
        self.end();
    }
}

impl Default for Couriers {
    fn default() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }
}

// === impl Courier ===

impl Courier {
    /// Leaves an answer, to be handed out after the next [`Courier::go`].
    pub(super) fn leave(&self, reply: Reply, answer: Answer) {
        let mut bag = self.0.lock();
        if bag.is_over {
            drop(bag);
            // Whoever asked may be gone.
            let _ = reply.send(Ok(answer));
            return;
        }
        bag.answers.push((reply, answer));
    }

    /// Has everything handed out that was left.
    pub(super) fn go(&self) {
        let mut bag = self.0.lock();
        let task = match bag.answers.is_empty() {
            true => None,
            false => bag.task.take(),
        };
        drop(bag);
        if let Some(task) = task {
            task.wake();
        }
    }

    fn end(&self) {
        let mut bag = self.0.lock();
        bag.is_over = true;
        let (answers, task) = (mem::take(&mut bag.answers), bag.task.take());
        drop(bag);
        hand_out(answers);
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl fmt::Debug for Courier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Courier").finish_non_exhaustive()
    }
}

// === impl Round ===

impl Round {
    async fn run(self) {
        loop {
            let left = poll_fn(|cx| {
                let mut bag = self.0.0.lock();
                match (bag.answers.is_empty(), bag.is_over) {
                    (false, _) => Poll::Ready(Some(mem::take(&mut bag.answers))),
                    (true, true) => Poll::Ready(None),
                    (true, false) => {
                        bag.task = Some(cx.waker().clone());
                        Poll::Pending
                    }
                }
            });
            match left.await {
                Some(answers) => hand_out(answers),
                None => return,
            }
        }
    }
}

impl Drop for Round {
    /// A runtime that ends drops its tasks, and those who wait may be elsewhere.
    fn drop(&mut self) {
        self.0.end();
    }
}

fn hand_out(answers: Vec<(Reply, Answer)>) {
    for (reply, answer) in answers {
        // Whoever asked may be gone.
        let _ = reply.send(Ok(answer));
    }
}

#[cfg(test)]
mod tests {
    use onceward::Timestamp;
    use tokio::runtime::{Builder, Runtime};

    use super::super::recent::Ticket;
    use super::super::writer::Became;
    use super::*;

    fn runtime() -> Runtime {
        Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap()
    }

    fn answer(n: u64) -> Answer {
        Answer {
            now: Timestamp::from_micros(n),
            ticket: Ticket::VOID,
            became: Became::Done,
        }
    }

    #[test]
    fn everything_that_was_left_is_handed_out() {
        let (couriers, runtime) = (Couriers::default(), runtime());
        let courier = runtime.block_on(async { couriers.here() }).unwrap();
        let replies: Vec<_> = (0..100).map(|_| oneshot::channel()).collect();
        let (senders, receivers): (Vec<_>, Vec<_>) = replies.into_iter().unzip();
        for (n, reply) in (0..).zip(senders) {
            courier.leave(reply, answer(n));
        }
        courier.go();
        for (n, reply) in (0..).zip(receivers) {
            let answered = reply.blocking_recv().unwrap().unwrap();
            assert_eq!(answered.now, Timestamp::from_micros(n));
        }
    }

    #[test]
    fn there_is_one_courier_to_a_runtime_with_threads_of_its_own() {
        let (couriers, one, other) = (Couriers::default(), runtime(), runtime());
        let first = one.block_on(async { couriers.here() }).unwrap();
        let again = one.block_on(async { couriers.here() }).unwrap();
        let elsewhere = other.block_on(async { couriers.here() }).unwrap();
        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &elsewhere));
        let lone = Builder::new_current_thread().build().unwrap();
        assert!(lone.block_on(async { couriers.here() }).is_none());
        assert!(couriers.here().is_none());
    }

    #[test]
    fn who_waits_elsewhere_is_answered_when_the_runtime_ends() {
        let (couriers, runtime) = (Couriers::default(), runtime());
        let courier = runtime.block_on(async { couriers.here() }).unwrap();
        let (early, before) = oneshot::channel();
        courier.leave(early, answer(1));
        drop(runtime);
        let (late, after) = oneshot::channel();
        courier.leave(late, answer(2));
        for (reply, n) in [(before, 1), (after, 2)] {
            let answered = reply.blocking_recv().unwrap().unwrap();
            assert_eq!(answered.now, Timestamp::from_micros(n));
        }
    }

    #[test]
    fn nothing_is_left_undelivered_by_a_store_that_closes() {
        let (couriers, runtime) = (Couriers::default(), runtime());
        let courier = runtime.block_on(async { couriers.here() }).unwrap();
        let (reply, answered) = oneshot::channel();
        courier.leave(reply, answer(1));
        couriers.end();
        assert!(answered.blocking_recv().unwrap().is_ok());
        assert!(runtime.block_on(async { couriers.here() }).is_none());
    }
}
