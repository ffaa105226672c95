//! Statements: what is asked of the database within somebody else's transaction.
//!
//! Time is read by those that ask for a slot. A write is stamped by whoever sends it, with the
//! store's time at that moment: every function in a statement is set up anew by each call, and
//! reckoning the stamp in SQL took as long as inserting the row.

use std::sync::Arc;

use super::super::Settings;
use super::super::sql::RAW_MICROS;
use super::session::{Call, Value};
use super::{Error, Session};

/// A text with its place among the statements of a connection.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) text: Arc<str>,
    pub(super) at: usize,
    /// What it is prepared as where that has a name: the same for the same text alone.
    pub(super) name: Arc<str>,
}

/// The statements of one schema and prefix.
///
/// All that answer do so with the same five columns, so that a driver has one thing to learn: a
/// yes or no, a number (the time in microseconds, where it is asked for), the stamp of a record
/// and its bytes, and when the transaction began, by which it is told from any other of the
/// connection. Times that nobody asks for are 0.
#[derive(Debug)]
pub(in super::super) struct Sql {
    /// Asks for the slot without waiting for it. Held until the transaction ends, however it
    /// does.
    pub(super) take: Statement,
    /// Reads the record. On its own, after the slot was asked for: a statement that does both
    /// reads from before it has the slot, and misses whatever was committed in between.
    pub(super) look: Statement,
    /// The same, with no answer where there is no record, and without the times: for transactions
    /// that were begun with the question.
    pub(super) find: Statement,
    /// Keeps the record that was read from being changed until the transaction ends. Skips it
    /// where somebody is about to change it: to wait would be to hold a connection.
    pub(super) hold: Statement,
    /// Puts a record into an empty slot and answers nothing, or breaks the transaction. It breaks
    /// as well if that is not the one in which the slot was asked for: its lock is gone then.
    pub(super) put: Statement,
    /// Replaces a record that is held, or breaks the transaction, in the same two cases.
    pub(super) swap: Statement,
    /// Stages an event.
    stage: Statement,
}

/// When the transaction began, in microseconds. Statements that are no part of one each have a
/// time of their own. Reckoned in doubles, as [`RAW_MICROS`] is and for the same reason.
const BEGAN: &str = "(date_part('epoch', transaction_timestamp()) * 1000000)::bigint";

/// What the error says that breaks a transaction other than the one that was begun.
pub(super) const APART: &str = "begin, work and complete have to be in one transaction";

/// The text `value` read as a `kind`, if the transaction began at the time in the `proof`th value.
/// An error otherwise, because `APART` is read instead: at the very end, lest the planner reads it
/// beforehand.
fn in_one(proof: usize, value: &str, kind: &str) -> String {
    format!("(CASE WHEN {BEGAN} = ${proof}::int8 THEN {value} ELSE '{APART}' END)::{kind}")
}

// === impl Sql ===

impl Sql {
    /// How many statements there are.
    pub(super) const COUNT: usize = 7;

    pub(in super::super) fn new(settings: &Settings) -> Self {
        let records = settings.table("records");
        let outbox = settings.table("outbox");
        let turns = settings.lock("stage");
        let texts = [
            format!(
                "SELECT pg_try_advisory_xact_lock($1::int8), {RAW_MICROS}, NULL::int8, \
                 NULL::bytea, {BEGAN}"
            ),
            format!(
                "SELECT true, 0::int8, r.written, r.record, {BEGAN} \
                 FROM (SELECT) one LEFT JOIN {records} r ON r.slot = $1::bytea"
            ),
            format!(
                "SELECT true, 0::int8, r.written, r.record, 0::int8 FROM {records} r \
                 WHERE r.slot = $1::bytea"
            ),
            format!(
                "SELECT true, 0::int8, NULL::int8, NULL::bytea, {BEGAN} FROM {records} r \
                 WHERE r.slot = $1::bytea AND r.fence = $2::text::uuid FOR UPDATE SKIP LOCKED"
            ),
            format!(
                "INSERT INTO {records} \
                 (slot, fence, state, due, written, tenant, operation, record) \
                 VALUES ($1::bytea, {fence}, $3::int8::smallint, $4::int8, $5::int8, \
                 $7::text, $8::text, $6::bytea)",
                fence = in_one(9, "$2::text", "uuid"),
            ),
            // A row that is not there any more divides by zero, which breaks the transaction: the
            // commit is on its way already. One by zero, for nothing by zero is nothing.
            format!(
                "WITH done AS (UPDATE {records} SET fence = $2::text::uuid, \
                 state = $3::int8::smallint, due = $4::int8, written = $5::int8, \
                 record = $6::bytea WHERE slot = $1::bytea AND fence = $7::text::uuid \
                 RETURNING slot) \
                 SELECT true, {count}, NULL::int8, NULL::bytea, 0::int8",
                count = in_one(8, "(1 / (SELECT count(*) FROM done))::text", "int8"),
            ),
            // Whoever stages for the same key waits here until this transaction ends, so that
            // the numbers of a key grow in the order in which its transactions commit.
            format!(
                "WITH turn AS MATERIALIZED \
                 (SELECT pg_advisory_xact_lock(hashtextextended($1::text, {turns}))) \
                 INSERT INTO {outbox} (key, topic, payload, staged) \
                 SELECT $1::text, $2::text, $3::bytea, {RAW_MICROS} FROM turn \
                 RETURNING true, id, NULL::int8, NULL::bytea, 0::int8"
            ),
        ];
        let mut at = 0;
        let [take, look, find, hold, put, swap, stage] = texts.map(|text| {
            at += 1;
            Statement {
                name: format!("onceward_{:016x}", settings.lock(&text)).into(),
                text: text.into(),
                at: at - 1,
            }
        });
        Self {
            take,
            look,
            find,
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
            None => Err(Error::unanswered()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_by_a_statement_that_does_not_ask_for_the_slot() {
        let settings: Settings = "postgres://localhost/app".parse().unwrap();
        let Sql {
            take, look, find, ..
        } = Sql::new(&settings);
        let records = settings.table("records");
        assert!(take.text.contains("pg_try_advisory_xact_lock"));
        assert!(!take.text.contains(&records));
        for reads in [look, find] {
            assert!(reads.text.contains(&records));
            assert!(!reads.text.contains("advisory"), "{}", reads.text);
        }
    }

    #[test]
    fn names_tell_of_texts_and_tables() {
        let names = |url: &str| {
            let sql = Sql::new(&url.parse().unwrap());
            let named = [sql.take, sql.look, sql.find, sql.hold];
            named.map(|statement| statement.name)
        };
        let one = names("postgres://localhost/app");
        let two = names("postgres://localhost/app?schema=other");
        let mut all: Vec<_> = one.iter().chain(&two).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 8);
        assert_eq!(one, names("postgres://elsewhere/app"));
    }
}
