//! Timers that serve again.
//!
//! Most calls are over long before their time is. To set a timer takes the lock of the runtime's
//! clockwork, and so does to drop it, while one that is set is put off by a single atomic. So what
//! was not needed to its end waits, in the thread of the task that used it, for the next call with the
//! same limit.

use std::cell::RefCell;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use std::{mem, thread};

use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::task;
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
            let mut sleep = take(runtime, limit)?;
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
        let (Some(runtime), Some(sleep)) = (self.runtime, self.sleep.take()) else {
            return;
        };
        // Elsewhere its runtime may be gone, and then it must not be polled.
        if !thread::panicking() && home() == Some(runtime) {
            put(runtime, self.limit, sleep);
        }
    }
}

/// The runtime whose task runs in this thread, if it has threads of its own: what others left in a
/// thread could outlive them for long.
fn home() -> Option<Id> {
    task::try_id()?;
    let runtime = Handle::try_current().ok()?;
    (runtime.runtime_flavor() == RuntimeFlavor::MultiThread).then(|| runtime.id())
}

/// Takes a timer that this thread keeps.
fn take(runtime: Id, limit: Duration) -> Option<Pin<Box<Sleep>>> {
    let of_another = SPARES.with_borrow_mut(|spares| {
        let is_another = spares.runtime.replace(runtime) != Some(runtime);
        is_another.then(|| mem::take(&mut spares.shelves))
    });
    // Only here: they may be the last that is left of their runtime.
    drop(of_another);
    SPARES.with_borrow_mut(|spares| {
        let mut shelves = spares.shelves.iter_mut();
        shelves.find(|shelf| shelf.limit == limit)?.sleeps.pop()
    })
}

/// Keeps a timer, unless its time is over.
fn put(runtime: Id, limit: Duration, mut sleep: Pin<Box<Sleep>>) {
    // It would keep the task that waited for it.
    let nobody = &mut Context::from_waker(Waker::noop());
    // A runtime that is ending may refuse.
    let polled = panic::catch_unwind(AssertUnwindSafe(|| {
        pin!(task::unconstrained(sleep.as_mut())).poll(nobody)
    }));
    if !matches!(polled, Ok(Poll::Pending)) {
        return;
    }
    // A thread that ends keeps nothing.
    let _ = SPARES.try_with(|spares| {
        if let Ok(mut spares) = spares.try_borrow_mut()
            && spares.runtime == Some(runtime)
            && let Some(sleeps) = spares.shelf(limit)
            && sleeps.len() < Spares::DEPTH
        {
            sleeps.push(sleep);
        }
    });
}

// === impl Spares ===

impl Spares {
    /// How many timers are kept of one limit, and of how many limits.
    const DEPTH: usize = 256;
    const SHELVES: usize = 4;

    /// The timers with this limit, if they are kept.
    fn shelf(&mut self, limit: Duration) -> Option<&mut Vec<Pin<Box<Sleep>>>> {
        let found = self.shelves.iter().position(|shelf| shelf.limit == limit);
        if found.is_none() && self.shelves.len() < Self::SHELVES {
            let sleeps = Vec::new();
            self.shelves.push(Shelf { limit, sleeps });
        }
        let shelf = match found {
            Some(at) => self.shelves.get_mut(at),
            None => self.shelves.last_mut(),
        };
        let shelf = shelf.filter(|shelf| shelf.limit == limit);
        shelf.map(|shelf| &mut shelf.sleeps)
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

    /// Runs `work` as the one task of a runtime, and returns that as well.
    fn run<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> (T, Runtime) {
        let runtime = runtime();
        let done = runtime.block_on(async { tokio::spawn(work).await.unwrap() });
        (done, runtime)
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
        run(async {
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
        run(async move {
            drop(begun(within).await);
            let mut timer = begun(within).await;
            poll_fn(|cx| timer.poll(cx)).await;
        });
    }

    #[test]
    fn a_timer_may_outlive_its_runtime_and_its_task() {
        let (timer, first) = run(begun(LONG));
        drop(first);
        drop(timer);
        let (timer, second) = run(begun(LONG));
        second.block_on(async { drop(timer) });
        second.block_on(async { drop(begun(LONG).await) });
        assert_eq!(kept(LONG), 0, "only tasks leave any");
    }

    #[test]
    fn who_waited_is_not_kept_by_a_timer_that_was_left() {
        struct Sleeper;

        impl Wake for Sleeper {
            fn wake(self: Arc<Self>) {}
        }

        run(async {
            let sleeper = Arc::new(Sleeper);
            let waker = Waker::from(sleeper.clone());
            let mut timer = Timer::new(LONG);
            assert!(timer.poll(&mut Context::from_waker(&waker)).is_pending());
            drop((timer, waker));
            assert_eq!((kept(LONG), Arc::strong_count(&sleeper)), (1, 1));
        });
    }
}
