//! Recovering: a database that failed once is not trusted again, but opened anew.
//!
//! After a failed sync nobody knows what is on the disk, and asking once more "succeeds". So the
//! first error ends everything: the batch and all that waits are answered that nobody knows, the
//! database is closed, read like after a crash, and only then served again.

use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use onceward::BoxError;

use super::base::{Base, open_error, unavailable};
use super::claims::{Claims, claims_since};
use super::group::Fate;
use super::journal::{Mark, Pen};
use super::start::recover;
use super::sweep::Cursor;
use super::writer::Writer;
use crate::OpenError;
use crate::sync::atomic::Ordering;
use crate::sync::thread;

/// The pause after the first attempt, and the longest one.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long somebody who asks meanwhile waits for the answer that nothing can be said.
const GLANCE: Duration = Duration::from_millis(10);

// === impl Writer ===

impl Writer {
    /// Gives up the database and opens it again, however long that takes. Returns early if the
    /// store is closed meanwhile.
    pub(super) fn recover(&mut self, error: &BoxError) {
        tracing::error!(%error, "the embedded store failed and is opened again");
        let shared = self.shared.clone();
        shared.is_down.store(true, Ordering::Release);
        // It may take its time, and readers are not to be held up meanwhile.
        if let Some(Ok(filed)) = self.filer.result(true) {
            self.go_back(&filed);
        }
        // Waits for readers, and for those who judge: from here on nobody hands anything in.
        let base = shared.base.write().take();
        self.forget();
        self.gone.clear();
        // What was reported from the board will be in the index.
        self.chores = Cursor::chores();
        // Closing a database that failed may panic, which makes it no worse.
        if panic::catch_unwind(AssertUnwindSafe(|| drop(base))).is_err() {
            tracing::error!("the database panicked while it was closed");
        }
        shared.recent.reset();
        let mut pause = PAUSE;
        while !shared.is_closing.load(Ordering::Acquire) {
            let reopened = panic::catch_unwind(AssertUnwindSafe(|| self.reopen()));
            match reopened.unwrap_or_else(|_| Err(self.panicked())) {
                Ok((base, pen, mark, claims)) => {
                    (self.pen, self.mark, self.claims) = (pen, mark, claims);
                    *shared.base.write() = Some(base);
                    shared.is_down.store(false, Ordering::Release);
                    tracing::info!(batch = mark.sequence, "the embedded store is open again");
                    return;
                }
                Err(error) => {
                    let why = error.to_string();
                    tracing::error!(why, ?error, "the embedded store cannot be opened yet");
                }
            }
            self.wait(pause);
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    /// Reads the folder like after a crash. It has to hold what this run acknowledged; a batch
    /// that was under way may be there or not.
    fn reopen(&self) -> Result<(Base, Pen, Mark, Claims), OpenError> {
        let folder = &self.shared.folder;
        // As of the last batch that is known to be written: the one that failed may be there
        // all the same, and none of its claims is older than this.
        let head = self.head(self.mark.stamp);
        let (base, place, mark) = recover(folder, &head)?;
        // Their holders live in this process and go on: the claims stay claims.
        let listed = claims_since(&base, head.claims);
        let listed = listed.map_err(|error| open_error(folder.path(), error))?;
        let pen = Pen::take_over(&place, self.shared.sync);
        let pen = pen.map_err(|error| OpenError::io(folder.path(), error))?;
        Ok((base, pen, mark, Claims::of(listed, &self.shared.board)))
    }

    fn panicked(&self) -> OpenError {
        OpenError::damaged(self.shared.folder.path(), "the database panicked")
    }

    /// Answers everybody who waits that nobody knows.
    pub(super) fn forget(&mut self) {
        let shared = &*self.shared;
        let (left, _) = shared.intake.take(&shared.clock, Vec::new());
        for group in self.group.take().into_iter().chain([left.group]) {
            group.end(Fate::Unknown);
        }
        shared.board.reset();
        self.batch.clear();
        for sweep in self.sweeps.drain(..).chain(left.sweeps) {
            sweep.fail(unavailable("it is being opened"));
        }
    }

    fn wait(&mut self, pause: Duration) {
        let mut left = pause;
        while !left.is_zero() && !self.shared.is_closing.load(Ordering::Acquire) {
            self.forget();
            thread::park_timeout(GLANCE.min(left));
            left = left.saturating_sub(GLANCE);
        }
    }
}
