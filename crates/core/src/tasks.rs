//! Tasks: what the engine does on its own, besides what its callers wait for.

use std::future::Future;

use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::sync::{JoinHandle, TaskTracker, has_runtime, spawn};
#[cfg(any(test, feature = "testing"))]
use crate::testing::{Host, Hosted};

/// The tasks of one engine.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    /// Set in simulations, where a process can be held up and can die.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) host: Option<std::sync::Arc<dyn Host>>,
}

// === impl Tasks ===

impl Tasks {
    /// Spawns a task that a shutdown waits for.
    pub(crate) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        #[cfg(any(test, feature = "testing"))]
        if let Some(host) = &self.host {
            return self.tracker.spawn(Hosted::new(host.clone(), task));
        }
        self.tracker.spawn(task)
    }

    /// Spawns a task that goes on for as long as there is an engine, so nobody waits for it.
    pub(crate) fn spawn_apart<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        #[cfg(any(test, feature = "testing"))]
        if let Some(host) = &self.host {
            return spawn(Hosted::new(host.clone(), task));
        }
        spawn(task)
    }

    /// Spawns such a task if there is a runtime to run it, and drops it otherwise.
    pub(crate) fn try_spawn_apart(&self, task: impl Future<Output = ()> + Send + 'static) {
        if has_runtime() {
            drop(self.spawn_apart(task));
        }
    }

    /// Counts as a task while it lives.
    pub(crate) fn token(&self) -> TaskTrackerToken {
        self.tracker.token()
    }

    /// Says that no more arrivals are taken.
    pub(crate) fn close(&self) {
        self.tracker.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.tracker.is_closed()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tracker.is_empty()
    }

    /// Waits until no task is left that a shutdown waits for.
    pub(crate) async fn wait(&self) {
        self.tracker.wait().await;
    }
}
