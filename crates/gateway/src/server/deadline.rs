//! Deadlines: how long something may take that is waited for.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// A timer that is made on the first wait and is kept for the next ones.
///
/// To make one costs a large allocation and a place among all the timers; to set one to a later
/// time is nearly free. So an end of the wait leaves it running, and the next wait moves it on.
#[derive(Default, Debug)]
pub(super) struct Deadline {
    timer: Option<Pin<Box<Sleep>>>,
    is_armed: bool,
}

// === impl Deadline ===

impl Deadline {
    /// Waits on; fails when more than `span` has passed since the first of these calls.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, span: Duration) -> Poll<io::Error> {
        if !self.is_armed {
            self.set(span);
            self.is_armed = true;
        }
        let timer = self.timer.as_mut().expect("set when it was armed");
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(io::ErrorKind::TimedOut.into())
    }

    /// Ends the wait: the next one begins anew.
    pub(super) fn disarm(&mut self) {
        self.is_armed = false;
    }

    /// Passes on what `result` is; while that is nothing, the time runs.
    pub(super) fn watch<R>(
        &mut self,
        cx: &mut Context<'_>,
        span: Duration,
        result: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if result.is_ready() {
            self.disarm();
            return result;
        }
        self.poll(cx, span).map(Err)
    }

    fn set(&mut self, span: Duration) {
        #[expect(clippy::disallowed_methods, reason = "tokio's timers run on its clock")]
        let at = Instant::now().checked_add(span);
        match (&mut self.timer, at) {
            (Some(timer), Some(at)) => timer.as_mut().reset(at),
            (timer, _) => *timer = Some(Box::pin(sleep(span))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::{advance, timeout};

    use super::*;

    const SPAN: Duration = Duration::from_secs(10);

    async fn is_over(deadline: &mut Deadline, span: Duration) -> bool {
        let polled = poll_fn(|cx| Poll::Ready(deadline.poll(cx, span)));
        polled.await.is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_has_its_span_and_not_more() {
        let mut deadline = Deadline::default();
        assert!(!is_over(&mut deadline, SPAN).await);
        advance(SPAN / 2).await;
        assert!(!is_over(&mut deadline, SPAN).await);
        let left = timeout(SPAN, poll_fn(|cx| deadline.poll(cx, SPAN)));
        assert_eq!(left.await.unwrap().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_wait_has_a_span_of_its_own_be_it_longer_or_shorter() {
        let mut deadline = Deadline::default();
        for span in [SPAN, SPAN * 3, SPAN / 2] {
            deadline.disarm();
            assert!(!is_over(&mut deadline, span).await);
            advance(span - Duration::from_secs(1)).await;
            assert!(!is_over(&mut deadline, span).await);
            advance(Duration::from_secs(2)).await;
            assert!(is_over(&mut deadline, span).await);
        }
    }
}
