//! Patience: how long a caller waits for others.

use std::pin::Pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use onceward::OnBusy;
use tokio::time::Sleep;

/// How long a caller waits for others in all.
pub(super) struct Patience {
    rule: OnBusy,
    timer: Option<Pin<Box<Sleep>>>,
}

// === impl Patience ===

impl Patience {
    pub(super) fn new(rule: OnBusy) -> Self {
        Self { rule, timer: None }
    }

    /// Waits for news, `pause` at the most. Returns whether patience is left.
    pub(super) async fn wait(&mut self, pause: Duration, told: impl Future<Output = ()>) -> bool {
        let jittered = pause / 2 + pause.mul_f64(fastrand::f64() / 2.0);
        let pause = Box::pin(tokio::time::sleep(jittered));
        self.for_either(pause, Box::pin(told)).await.is_some()
    }

    /// Waits for either; `None` once patience is at its end.
    pub(super) async fn for_either<A, B>(
        &mut self,
        one: impl Future<Output = A> + Unpin,
        two: impl Future<Output = B> + Unpin,
    ) -> Option<Either<A, B>> {
        let OnBusy::Wait(limit) = self.rule else {
            return None;
        };
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        match select(select(one, two), timer).await {
            Either::Left((Either::Left((one, _)), _)) => Some(Either::Left(one)),
            Either::Left((Either::Right((two, _)), _)) => Some(Either::Right(two)),
            Either::Right(_) => None,
        }
    }
}
