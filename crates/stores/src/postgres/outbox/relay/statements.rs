//! What a relay asks of the database.

use onceward::BoxError;
use tokio_postgres::Statement;

use super::super::super::sql::RAW_MICROS;
use super::super::super::{Connection, Settings};

/// The texts of the statements for one schema.
pub(super) struct Texts {
    heads: String,
    take: String,
    read: String,
    remove: String,
    put_off: String,
    give_back: String,
}

/// A connection with its statements, and the keys that are taken by it.
pub(super) struct Session {
    pub(super) client: Connection,
    pub(super) heads: Statement,
    pub(super) take: Statement,
    pub(super) read: Statement,
    pub(super) remove: Statement,
    pub(super) put_off: Statement,
    pub(super) give_back: Statement,
}

// === impl Texts ===

impl Texts {
    pub(super) fn new(settings: &Settings) -> Self {
        let outbox = settings.table("outbox");
        let seed = settings.lock("relay");
        let lock = |key: &str| format!("hashtextextended({key}, {seed})");
        Self {
            // From key to key by the index: a key with a million events costs as much as one
            // with a single one.
            heads: format!(
                "WITH RECURSIVE heads AS (
                   (SELECT key, due FROM {outbox} WHERE key > $1::text ORDER BY key, id LIMIT 1)
                   UNION ALL
                   SELECT next.key, next.due FROM heads CROSS JOIN LATERAL
                     (SELECT key, due FROM {outbox} AS there WHERE there.key > heads.key
                      ORDER BY there.key, there.id LIMIT 1) AS next
                 )
                 SELECT key, due <= {RAW_MICROS} FROM heads LIMIT $2::bigint"
            ),
            take: format!(
                "SELECT key FROM unnest($1::text[]) AS given (key)
                 WHERE pg_try_advisory_lock({})",
                lock("key")
            ),
            read: format!(
                "SELECT first.key, first.id, first.topic, first.payload, first.tries,
                        first.due <= {RAW_MICROS}
                 FROM unnest($1::text[]) AS given (key) CROSS JOIN LATERAL
                   (SELECT * FROM {outbox} AS there WHERE there.key = given.key COLLATE \"C\"
                    ORDER BY there.id LIMIT $2::bigint) AS first
                 ORDER BY first.key, first.id"
            ),
            remove: format!("DELETE FROM {outbox} WHERE key = $1::text AND id = ANY($2::bigint[])"),
            put_off: format!(
                "UPDATE {outbox} SET tries = tries + 1, due = {RAW_MICROS} + $3::bigint
                 WHERE key = $1::text AND id = $2::bigint"
            ),
            give_back: format!("SELECT pg_advisory_unlock({})", lock("$1::text")),
        }
    }

    /// Prepares all of them on a connection.
    pub(super) async fn prepare(&self, client: Connection) -> Result<Session, BoxError> {
        Ok(Session {
            heads: client.prepare(&self.heads).await?,
            take: client.prepare(&self.take).await?,
            read: client.prepare(&self.read).await?,
            remove: client.prepare(&self.remove).await?,
            put_off: client.prepare(&self.put_off).await?,
            give_back: client.prepare(&self.give_back).await?,
            client,
        })
    }
}
