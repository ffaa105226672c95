//! Timers that serve again.
//!
//! Most calls are over long before their time is. To set a timer takes the lock of the runtime's
//! clockwork, and so does to drop it, while one that is set is put off by a single atomic. So what
//! was not needed to its end waits, in the thread that used it, for the next call with the same
//! limit.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::time::{Instant, Sleep, sleep};

/// Ready when `limit` has passed since it was made.
#[derive(Debug)]
pub(crate) struct Timer {
    limit: Duration,
    /// The runtime whose threads keep it for the next call.
    runtime: Option<Id>,
    /// Gone when it is dropped. Boxed, because it is aligned to cache lines, and so would be every
    /// future around it.
    sleep: Option<Pin<Box<Sleep>>>,
}

/// The timers that a thread keeps, all of one runtime.
struct Spares {
    runtime: Option<Id>,
    shelves: Vec<Shelf>,
}

/// Timers with one limit: an earlier time than it was set to costs a timer as much as a new one.
struct Shelf {
    limit: Duration,
    sleeps: Vec<Pin<Box<Sleep>>>,
}

thread_local! {
    static SPARES: RefCell<Spares> = const {
        RefCell::new(Spares {
            runtime: None,
            shelves: Vec::new(),
        })
    };
}

// === impl Timer ===

impl Timer {
    pub(crate) fn new(limit: Duration) -> Self {
        let runtime = home();
        let spare = runtime.and_then(|runtime| {
            let mut sleep = SPARES.with_borrow_mut(|spares| spares.take(runtime, limit))?;
            #[expect(clippy::disallowed_methods, reason = "tokio's timers run on its clock")]
            let due = Instant::now().checked_add(limit)?;
            sleep.as_mut().reset(due);
            Some(sleep)
        });
        Self {
            limit,
            runtime,
            sleep: Some(spare.unwrap_or_else(|| Box::pin(sleep(limit)))),
        }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.sleep.as_mut();
        sleep.map_or(Poll::Pending, |sleep| sleep.as_mut().poll(cx))
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let (Some(runtime), Some(mut sleep)) = (self.runtime, self.sleep.take()) else {
            return;
        };
        // It would keep the task that waited for it.
        let nobody = &mut Context::from_waker(Waker::noop());
        if sleep.as_mut().poll(nobody).is_pending() {
            // A thread that ends keeps nothing.
            let _ = SPARES.try_with(|spares| {
                spares.borrow_mut().put(runtime, self.limit, sleep);
            });
        }
    }
}

/// The runtime of this thread, if it has threads of its own: what another one left in a thread
/// could outlive it for long.
fn home() -> Option<Id> {
    let runtime = Handle::try_current().ok()?;
    (runtime.runtime_flavor() == RuntimeFlavor::MultiThread).then(|| runtime.id())
}

// === impl Spares ===

impl Spares {
    /// How many timers are kept of one limit, and of how many limits.
    const DEPTH: usize = 256;
    const SHELVES: usize = 4;

    fn take(&mut self, runtime: Id, limit: Duration) -> Option<Pin<Box<Sleep>>> {
        if self.runtime != Some(runtime) {
            self.runtime = Some(runtime);
            self.shelves.clear();
        }
        let mut shelves = self.shelves.iter_mut();
        shelves.find(|shelf| shelf.limit == limit)?.sleeps.pop()
    }

    fn put(&mut self, runtime: Id, limit: Duration, sleep: Pin<Box<Sleep>>) {
        if self.runtime != Some(runtime) {
            return;
        }
        let found = self.shelves.iter().position(|shelf| shelf.limit == limit);
        if found.is_none() && self.shelves.len() < Self::SHELVES {
            let sleeps = Vec::new();
            self.shelves.push(Shelf { limit, sleeps });
        }
        let at = found.unwrap_or(self.shelves.len() - 1);
        let shelf = &mut self.shelves[at];
        if shelf.limit == limit && shelf.sleeps.len() < Self::DEPTH {
            shelf.sleeps.push(sleep);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::task::Wake;

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);
    const SHORT: Duration = Duration::from_millis(1);

    fn runtime() -> Runtime {
        let mut runtime = Builder::new_multi_thread();
        runtime.worker_threads(1).enable_time().build().unwrap()
    }

    fn kept(limit: Duration) -> usize {
        SPARES.with_borrow(|spares| {
            let shelves = spares.shelves.iter();
            let shelves = shelves.filter(|shelf| shelf.limit == limit);
            shelves.map(|shelf| shelf.sleeps.len()).sum()
        })
    }

    async fn begun(limit: Duration) -> Timer {
        let mut timer = Timer::new(limit);
        let first = poll_fn(|cx| Poll::Ready(timer.poll(cx))).await;
        assert!(first.is_pending());
        timer
    }

    #[test]
    fn what_was_not_needed_serves_again_and_is_ready_in_its_time() {
        runtime().block_on(async {
            let due = |timer: &Timer| timer.sleep.as_ref().unwrap().deadline();
            let first = begun(LONG).await;
            let before = due(&first);
            drop(first);
            assert_eq!(kept(LONG), 1);
            let again = begun(LONG).await;
            assert_eq!(kept(LONG), 0);
            assert!(due(&again) > before, "its time begins anew");
            for _ in 0..3 {
                let mut timer = Timer::new(SHORT);
                poll_fn(|cx| timer.poll(cx)).await;
                drop(timer);
                assert_eq!(kept(SHORT), 0, "it is over");
            }
        });
    }

    #[test]
    fn a_timer_that_was_put_off_is_ready_all_the_same() {
        let within = Duration::from_millis(20);
        runtime().block_on(async {
            drop(begun(within).await);
            let mut timer = begun(within).await;
            poll_fn(|cx| timer.poll(cx)).await;
        });
    }

    #[test]
    fn timers_of_a_runtime_that_is_gone_are_not_used() {
        runtime().block_on(async { drop(begun(LONG).await) });
        runtime().block_on(async {
            let _timer = begun(LONG).await;
            assert_eq!(kept(LONG), 0);
        });
    }

    #[test]
    fn who_waited_is_not_kept_by_a_timer_that_was_left() {
        struct Sleeper;

        impl Wake for Sleeper {
            fn wake(self: Arc<Self>) {}
        }

        let sleeper = Arc::new(Sleeper);
        runtime().block_on(async {
            let mut timer = Timer::new(LONG);
            let waker = Waker::from(sleeper.clone());
            assert!(timer.poll(&mut Context::from_waker(&waker)).is_pending());
            drop((timer, waker));
            assert_eq!((kept(LONG), Arc::strong_count(&sleeper)), (1, 1));
        });
    }
}
