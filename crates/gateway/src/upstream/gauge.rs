//! Gauges: what really happened on a connection, and who is to be woken when more happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// What happened on the wire of one connection, shared between its socket and its user.
#[derive(Default, Debug)]
pub(super) struct Gauge {
    /// Bytes that the kernel took.
    written: AtomicU64,
    /// Whether something was written, or tried to be, since everything was flushed.
    unflushed: AtomicBool,
    /// Whether the next read asks the kernel first.
    look: AtomicBool,
    /// `LOUD`, `QUIET` or `MISSED`.
    wakes: AtomicU8,
    /// Who uses the connection now.
    user: AtomicWaker,
}

/// Polls a connection on behalf of its user.
///
/// A connection has several halves that talk to each other by waking. Whoever drives them all in
/// one poll needs none of these wake-ups, so they are held back while the poll lasts and only
/// pass when it ends without a result. A connection at rest keeps no user awake, nor alive.
#[derive(Debug)]
pub(super) struct Gate {
    gauge: Arc<Gauge>,
    waker: Waker,
}

/// Wake-ups go to the user.
const LOUD: u8 = 0;
/// The user is polling: wake-ups are noted.
const QUIET: u8 = 1;
/// One was noted.
const MISSED: u8 = 2;

// === impl Gauge ===

impl Gauge {
    /// How many bytes the kernel took so far.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Whether everything that was given to the connection reached the kernel.
    pub(super) fn is_flushed(&self) -> bool {
        !self.unflushed.load(Ordering::Relaxed)
    }

    /// Makes the next read ask the kernel, whatever the runtime believes about readiness.
    pub(super) fn look_closely(&self) {
        self.look.store(true, Ordering::Relaxed);
    }

    /// Whether this read is the one that asks the kernel. Says so once.
    pub(super) fn takes_look(&self) -> bool {
        self.look.load(Ordering::Relaxed) && self.look.swap(false, Ordering::Relaxed)
    }

    /// Whether the close look was taken.
    pub(super) fn has_looked(&self) -> bool {
        !self.look.load(Ordering::Relaxed)
    }

    /// Notes that a write begins.
    pub(super) fn writing(&self) {
        self.unflushed.store(true, Ordering::Relaxed);
    }

    /// Notes that the kernel took bytes.
    pub(super) fn wrote(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Notes that nothing waits to be written.
    pub(super) fn flushed(&self) {
        self.unflushed.store(false, Ordering::Relaxed);
    }
}

impl Wake for Gauge {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted = self
            .wakes
            .compare_exchange(QUIET, MISSED, Ordering::AcqRel, Ordering::Acquire);
        match noted {
            Ok(_) | Err(MISSED) => {}
            Err(_) => self.user.wake(),
        }
    }
}

// === impl Gate ===

impl Gate {
    pub(super) fn new(gauge: Arc<Gauge>) -> Self {
        let waker = Waker::from(Arc::clone(&gauge));
        Self { gauge, waker }
    }

    pub(super) fn gauge(&self) -> &Arc<Gauge> {
        &self.gauge
    }

    /// Polls with wake-ups held back until the end, for the user that `cx` belongs to.
    pub(super) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.gauge.user.register(cx.waker());
        self.gauge.wakes.store(QUIET, Ordering::Release);
        let polled = poll(&mut Context::from_waker(&self.waker));
        let missed = self.gauge.wakes.swap(LOUD, Ordering::AcqRel) == MISSED;
        // With a result in hand the user polls again when it wants more.
        if missed && polled.is_pending() {
            cx.waker().wake_by_ref();
        }
        polled
    }

    /// Polls once for nobody: afterwards no user is kept awake, nor alive.
    pub(super) fn poll_at_rest<T>(
        &self,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.poll(&mut Context::from_waker(Waker::noop()), poll)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn user() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (Arc::clone(&count), Waker::from(count))
    }

    #[test]
    fn a_wake_up_within_a_poll_passes_only_if_the_poll_has_no_result() {
        let gate = Gate::new(Arc::default());
        let (count, waker) = user();
        let mut cx = Context::from_waker(&waker);
        let ready = gate.poll(&mut cx, |cx| {
            cx.waker().wake_by_ref();
            Poll::Ready(())
        });
        assert!(ready.is_ready());
        assert_eq!(count.0.load(Ordering::Relaxed), 0);

        let pending: Poll<()> = gate.poll(&mut cx, |cx| {
            cx.waker().wake_by_ref();
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        assert!(pending.is_pending());
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_wake_up_after_a_poll_reaches_the_user_of_that_poll() {
        let gate = Gate::new(Arc::default());
        let (count, waker) = user();
        let mut kept = None;
        let _: Poll<()> = gate.poll(&mut Context::from_waker(&waker), |cx| {
            kept = Some(cx.waker().clone());
            Poll::Pending
        });
        kept.unwrap().wake();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_connection_at_rest_keeps_nobody_alive() {
        let gate = Gate::new(Arc::default());
        let (count, waker) = user();
        let _: Poll<()> = gate.poll(&mut Context::from_waker(&waker), |_| Poll::Pending);
        let _: Poll<()> = gate.poll_at_rest(|_| Poll::Pending);
        drop(waker);
        assert_eq!(Arc::strong_count(&count), 1);
    }
}
