//! The same names where a scheduler chooses who goes on.
//!
//! Locks and atomics are shuttle's. Tokio's own channels stay as they are: they know no runtime,
//! only wakers, and what they do inside is not what is tried here. Each call of theirs is one step,
//! before which the scheduler has a say.

use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio_util::task::task_tracker::TaskTrackerToken;

pub use shuttle::future::{JoinHandle, spawn};
pub use shuttle::sync::atomic;
pub use tokio::sync::broadcast;

/// A lock that no panic poisons.
#[derive(Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

/// The right to what a [`Mutex`] keeps.
#[derive(Debug)]
pub struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

/// Wakes a thread that waits for what a [`Mutex`] keeps.
#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

/// A lock that is held across waiting.
#[derive(Debug)]
pub struct AsyncMutex<T>(tokio::sync::Mutex<T>);

/// Wakes one task.
#[derive(Debug, Default)]
pub struct Notify(tokio::sync::Notify);

/// Counts the tasks that it spawned.
#[derive(Debug, Default)]
pub struct TaskTracker(tokio_util::task::TaskTracker);

const HELD: &str = "the lock is given up only while its holder waits";

/// Lets the scheduler choose who goes on.
pub fn point() {
    shuttle::thread::sleep(Duration::ZERO);
}

/// Whether there is a runtime that tasks can be spawned in.
pub fn has_runtime() -> bool {
    true
}

// === impl Mutex ===

impl<T> Mutex<T> {
    /// Returns a lock around `value`.
    pub fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Does not look inside, which would be a step.
impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

// === impl MutexGuard ===

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect(HELD)
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect(HELD)
    }
}

// === impl Condvar ===

impl Condvar {
    /// Returns one that nobody waits for.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes one thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Waits while `condition` holds.
    pub fn wait_while<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) {
        let held = guard.0.take().expect(HELD);
        let waited = self.0.wait_while(held, condition);
        guard.0 = Some(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits while `condition` holds, however long that takes: time does not pass by itself.
    pub fn wait_while_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
        _: Duration,
    ) {
        self.wait_while(guard, condition);
    }
}

// === impl AsyncMutex ===

impl<T> AsyncMutex<T> {
    /// Returns a lock around `value`.
    pub fn new(value: T) -> Self {
        Self(tokio::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub async fn lock(&self) -> tokio::sync::MutexGuard<'_, T> {
        point();
        self.0.lock().await
    }
}

// === impl Notify ===

impl Notify {
    /// Returns one that nobody waits for.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes the task that waits, or the next one.
    pub fn notify_one(&self) {
        point();
        self.0.notify_one();
    }

    /// Wakes all tasks that wait.
    pub fn notify_waiters(&self) {
        point();
        self.0.notify_waiters();
    }

    /// Waits to be woken, from now on: also before it is first polled.
    pub fn notified(&self) -> Notified<'_> {
        point();
        self.0.notified()
    }
}

// === impl TaskTracker ===

impl TaskTracker {
    /// Returns one without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Spawns `task` and counts it until it ends.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn(self.0.track_future(task))
    }

    /// Counts for a task until it is dropped.
    pub fn token(&self) -> TaskTrackerToken {
        point();
        self.0.token()
    }

    /// Lets [`TaskTracker::wait`] end.
    pub fn close(&self) {
        point();
        self.0.close();
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        point();
        self.0.is_closed()
    }

    /// Whether there are no tasks.
    pub fn is_empty(&self) -> bool {
        point();
        self.0.is_empty()
    }

    /// Waits until it is closed and there are no tasks.
    pub async fn wait(&self) {
        point();
        self.0.wait().await;
    }
}
