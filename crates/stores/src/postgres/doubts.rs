//! Doubts: what can be read on the server and may not be on the standby that commits wait for.
//!
//! A commit is in the server's own log before it waits for its standby, and stays there if the
//! wait is given up or the server restarts. Whoever finds it then would take it for done, and a
//! failover would take it back. So after a doubt nothing that is found is told to anybody before a
//! commit that came later has reached the standby: commits reach it in their order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio_postgres::error::DbError;

/// Doubts that were raised, and how many of them are settled.
#[derive(Debug, Default)]
pub struct Doubts {
    raised: AtomicU64,
    /// All doubts up to this one are settled.
    settled: AtomicU64,
    /// Whether commits wait for a standby at all, as far as was last found out.
    waits: AtomicBool,
    /// Somebody wants them settled who does nothing about it.
    wanted: Notify,
}

/// A commit on its way. Whoever leaves before its answer is there leaves a doubt.
#[derive(Debug)]
pub(super) struct UnderWay(Option<Arc<Doubts>>);

// === impl Doubts ===

impl Doubts {
    /// Takes note that a commit may be on the server alone that should be on its standby.
    pub(super) fn raise(&self) {
        self.raised.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes note of a commit of which nobody knows. It may be on the server alone, if commits
    /// wait for a standby at all.
    pub(super) fn lost(&self) {
        if self.waits.load(Ordering::Relaxed) {
            self.raise();
        }
    }

    /// Takes note whether commits wait for a standby.
    pub(super) fn wait(&self, waits: bool) {
        self.waits.store(waits, Ordering::Relaxed);
    }

    /// Whether what can be read may not be where it should be.
    pub(super) fn is_open(&self) -> bool {
        self.settled.load(Ordering::Acquire) < self.raised()
    }

    /// How many there were so far: what a write that begins now settles once it is acknowledged.
    pub(super) fn raised(&self) -> u64 {
        self.raised.load(Ordering::Acquire)
    }

    /// Takes note that a write was acknowledged that began after so many doubts.
    pub(super) fn settle(&self, raised: u64) {
        self.settled.fetch_max(raised, Ordering::AcqRel);
    }

    /// Asks for them to be settled, by whoever has the time.
    pub(super) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Waits until somebody wants them settled.
    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Returns what is held while a commit is on its way.
    pub(super) fn under_way(self: &Arc<Self>) -> UnderWay {
        UnderWay(Some(Arc::clone(self)))
    }
}

// === impl UnderWay ===

impl UnderWay {
    /// It is known what became of it.
    pub(super) fn end(mut self) {
        self.0 = None;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(doubts) = &self.0 {
            doubts.lost();
        }
    }
}

/// Whether the server says that a commit did not wait for its standby as long as it should have.
///
/// Told by the place in the server that says so: a warning of a trigger may have the same code and
/// any words, and the server's own words are in its own language.
pub(super) fn gave_up_waiting(notice: &DbError) -> bool {
    notice.routine() == Some("SyncRepWaitForLSN")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_is_settled_by_a_write_that_began_after_it() {
        let doubts = Doubts::default();
        doubts.raise();
        let began = doubts.raised();
        doubts.raise();
        doubts.settle(began);
        assert!(
            doubts.is_open(),
            "the second came after the write had begun"
        );
        doubts.settle(doubts.raised());
        assert!(!doubts.is_open());
        // An earlier write that is heard of later takes nothing back.
        doubts.settle(began);
        assert!(!doubts.is_open());
    }

    #[test]
    fn whoever_leaves_a_commit_on_its_way_leaves_a_doubt() {
        let doubts = Arc::new(Doubts::default());
        drop(doubts.under_way());
        assert!(!doubts.is_open(), "no commit waits for anybody");
        doubts.wait(true);
        doubts.under_way().end();
        assert!(!doubts.is_open());
        drop(doubts.under_way());
        assert!(doubts.is_open());
    }
}
