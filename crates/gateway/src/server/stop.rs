//! Stop: a word that is given once and ends whoever listens for it.
//!
//! Every connection listens all its life and is polled at every event, so listening must cost
//! nothing: a `CancellationToken` takes a lock that all connections share, here it is one load.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};

use pin_project_lite::pin_project;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// A word that is given once. Its clones are the same word.
#[derive(Clone, Default, Debug)]
pub(super) struct Stop(Arc<Shared>);

#[derive(Default, Debug)]
struct Shared {
    is_given: AtomicBool,
    notify: Notify,
}

/// Gives the word when it is dropped.
#[derive(Debug)]
pub(super) struct StopOnDrop(Stop);

pin_project! {
    /// Ready when the word is given.
    #[derive(Debug)]
    pub(super) struct Given<'a> {
        stop: &'a Stop,
        #[pin]
        notified: Notified<'a>,
        // Who is woken. A task's waker stays the same, so it is left with the word only once.
        waker: Option<Waker>,
    }
}

pin_project! {
    /// A future that ends with the word at the latest.
    pub(super) struct Until<'a, F> {
        #[pin]
        future: F,
        #[pin]
        given: Given<'a>,
    }
}

// === impl Stop ===

impl Stop {
    /// Gives the word.
    pub(super) fn give(&self) {
        // In this order, for whoever is woken looks at the flag.
        self.0.is_given.store(true, Ordering::Release);
        self.0.notify.notify_waiters();
    }

    /// Gives the word when what is returned is dropped.
    pub(super) fn on_drop(&self) -> StopOnDrop {
        StopOnDrop(self.clone())
    }

    /// Waits for the word.
    pub(super) fn given(&self) -> Given<'_> {
        Given {
            stop: self,
            notified: self.0.notify.notified(),
            waker: None,
        }
    }

    /// Runs `future` until the word is given: then the result is `None`, unless it is there.
    pub(super) fn until<F: Future>(&self, future: F) -> Until<'_, F> {
        Until {
            future,
            given: self.given(),
        }
    }

    /// Whether the word was given.
    pub(super) fn is_given(&self) -> bool {
        self.0.is_given.load(Ordering::Acquire)
    }
}

// === impl StopOnDrop ===

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.give();
    }
}

// === impl Given ===

impl Future for Given<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.stop.is_given() {
            return Poll::Ready(());
        }
        let is_registered = |waker: &Waker| waker.will_wake(cx.waker());
        if this.waker.as_ref().is_some_and(is_registered) {
            return Poll::Pending;
        }
        *this.waker = Some(cx.waker().clone());
        // A word that is given from here on wakes it, for it was made before that.
        this.notified.poll(cx)
    }
}

// === impl Until ===

impl<F: Future> Future for Until<'_, F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Some(output));
        }
        ready!(this.given.poll(cx));
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Woken {
        fn count(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn the_word_wakes_whoever_waits() {
        let (stop, woken) = (Stop::default(), Arc::new(Woken::default()));
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        let mut waiting = pin!(stop.until(pending::<()>()));
        for _ in 0..3 {
            assert!(waiting.as_mut().poll(&mut cx).is_pending());
        }
        stop.clone().give();
        assert_eq!(woken.count(), 1);
        assert_eq!(waiting.as_mut().poll(&mut cx), Poll::Ready(None));
    }

    #[test]
    fn the_last_waker_is_woken() {
        let (stop, first, second) = (Stop::default(), Arc::default(), Arc::default());
        let mut waiting = pin!(stop.given());
        for woken in [&first, &second] {
            let waker = Waker::from(Arc::<Woken>::clone(woken));
            let polled = waiting.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
        stop.give();
        assert_eq!((first.count(), second.count()), (0, 1));
    }

    #[test]
    fn a_word_between_making_and_polling_is_heard() {
        let stop = Stop::default();
        let mut before = pin!(stop.given());
        drop(stop.on_drop());
        let mut after = pin!(stop.given());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(before.as_mut().poll(&mut cx).is_ready());
        assert!(after.as_mut().poll(&mut cx).is_ready());
    }

    #[tokio::test]
    async fn a_result_that_is_there_counts_more_than_the_word() {
        let stop = Stop::default();
        stop.give();
        assert_eq!(stop.until(ready(7)).await, Some(7));
        assert_eq!(stop.until(pending::<u8>()).await, None);
    }
}
