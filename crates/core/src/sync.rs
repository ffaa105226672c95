//! What threads and tasks share and wait for, named in one place.
//!
//! An ordinary build takes it from the standard library, `parking_lot` and tokio. `scripts/schedules`
//! builds the same code on other ground: with `--cfg onceward_shuttle` a scheduler chooses which
//! task goes on before every lock, atomic and hand-over of ours, and with `--cfg onceward_loom`
//! every order is tried in which atomics may be seen. Both are `cfg`s of their own and no features, so that a build with
//! all features stays an ordinary one.

#[cfg(any(onceward_shuttle, onceward_loom))]
mod doors;
#[cfg(onceward_shuttle)]
mod scheduled;
#[cfg(onceward_shuttle)]
pub mod time;
#[cfg(not(onceward_shuttle))]
mod timer;

#[cfg(any(onceward_shuttle, onceward_loom))]
pub use doors::{Fences, Waiting, waiting};

#[cfg(onceward_shuttle)]
pub use scheduled::{
    AsyncMutex, Condvar, JoinHandle, Mutex, MutexGuard, Notify, TaskTracker, atomic, broadcast,
    has_runtime, point, spawn,
};

#[cfg(onceward_loom)]
pub(crate) use loom::sync::atomic;
#[cfg(not(any(onceward_shuttle, onceward_loom)))]
pub(crate) use std::sync::atomic;

#[cfg(onceward_shuttle)]
pub(crate) use time::Timer;
#[cfg(not(onceward_shuttle))]
pub(crate) use timer::Timer;

pub(crate) use tokio::sync::OnceCell;

#[cfg(not(onceward_shuttle))]
pub(crate) use ordinary::{
    AsyncMutex, JoinHandle, Mutex, Notify, TaskTracker, broadcast, has_runtime, spawn, time,
};

#[cfg(not(onceward_shuttle))]
mod ordinary {
    pub(crate) use parking_lot::Mutex;
    pub(crate) use tokio::sync::{Mutex as AsyncMutex, Notify, broadcast};
    pub(crate) use tokio::task::JoinHandle;
    pub(crate) use tokio::{spawn, time};
    pub(crate) use tokio_util::task::TaskTracker;

    /// Whether there is a runtime that tasks can be spawned in.
    pub(crate) fn has_runtime() -> bool {
        tokio::runtime::Handle::try_current().is_ok()
    }
}

/// The shard that is nearest to this thread: threads that use different ones do not wait for each
/// other. Where schedules are chosen it is the same for all, so that they meet.
pub(crate) fn nearest() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};

    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NEAREST: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    if cfg!(onceward_shuttle) {
        return 0;
    }
    // A thread that ends has lost its number.
    NEAREST.try_with(|nearest| *nearest).unwrap_or_default()
}

/// How many shards something has that threads share: few where schedules are chosen, so that they
/// meet.
pub(crate) const fn shards(count: usize) -> usize {
    if cfg!(onceward_shuttle) { 2 } else { count }
}
