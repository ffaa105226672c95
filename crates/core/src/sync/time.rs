//! Time that passes when a test says so.
//!
//! Each execution has a time of its own, which begins with [`start`]. All tasks of an execution
//! run on one thread of the machine, so a value of that thread is enough.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A future that is ready when its time has come.
#[derive(Debug)]
pub struct Sleep {
    due: Duration,
    place: Option<u64>,
}

/// Ready when its time has passed since it was made.
pub(crate) struct Timer(Sleep);

/// The time was up first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("deadline has elapsed")]
pub struct Elapsed;

#[derive(Debug, Default)]
struct Timers {
    now: Duration,
    places: u64,
    waiting: BTreeMap<(Duration, u64), Waker>,
}

thread_local! {
    static TIMERS: RefCell<Timers> = RefCell::default();
}

/// Begins the time of an execution.
pub fn start() {
    TIMERS.take();
}

/// Lets `span` pass: everybody whose time has come is woken.
pub fn advance(span: Duration) {
    super::point();
    let due = TIMERS.with_borrow_mut(|timers| {
        timers.now = timers.now.saturating_add(span);
        let later = timers
            .waiting
            .split_off(&(timers.now.saturating_add(Duration::from_nanos(1)), 0));
        std::mem::replace(&mut timers.waiting, later)
    });
    due.into_values().for_each(Waker::wake);
}

/// Returns how long it is until the next timer is due; `None` if there is none.
pub fn until_next() -> Option<Duration> {
    TIMERS.with_borrow(|timers| {
        let ((due, _), _) = timers.waiting.first_key_value()?;
        Some(due.saturating_sub(timers.now))
    })
}

/// Waits for `span` to pass.
pub fn sleep(span: Duration) -> Sleep {
    let now = TIMERS.with_borrow(|timers| timers.now);
    Sleep {
        due: now.saturating_add(span),
        place: None,
    }
}

/// Waits for `future`, `limit` at the most.
pub async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut timer = sleep(limit);
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => Pin::new(&mut timer).poll(cx).map(|()| Err(Elapsed)),
    })
    .await
}

// === impl Timer ===

impl Timer {
    pub(crate) fn new(limit: Duration) -> Self {
        Self(sleep(limit))
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

// === impl Sleep ===

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        TIMERS.with_borrow_mut(|timers| {
            if timers.now >= self.due {
                return Poll::Ready(());
            }
            let place = *self.place.get_or_insert_with(|| {
                timers.places += 1;
                timers.places
            });
            timers.waiting.insert((self.due, place), cx.waker().clone());
            Poll::Pending
        })
    }
}

/// A timer that nobody waits for any more wakes nobody.
impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            // The thread's own values may be gone when what is left of an execution is dropped.
            let _ =
                TIMERS.try_with(|timers| timers.borrow_mut().waiting.remove(&(self.due, place)));
        }
    }
}
