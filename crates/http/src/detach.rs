//! Work that its caller waits for, and that goes on when the caller leaves.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use onceward::bugs::{Bug, seeded};
use tokio::runtime::Handle;

/// Work that moves into a task of its own when whoever waits for it goes away.
///
/// A server drops a handler's future when its caller hangs up, at any await. Spawning every
/// execution would prevent that at the price of two hops between tasks for each; here only those
/// pay it whose caller really left.
pub(crate) struct Detach<T: 'static> {
    work: Option<BoxFuture<'static, T>>,
}

// === impl Detach ===

impl<T> Detach<T> {
    pub(crate) fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self {
            work: Some(work.boxed()),
        }
    }
}

impl<T> Future for Detach<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let work = self
            .work
            .as_mut()
            .expect("work is not polled after its end");
        let done = ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(done)
    }
}

impl<T> Drop for Detach<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else {
            return;
        };
        if seeded(Bug::NotDetached) {
            return;
        }
        // Without a runtime the process ends: the claim's lease lapses, as in a crash.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(work.map(drop));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_that_is_waited_for_gives_its_result() {
        assert_eq!(Detach::new(async { 1 }).await, 1);
    }

    #[tokio::test]
    async fn work_goes_on_when_its_caller_leaves() {
        let (go, wait) = oneshot::channel::<()>();
        let (done, seen) = oneshot::channel();
        let mut work = Box::pin(Detach::new(async move {
            wait.await.unwrap();
            done.send("done").unwrap();
        }));
        assert!(futures_util::poll!(&mut work).is_pending());
        drop(work);
        go.send(()).unwrap();
        assert_eq!(seen.await.unwrap(), "done");
    }
}
