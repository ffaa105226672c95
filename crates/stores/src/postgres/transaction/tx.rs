//! A transaction in the hands of the work that is done in it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use onceward::record::Point;
use onceward::{Duty, Fence, Key};
use parking_lot::Mutex;

use super::super::outbox::Staged;
use super::source::Open;
use super::{Error, Work};

/// A transaction in the hands of the work that is done in it: what
/// [`Transactional::run`](super::Transactional::run) lends.
///
/// It is used like a client of its driver: with tokio-postgres it derefs to `Client`, with sqlx
/// `&mut *tx` is the `PgConnection`. It goes back when it is dropped, at the end of the work; the
/// transaction itself is not the work's to end.
pub struct Tx<T> {
    lent: Option<(T, Work)>,
    home: Arc<Mutex<Option<(T, Work)>>>,
}

/// Where a transaction goes back to.
pub(super) struct Home<T>(Arc<Mutex<Option<(T, Work)>>>);

// === impl Tx ===

impl<T> Tx<T> {
    /// Lends a transaction, and says where it comes back.
    pub(super) fn lend(open: T, work: Work) -> (Self, Home<T>) {
        let home = Arc::default();
        let tx = Self {
            lent: Some((open, work)),
            home: Arc::clone(&home),
        };
        (tx, Home(home))
    }

    /// The work, with all that is known about it.
    pub fn work(&self) -> &Work {
        &self.parts().1
    }

    /// The caller's name for the work.
    pub fn key(&self) -> &Key {
        self.work().key()
    }

    /// Which attempt this is, from 1; see [`Work::attempt`].
    pub fn attempt(&self) -> u32 {
        self.work().attempt()
    }

    /// The fence of this attempt: greater than that of any earlier one.
    pub fn fence(&self) -> Fence {
        self.work().fence()
    }

    /// What to do first; see [`Work::duty`].
    pub fn duty(&self) -> Duty {
        self.work().duty()
    }

    /// The recovery point that was reached in an earlier transaction.
    pub fn point(&self) -> Option<&Point> {
        self.work().point()
    }

    /// The name of the recovery point that was reached, if any.
    pub fn point_name(&self) -> Option<&str> {
        self.work().point_name()
    }

    fn parts(&self) -> &(T, Work) {
        self.lent.as_ref().expect("it is there until it is dropped")
    }

    pub(super) fn parts_mut(&mut self) -> &mut (T, Work) {
        self.lent.as_mut().expect("it is there until it is dropped")
    }
}

impl<T: Open> Tx<T> {
    /// Stages an event in the same transaction; see [`Work::stage`].
    pub async fn stage(&mut self, topic: &str, key: &str, payload: &[u8]) -> Result<Staged, Error> {
        let (open, work) = self.parts_mut();
        work.stage(open, topic, key, payload).await
    }
}

impl<T: Open> Deref for Tx<T> {
    type Target = T::Target;

    fn deref(&self) -> &T::Target {
        self.parts().0.target()
    }
}

impl<T> Drop for Tx<T> {
    fn drop(&mut self) {
        *self.home.lock() = self.lent.take();
    }
}

impl<T> fmt::Debug for Tx<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tx").field(self.work()).finish()
    }
}

// === impl Home ===

impl<T> Home<T> {
    /// What came back. Work that keeps its transaction beyond its end has none to commit.
    pub(super) fn take(self) -> Option<(T, Work)> {
        self.0.lock().take()
    }
}
