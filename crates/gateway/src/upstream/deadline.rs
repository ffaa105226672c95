//! Deadlines: when a request has had its time.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// When a request has had its time, counted from its first wait.
///
/// A timer is large, and setting one costs more than most waits, so a connection keeps the timer
/// of its last request for the next one: to set it later is nearly free.
#[derive(Debug)]
pub(super) struct Deadline {
    within: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

/// A timer that is not in use.
#[derive(Default, Debug)]
pub(super) struct Spare(Option<Pin<Box<Sleep>>>);

// === impl Deadline ===

impl Deadline {
    pub(super) fn new(within: Duration) -> Self {
        Self {
            within,
            timer: None,
        }
    }

    pub(super) fn within(&self) -> Duration {
        self.within
    }

    /// Ready when the time is over. The first call sets the timer, for which `spare` is used.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, spare: &mut Spare) -> Poll<()> {
        let timer = match &mut self.timer {
            Some(timer) => timer,
            none => none.insert(spare.take(self.within)),
        };
        timer.as_mut().poll(cx)
    }

    /// Leaves the timer to whoever comes next.
    pub(super) fn spare(self, spare: &mut Spare) {
        if let Some(mut timer) = self.timer {
            // It would keep the task that waited for it, for as long as the connection rests.
            let nobody = &mut Context::from_waker(Waker::noop());
            let _ = timer.as_mut().poll(nobody);
            spare.0 = Some(timer);
        }
    }
}

// === impl Spare ===

impl Spare {
    fn take(&mut self, within: Duration) -> Pin<Box<Sleep>> {
        match self.0.take() {
            Some(mut timer) => {
                #[expect(clippy::disallowed_methods, reason = "tokio's timers run on its clock")]
                timer.as_mut().reset(Instant::now() + within);
                timer
            }
            None => Box::pin(sleep(within)),
        }
    }
}
