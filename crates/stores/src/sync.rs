//! What threads share and wait for, named in one place.
//!
//! As in the engine, `--cfg onceward_shuttle` puts the same code on ground where a scheduler
//! chooses who goes on before every lock, atomic and hand-over of ours; `scripts/schedules` builds it so.

use tokio::sync::mpsc;

#[cfg(onceward_shuttle)]
pub(crate) use onceward::sync::{Condvar, Mutex, atomic};
#[cfg(not(onceward_shuttle))]
pub(crate) use parking_lot::{Condvar, Mutex, RwLock};
#[cfg(onceward_shuttle)]
pub(crate) use scheduled::{RwLock, thread};
#[cfg(not(onceward_shuttle))]
pub(crate) use std::{sync::atomic, thread};

/// Waits for the next message; `None` is the end of them.
pub(crate) fn recv<T>(messages: &mut mpsc::Receiver<T>) -> Option<T> {
    #[cfg(onceward_shuttle)]
    return shuttle::future::block_on(messages.recv());
    #[cfg(not(onceward_shuttle))]
    messages.blocking_recv()
}

#[cfg(onceward_shuttle)]
mod scheduled {
    use std::fmt;
    use std::sync::PoisonError;

    use shuttle::sync::{RwLockReadGuard, RwLockWriteGuard};

    /// A lock that no panic poisons.
    pub(crate) struct RwLock<T>(shuttle::sync::RwLock<T>);

    /// Threads that a scheduler chooses from.
    pub(crate) mod thread {
        use std::time::Duration;

        pub(crate) use shuttle::thread::{Builder, JoinHandle, yield_now};

        /// Lets others go on: the time may be up whenever they have.
        pub(crate) fn park_timeout(_: Duration) {
            yield_now();
        }
    }

    // === impl RwLock ===

    impl<T> RwLock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::RwLock::new(value))
        }

        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// Does not look inside, which would be a step.
    impl<T> fmt::Debug for RwLock<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("RwLock").finish_non_exhaustive()
        }
    }
}
