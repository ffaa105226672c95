//! Statements: what is asked of the database within somebody else's transaction.
//!
//! Their time is reckoned as everywhere: from the server's clock, a shift and a floor.

use std::sync::Arc;

use super::super::Settings;
use super::super::sql::{AHEAD_MAX, RAW_MICROS};
use super::session::{Call, Value};
use super::{Error, Session};

/// A text with its place among the statements of a connection.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) text: Arc<str>,
    pub(super) at: usize,
}

/// The statements of one schema and prefix.
///
/// All of them answer with the same four columns, so that a driver has one thing to learn: a yes
/// or no, the time in microseconds, the stamp of a record and its bytes.
#[derive(Debug)]
pub(in super::super) struct Sql {
    /// Asks for the slot without waiting for it. Held until the transaction ends, however it
    /// does.
    pub(super) take: Statement,
    /// Reads the record. On its own, after the slot was asked for: a statement that does both
    /// reads from before it has the slot, and misses whatever was committed in between.
    pub(super) look: Statement,
    /// Keeps the record that was read from being changed until the transaction ends. Skips it
    /// where somebody is about to change it: to wait would be to hold a connection.
    pub(super) hold: Statement,
    /// Puts a record into an empty slot, or breaks the transaction.
    pub(super) put: Statement,
    /// Replaces a record that is held, or breaks the transaction.
    pub(super) swap: Statement,
    /// Stages an event.
    stage: Statement,
}

// === impl Sql ===

impl Sql {
    /// How many statements there are.
    pub(super) const COUNT: usize = 6;

    pub(in super::super) fn new(settings: &Settings) -> Self {
        let records = settings.table("records");
        let outbox = settings.table("outbox");
        let turns = settings.lock("stage");
        // The time as a write stamps it, from the last two of its values.
        let clock = |shift: usize, floor: usize| {
            format!(
                "(SELECT least(greatest(raw + ${shift}::int8, ${floor}::int8), \
                 ${floor}::int8 + {AHEAD_MAX}) AS now \
                 FROM (SELECT {RAW_MICROS} AS raw OFFSET 0) server) clock"
            )
        };
        let due = format!("now + least($4::int8, {} - now)", i64::MAX);
        let texts = [
            "SELECT pg_try_advisory_xact_lock($1::int8), 0::int8, NULL::int8, NULL::bytea"
                .to_owned(),
            format!(
                "SELECT true, {RAW_MICROS}, r.written, r.record \
                 FROM (SELECT) one LEFT JOIN {records} r ON r.slot = $1::bytea"
            ),
            format!(
                "SELECT true, {RAW_MICROS}, NULL::int8, NULL::bytea FROM {records} r \
                 WHERE r.slot = $1::bytea AND r.fence = $2::text::uuid FOR UPDATE SKIP LOCKED"
            ),
            format!(
                "INSERT INTO {records} \
                 (slot, fence, state, due, written, tenant, operation, record) \
                 SELECT $1::bytea, $2::text::uuid, $3::int8::smallint, {due}, now, \
                 $6::text, $7::text, $5::bytea FROM {clock} \
                 RETURNING true, written, NULL::int8, NULL::bytea",
                clock = clock(8, 9)
            ),
            // A row that is not there any more divides by zero, which breaks the transaction: the
            // commit is on its way already.
            format!(
                "WITH done AS (UPDATE {records} SET fence = $2::text::uuid, \
                 state = $3::int8::smallint, due = {due}, written = now, record = $5::bytea \
                 FROM {clock} WHERE slot = $1::bytea AND fence = $6::text::uuid \
                 RETURNING written) \
                 SELECT true, (SELECT written FROM done) / (SELECT count(*) FROM done), \
                 NULL::int8, NULL::bytea",
                clock = clock(7, 8)
            ),
            // Whoever stages for the same key waits here until this transaction ends, so that
            // the numbers of a key grow in the order in which its transactions commit.
            format!(
                "WITH turn AS MATERIALIZED \
                 (SELECT pg_advisory_xact_lock(hashtextextended($1::text, {turns}))) \
                 INSERT INTO {outbox} (key, topic, payload, staged) \
                 SELECT $1::text, $2::text, $3::bytea, {RAW_MICROS} FROM turn \
                 RETURNING true, id, NULL::int8, NULL::bytea"
            ),
        ];
        let mut at = 0;
        let [take, look, hold, put, swap, stage] = texts.map(|text| {
            at += 1;
            Statement {
                text: text.into(),
                at: at - 1,
            }
        });
        Self {
            take,
            look,
            hold,
            put,
            swap,
            stage,
        }
    }

    /// Stages an event and returns its number.
    pub(in super::super) async fn staged<S: Session>(
        &self,
        session: &mut S,
        topic: &str,
        key: &str,
        payload: &[u8],
    ) -> Result<i64, Error> {
        let values = [Value::Text(key), Value::Text(topic), Value::Bytes(payload)];
        let statement = &self.stage;
        let values = &values;
        let rows = session.calls(&[Call { statement, values }]).await?;
        match rows.into_iter().next().flatten() {
            Some(row) => Ok(row.number),
            None => Err(Error::Database("a statement had no answer".into())),
        }
    }
}
