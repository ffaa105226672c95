//! The outbox: events that are staged in a transaction and published after it.
//!
//! [`Work::stage`](super::Work::stage) or [`Outbox::stage`] writes an event beside the business
//! data: it is there exactly if the transaction commits. A [`Relay`] then gives it to a callback,
//! at least once and, for each key, in order.
//!
//! # Order
//!
//! An event's number comes from a sequence, and sequences do not wait for commits: two transactions
//! could number their events in one order and commit in the other. So whoever stages for a key
//! first takes a lock of that key and keeps it until its transaction ends: for each key, numbers
//! grow in the order of commits, and a reader that sees one event sees all before it. Transactions
//! that stage for different keys do not meet. One that stages for several keys stages them in the
//! same order as others do, or PostgreSQL may have to break a deadlock.

use std::sync::Arc;

use bytes::Bytes;
use onceward::SlotId;

use super::transaction::{Error, Session, Sql};
use super::{PostgresStore, Settings};

mod relay;

pub use relay::{Pace as RelayPace, Relay};

/// Hints about this slot are about new events.
pub(super) const SLOT: SlotId = {
    let mut bytes = [0; SlotId::LEN];
    bytes[SlotId::LEN - 1] = 1;
    SlotId::from_bytes(bytes)
};

/// Stages events without a key of their own work.
#[derive(Clone, Debug)]
pub struct Outbox {
    store: PostgresStore,
    sql: Arc<Sql>,
}

/// An event that is published once its transaction has committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Staged {
    /// Its number. Those of one key grow in the order in which they are published.
    pub number: i64,
}

/// An event to be published.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Event {
    /// Its number. A consumer that keeps the last one of each key recognises what it had before.
    pub number: i64,
    /// What kind of event it is.
    pub topic: String,
    /// Whose it is: events of one key are published in order.
    pub key: String,
    /// The event itself.
    pub payload: Bytes,
    /// How often it was tried before.
    pub tries: u32,
}

// === impl Outbox ===

impl Outbox {
    /// The longest key or topic, in bytes.
    pub const NAME_MAX: usize = 1000;
    /// The largest payload, in bytes.
    pub const PAYLOAD_MAX: usize = 16 << 20;

    /// Returns the outbox of `store`.
    pub fn new(store: &PostgresStore) -> Self {
        Self {
            sql: Arc::new(Sql::new(store.settings())),
            store: store.clone(),
        }
    }

    /// Stages an event in the transaction of `session`; see [`Work::stage`](super::Work::stage).
    pub async fn stage<S: Session>(
        &self,
        mut session: S,
        topic: &str,
        key: &str,
        payload: &[u8],
    ) -> Result<Staged, Error> {
        stage(&self.sql, &mut session, topic, key, payload).await
    }

    /// Tells relays that there are new events. Call it after the commit; a relay that is not
    /// told looks by itself, a little later.
    pub fn announce(&self) {
        self.store.announce(SLOT);
    }
}

pub(super) async fn stage<S: Session>(
    sql: &Sql,
    session: &mut S,
    topic: &str,
    key: &str,
    payload: &[u8],
) -> Result<Staged, Error> {
    let named = |name: &str| (1..=Outbox::NAME_MAX).contains(&name.len());
    if !named(topic) || !named(key) || payload.len() > Outbox::PAYLOAD_MAX {
        let rule = "an event has a topic and a key of 1 to 1000 bytes and at most 16 MiB";
        return Err(Error::TooLarge(rule));
    }
    let number = sql.staged(session, topic, key, payload).await?;
    Ok(Staged { number })
}

/// The table, as the first version of the schema has it.
///
/// One index serves all: the first event of each key, those behind it, and their removal. Rows live
/// for moments, so room is reclaimed early.
pub(super) fn create(settings: &Settings) -> String {
    let outbox = settings.table("outbox");
    format!(
        "CREATE TABLE {outbox} (
           key text COLLATE \"C\" NOT NULL,
           id bigint GENERATED ALWAYS AS IDENTITY,
           topic text NOT NULL,
           payload bytea NOT NULL,
           staged bigint NOT NULL,
           tries integer NOT NULL DEFAULT 0,
           due bigint NOT NULL DEFAULT 0,
           PRIMARY KEY (key, id)
         ) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
                 autovacuum_vacuum_cost_delay = 0)"
    )
}
