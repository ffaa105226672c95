//! Notices: what the server says unasked on a connection of callers.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::AsyncMessage;
use tokio_postgres::error::SqlState;

use super::super::doubts::{Doubts, gave_up_waiting};

/// What the server said unasked on one connection, as far as it matters.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// How many commits did not wait for their standby.
    unwaited: AtomicU64,
    /// Those who have to hear of it: the stores whose keys were used on the connection.
    doubts: Mutex<Vec<Arc<Doubts>>>,
}

// === impl Notices ===

impl Notices {
    /// How many commits did not wait for their standby so far.
    pub(super) fn unwaited(&self) -> u64 {
        self.unwaited.load(Ordering::Acquire)
    }

    /// Lets a store hear of such commits from now on, also when nobody waits for them any more.
    pub(super) fn tell(&self, doubts: &Arc<Doubts>) {
        let mut all = self.doubts.lock();
        if !all.iter().any(|it| Arc::ptr_eq(it, doubts)) {
            all.push(Arc::clone(doubts));
        }
    }

    /// A commit did not wait. Known before its answer is.
    fn gave_up(&self) {
        for doubts in &*self.doubts.lock() {
            doubts.raise();
        }
        self.unwaited.fetch_add(1, Ordering::AcqRel);
    }

    /// The connection broke, and with it whatever was under way.
    fn broke(&self) {
        for doubts in &*self.doubts.lock() {
            doubts.lost();
        }
    }
}

/// Drives a connection of callers until its end.
///
/// What the server says about their statements may hold anything of theirs: logs get its code.
pub(super) async fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    notices: Arc<Notices>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notice(notice))) => {
                if gave_up_waiting(&notice) {
                    notices.gave_up();
                }
                let code = notice.code().code();
                tracing::debug!(code, "PostgreSQL says something about a transaction");
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                notices.broke();
                let code = error.code().map(SqlState::code);
                tracing::debug!(code, "a connection ended");
                return;
            }
            None => return,
        }
    }
}
