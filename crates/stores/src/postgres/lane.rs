//! Lanes: connections, each of which runs one batch after the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::hub::{Errand, Hub, Work};
use super::session::{Prepared, Session};
use super::trouble::{Trouble, What};
use super::{SERVER, batch};
use crate::server::Backoff;

/// A connection that does what waits in the hub, and is opened again whenever it is lost.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) hub: Arc<Hub>,
}

// === impl Lane ===

impl Lane {
    /// Runs until the store is closed. The first lane gets the session that the store was opened
    /// with.
    pub(super) async fn run(self, mut first: Option<Session>) {
        let mut backoff = Backoff::default();
        while !self.is_closing() {
            let session = match first.take() {
                Some(session) => Ok(session),
                None => self.connect().await,
            };
            let served = match session {
                Ok(session) => self.attend(session, &mut backoff).await,
                Err(why) => Err(why),
            };
            if let Err(why) = served {
                backoff.log(SERVER, &why);
                self.hub.unreachable(&why);
                tokio::time::sleep(backoff.next()).await;
            }
        }
    }

    fn is_closing(&self) -> bool {
        self.hub.is_closing.load(Ordering::Acquire)
    }

    async fn connect(&self) -> Result<Session, String> {
        let session = self.hub.connector.connect(None).await;
        let session = session.map_err(|error| error.line())?;
        self.hub.is_home(&session.about)?;
        Ok(session)
    }

    /// Serves on one session until it is lost. An error says that it was of no use at all.
    async fn attend(&self, mut session: Session, backoff: &mut Backoff) -> Result<(), String> {
        // The class is known before anything is sent: it may be another server, or set up in
        // another way.
        let ready = session.ready(&self.hub.connector).await;
        let (prepared, found) = ready.map_err(|trouble| trouble.to_string())?;
        self.hub.found(found);
        self.hub.lane_up();
        *backoff = Backoff::default();
        let ended = self.serve(&mut session, &prepared).await;
        self.hub.lane_down();
        if let Err(trouble) = ended {
            self.hub.doubts.lost();
            tracing::warn!(why = %trouble, "a connection to PostgreSQL was lost");
        }
        Ok(())
    }

    async fn serve(&self, session: &mut Session, prepared: &Prepared) -> Result<(), Trouble> {
        loop {
            match self.hub.next() {
                Some(Work::Batch(batch)) => batch::run(&self.hub, session, prepared, batch).await?,
                Some(Work::Errand(errand)) => {
                    let ran = self.errand(session, errand).await;
                    self.hub.end_errand();
                    ran?;
                }
                None if self.is_closing() => return Ok(()),
                None => tokio::select! {
                    biased;
                    () = self.hub.wake.notified() => {}
                    why = &mut session.gone => {
                        return Err(Trouble::lost(why.unwrap_or_default()));
                    }
                },
            }
        }
    }

    async fn errand(&self, session: &Session, errand: Errand) -> Result<(), Trouble> {
        let now = self.hub.reckoning.stopwatch();
        let left = errand.deadline.saturating_sub(now);
        let parameters: Vec<_> = errand
            .parameters
            .iter()
            .map(|it| &**it as &(dyn tokio_postgres::types::ToSql + Sync))
            .collect();
        let query = session.client.query(&errand.text, &parameters);
        let rows = match tokio::time::timeout(left, query).await {
            Ok(rows) => rows.map_err(|error| Trouble::of(&error)),
            Err(_) => {
                session.cancel();
                Err(Trouble::lost("the server did not answer in time"))
            }
        };
        // A sweep that a standby does not know of yet is no harm, and no doubt about the next batch.
        let _ = session.is_in_doubt();
        let lost = match &rows {
            Err(trouble) if is_end(trouble.what()) => Err(trouble.clone()),
            _ => Ok(()),
        };
        // A caller that no longer waits is no error.
        let _ = errand.reply.send(rows);
        lost
    }
}

/// Whether a connection on which this happened is of no further use.
pub(super) fn is_end(what: What) -> bool {
    matches!(what, What::Lost | What::Demoted)
}
