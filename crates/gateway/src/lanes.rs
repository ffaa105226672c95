//! Lanes: threads that serve callers, each with a runtime of its own.
//!
//! A connection stays in its lane, and so does everything that is done for it: the connection to
//! the upstream, the timers, the work that goes on when the caller has left. Lanes wait for their
//! sockets side by side, where the workers of one runtime would take turns at it and wake each
//! other for every handful of work.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

/// Where connections are served: in lanes of their own, or in the runtime that is there already.
#[derive(Default, Debug)]
pub(crate) struct Lanes(Vec<Lane>);

#[derive(Debug)]
struct Lane {
    /// Taken only when the lane ends.
    runtime: Option<Runtime>,
    /// Shared by everything that is served in the lane, which thereby counts it.
    load: Arc<()>,
}

/// A place in a lane, for as long as it is held.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) handle: Handle,
    _load: Arc<()>,
}

// === impl Lanes ===

impl Lanes {
    /// Starts `count` lanes; with none, connections are served in the current runtime.
    pub(crate) fn start(count: usize) -> io::Result<Self> {
        let lanes = (0..count).map(|_| Lane::start());
        lanes.collect::<io::Result<_>>().map(Self)
    }

    /// Ends all lanes, and waits until nothing of theirs is left, `within` at the most.
    pub(crate) async fn end(mut self, within: Duration) {
        let ending: Vec<_> = self.0.iter_mut().filter_map(Lane::take).collect();
        if ending.is_empty() {
            return;
        }
        // Threads are waited for, which is not allowed where futures are polled.
        let ended = tokio::task::spawn_blocking(move || {
            for runtime in ending {
                runtime.shutdown_timeout(within);
            }
        });
        if ended.await.is_err() {
            tracing::error!("a lane could not be ended");
        }
    }

    /// A place in the lane with the fewest connections, or `None` if there are no lanes.
    pub(crate) fn place(&self) -> Option<Place> {
        let lane = self.0.iter().min_by_key(|lane| lane.connections())?;
        Some(Place {
            handle: lane.runtime.as_ref()?.handle().clone(),
            _load: Arc::clone(&lane.load),
        })
    }
}

// === impl Lane ===

impl Lane {
    fn start() -> io::Result<Self> {
        // A runtime of one worker is woken from other threads only when it sleeps. The store's
        // writer wakes hundreds of tasks at a time, and a current-thread runtime would be told of
        // each by a system call.
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("onceward-lane")
            .enable_all()
            .build()?;
        Ok(Self {
            runtime: Some(runtime),
            load: Arc::default(),
        })
    }

    fn take(&mut self) -> Option<Runtime> {
        self.runtime.take()
    }

    fn connections(&self) -> usize {
        Arc::strong_count(&self.load) - 1
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(runtime) = self.take() {
            // Waiting for its thread is not allowed where futures are polled.
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_go_where_the_fewest_are() {
        let lanes = Lanes::start(2).unwrap();
        let first = lanes.place().unwrap();
        let second = lanes.place().unwrap();
        assert_ne!(first.handle.id(), second.handle.id());
        drop(first);
        let third = lanes.place().unwrap();
        assert_ne!(third.handle.id(), second.handle.id());
    }

    #[tokio::test]
    async fn without_lanes_there_is_no_other_place() {
        assert!(Lanes::default().place().is_none());
    }
}
