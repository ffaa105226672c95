//! Streams: the tasks of one HTTP/2 connection, each with an owner.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_util::task::TaskTracker;

use super::stop::Stop;

/// Starts the tasks of a connection's streams and counts them.
///
/// The server's tracker waits for them, and they end with the server's patience.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    tasks: TaskTracker,
    cut: Stop,
    counts: Arc<Counts>,
}

#[derive(Default, Debug)]
struct Counts {
    begun: AtomicUsize,
    ended: AtomicUsize,
    /// Streams with a frame that the caller does not take.
    stuck: AtomicUsize,
    /// Bytes that were written, wrapping.
    written: AtomicUsize,
}

/// How far the streams of a connection had come at some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Look {
    begun: usize,
    written: usize,
}

/// An answer on its way to the caller.
#[derive(Debug)]
pub(super) struct Delivery {
    counts: Arc<Counts>,
    is_stuck: bool,
}

/// One stream's task, counted as ended however it ends.
struct Running(Arc<Counts>);

// === impl Streams ===

impl Streams {
    /// The bytes between two looks that need not be answers: pings and the like.
    const CHATTER: usize = 1024;

    /// Returns the streams of one connection: `tasks` waits for them and `cut` ends them.
    pub(super) fn new(tasks: TaskTracker, cut: Stop) -> Self {
        Self {
            tasks,
            cut,
            counts: Arc::default(),
        }
    }

    /// How far they have come.
    pub(super) fn look(&self) -> Look {
        Look {
            begun: self.counts.begun.load(Ordering::Acquire),
            written: self.counts.written.load(Ordering::Acquire),
        }
    }

    /// Whether nothing was begun or taken since `last`, and no stream is open but such as wait
    /// for the caller.
    ///
    /// What is taken is seen in the bytes: a stream ends when hyper has its whole answer, which
    /// may be long before the caller has it.
    pub(super) fn is_quiet_since(&self, last: Look) -> bool {
        let ended = self.counts.ended.load(Ordering::Acquire);
        let stuck = self.counts.stuck.load(Ordering::Acquire);
        let now = self.look();
        now.begun == last.begun
            && now.begun == ended + stuck
            && now.written.wrapping_sub(last.written) <= Self::CHATTER
    }

    /// Says that bytes went out, of whatever stream.
    pub(super) fn wrote(&self, count: usize) {
        self.counts.written.fetch_add(count, Ordering::AcqRel);
    }

    /// Watches the delivery of one answer.
    pub(super) fn delivery(&self) -> Delivery {
        Delivery {
            counts: Arc::clone(&self.counts),
            is_stuck: false,
        }
    }
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        self.counts.begun.fetch_add(1, Ordering::AcqRel);
        let running = Running(Arc::clone(&self.counts));
        let cut = self.cut.clone();
        self.tasks.spawn(async move {
            let _running = running;
            cut.until(stream).await;
        });
    }
}

// === impl Delivery ===

impl Delivery {
    /// The body is asked for its next frame: those before it were taken.
    pub(super) fn asked(&mut self) {
        if std::mem::take(&mut self.is_stuck) {
            self.counts.stuck.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// The body gave a frame, which now has to find its way to the caller.
    pub(super) fn gave(&mut self) {
        self.is_stuck = true;
        self.counts.stuck.fetch_add(1, Ordering::AcqRel);
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.asked();
    }
}

// === impl Running ===

impl Drop for Running {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::AcqRel);
    }
}
