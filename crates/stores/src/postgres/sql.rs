//! The statements: one for each kind of call, for as many slots as are asked about at once.
//!
//! Each runs by itself in READ COMMITTED, with index lookups only. What they have in common:
//!
//! - **Time.** `raw` is the server's clock, read row by row with `clock_timestamp()`: `now()` is
//!   the time at which the transaction began, which may be long ago. `shift` and `floor` come
//!   from the [`Reckoning`](crate::reckon::Reckoning): the time that counts is
//!   `greatest(raw + shift, floor)`. A write that comes later than it may changes nothing; nor does
//!   one for which the clock is seconds past the floor, so that a server's clock that jumps ahead
//!   between two looks at it does not come through: it is sent again once that has been seen.
//! - **Locks.** Replacing and removing lock the row first, in the order of slots, and read the
//!   clock once they have it: an UPDATE that waits for somebody who only locks the row would
//!   write the time at which it began to wait. Rows that others hold are skipped, so that one of
//!   them holds nobody else up and nothing deadlocks; whoever was skipped asks again.
//! - **What did not happen is not guessed.** A statement tells what it did. For whatever is
//!   missing from that, [`Statements::read`] is asked afterwards, with a snapshot of its own: an
//!   `ON CONFLICT DO NOTHING` and a SELECT in one statement see nothing of a row that somebody
//!   committed in between.

use onceward::bugs::{Bug, seeded};

use super::Settings;
use crate::reckon::AHEAD_MAX;

/// The texts of the statements for one schema.
#[derive(Debug)]
pub(super) struct Statements {
    /// Puts records into empty slots: `slot`, `written`, `record` (where one was there), `raw`.
    pub(super) insert: String,
    /// Puts one record into an empty slot: the same columns.
    pub(super) insert_one: String,
    /// Replaces records: `slot`, `written`, `raw` of those that were.
    pub(super) replace: String,
    /// Replaces one record: the same columns.
    pub(super) replace_one: String,
    /// Removes records: `slot`, `written` (the time of it), `raw` of those that were.
    pub(super) remove: String,
    /// Reads records: `slot`, `fence`, `written`, `record`, `raw`, one row for each slot.
    pub(super) read: String,
    /// Removes expired records and reports lapsed claims.
    pub(super) sweep: String,
    /// Reads a page.
    pub(super) list: String,
    /// Finds where a window over the slots ends.
    pub(super) window: String,
    /// Tells others of changed slots.
    pub(super) notify: String,
    /// Raises the highest time on record.
    pub(super) raise: String,
    /// Writes something that changes nothing: once it is where it should be, so is all before it.
    pub(super) settle: String,
}

/// The server's clock in microseconds since 1970, at the moment that it is read. Not `extract`,
/// which reckons in decimals and takes longer; a double is exact to the microsecond until 2106.
pub(crate) const RAW_MICROS: &str = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint";

/// What a session sets for itself: index lookups in nested loops whatever the statistics say, one
/// plan for all, and limits on every wait.
pub(super) fn session(settings: &Settings) -> String {
    let timeout = settings.timeout.as_millis();
    format!(
        "SET default_transaction_isolation = 'read committed';
         SET default_transaction_read_only = off;
         SET plan_cache_mode = force_generic_plan;
         SET enable_seqscan = off;
         SET enable_hashjoin = off;
         SET enable_mergejoin = off;
         SET enable_bitmapscan = off;
         SET max_parallel_workers_per_gather = 0;
         SET jit = off;
         SET client_min_messages = warning;
         SET lock_timeout = {LOCK_TIMEOUT_MILLIS};
         SET statement_timeout = {timeout};
         SET idle_in_transaction_session_timeout = 10000;
         SET search_path = pg_catalog"
    )
}

/// How long an insert waits for somebody who is about to fill the same slot.
const LOCK_TIMEOUT_MILLIS: u32 = 50;

// === impl Statements ===

impl Statements {
    pub(super) fn new(settings: &Settings) -> Self {
        let records = settings.table("records");
        let clock = settings.table("clock");
        Self {
            insert: insert(&records),
            insert_one: insert_one(&records),
            replace: replace(&records),
            replace_one: replace_one(&records),
            remove: remove(&records),
            read: read(&records),
            sweep: sweep(&records, settings.lock("sweep")),
            list: list(&records),
            window: format!(
                "SELECT slot FROM {records} WHERE slot > $1 ORDER BY slot OFFSET $2 LIMIT 1"
            ),
            notify: "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload".to_owned(),
            raise: format!(
                "INSERT INTO {clock} AS clock (id, guarded) VALUES (1, $1)
                 ON CONFLICT (id) DO UPDATE SET guarded = EXCLUDED.guarded
                 WHERE clock.guarded < EXCLUDED.guarded"
            ),
            settle: format!(
                "INSERT INTO {clock} AS clock (id, guarded) VALUES (1, 0)
                 ON CONFLICT (id) DO UPDATE SET guarded = clock.guarded"
            ),
        }
    }
}

/// When a record written at `written` is due: a sum that stops at the end of all time.
const DUE: &str = "CASE WHEN due_after > 9223372036854775807 - written
     THEN 9223372036854775807 ELSE written + due_after END";

/// The rows of `source` that are neither late nor far ahead, with their stamp. The clock is read
/// for each row by itself, after whatever `source` does to give it: a part that reads it is never
/// merged with another.
fn stamped(source: &str, shift: &str, floor: &str, not_after: &str) -> String {
    let first_of = match seeded(Bug::LateStatementWrites) {
        false => "least",
        true => "greatest",
    };
    format!(
        "SELECT *
         FROM (SELECT *, greatest(raw + {shift}::bigint, {floor}::bigint) AS written
               FROM (SELECT *, {RAW_MICROS} AS raw FROM {source}) AS clocked) AS timed
         WHERE written <= {first_of}({not_after}, {floor}::bigint + {AHEAD_MAX})"
    )
}

/// What is written, from `$1` to `$8`: slots, fences, states, due after, tenants, operations,
/// records, not-afters; then `$9` shift and `$10` floor.
const GIVEN: &str = "$1::bytea[], $2::uuid[], $3::smallint[], $4::bigint[], $5::text[],
                     $6::text[], $7::bytea[], $8::bigint[]";
const NAMES: &str = "slot, fence, state, due_after, tenant, operation, record, not_after";

/// Reads what was there before as well, so that whoever finds a slot taken asks once.
fn insert(records: &str) -> String {
    let source = format!("unnest({GIVEN}) AS given ({NAMES})");
    let ready = stamped(&source, "$9", "$10", "not_after");
    format!(
        "WITH done AS (
           INSERT INTO {records} (slot, fence, state, due, written, tenant, operation, record)
           SELECT slot, fence, state, {DUE}, written, tenant, operation, record
           FROM ({ready}) AS ready ORDER BY slot
           ON CONFLICT (slot) DO NOTHING
           RETURNING slot, written
         )
         SELECT slot, written, NULL::bytea, {RAW_MICROS} FROM done
         UNION ALL
         SELECT there.slot, there.written, there.record, {RAW_MICROS}
         FROM unnest($1::bytea[]) AS given (slot)
         JOIN {records} AS there ON there.slot = given.slot"
    )
}

/// The same parameters, none of them an array: half of what a statement for many costs is that
/// it is for many.
fn insert_one(records: &str) -> String {
    let ready = stamped(
        "(SELECT $4::bigint AS due_after) AS given",
        "$9",
        "$10",
        "$8::bigint",
    );
    format!(
        "INSERT INTO {records} (slot, fence, state, due, written, tenant, operation, record)
         SELECT $1::bytea, $2::uuid, $3::smallint, {DUE}, written, $5::text, $6::text, $7::bytea
         FROM ({ready}) AS ready
         ON CONFLICT (slot) DO NOTHING
         RETURNING slot, written, NULL::bytea, {RAW_MICROS}"
    )
}

/// Compares the fence in a slot with the one that was seen there.
fn is(fence: &str, seen: &str) -> String {
    match seeded(Bug::UpdateIgnoresFence) {
        false => format!("{fence} = {seen}"),
        true => format!("{seen} IS NOT NULL"),
    }
}

/// What locks the rows of a subselect before the clock is read.
fn lock(rows: &str) -> String {
    match seeded(Bug::StampBeforeLock) {
        false => format!("FOR NO KEY UPDATE OF {rows} SKIP LOCKED"),
        true => String::new(),
    }
}

/// As for an insert, and `$11` the fences seen.
fn replace(records: &str) -> String {
    let (is_seen, lock) = (is("held.fence", "given.seen"), lock("held"));
    let still = is("there.fence", "ready.seen");
    let locked = format!(
        "(SELECT given.* FROM unnest({GIVEN}, $11::uuid[]) AS given ({NAMES}, seen)
          JOIN {records} AS held ON held.slot = given.slot
          WHERE {is_seen}
          ORDER BY given.slot
          {lock}) AS locked"
    );
    let ready = stamped(&locked, "$9", "$10", "not_after");
    format!(
        "UPDATE {records} AS there
         SET fence = ready.fence, state = ready.state, due = ready.due, written = ready.written,
             tenant = ready.tenant, operation = ready.operation, record = ready.record
         FROM (SELECT *, {DUE} AS due FROM ({ready}) AS stamped) AS ready
         WHERE there.slot = ready.slot AND {still}
         RETURNING there.slot, there.written, ready.raw"
    )
}

/// The same parameters, none of them an array.
fn replace_one(records: &str) -> String {
    let (is_seen, lock) = (is("held.fence", "$11::uuid"), lock("held"));
    let still = is("there.fence", "$11::uuid");
    let locked = format!(
        "(SELECT slot, $4::bigint AS due_after FROM {records} AS held
          WHERE slot = $1::bytea AND {is_seen}
          {lock}) AS locked"
    );
    let ready = stamped(&locked, "$9", "$10", "$8::bigint");
    format!(
        "UPDATE {records} AS there
         SET fence = $2::uuid, state = $3::smallint, due = ready.due, written = ready.written,
             tenant = $5::text, operation = $6::text, record = $7::bytea
         FROM (SELECT *, {DUE} AS due FROM ({ready}) AS stamped) AS ready
         WHERE there.slot = ready.slot AND {still}
         RETURNING there.slot, there.written, ready.raw"
    )
}

/// `$1` slots, `$2` fences seen, `$3` not-afters, `$4` shift, `$5` floor.
fn remove(records: &str) -> String {
    let locked = format!(
        "(SELECT given.*
          FROM unnest($1::bytea[], $2::uuid[], $3::bigint[]) AS given (slot, seen, not_after)
          JOIN {records} AS held ON held.slot = given.slot
          WHERE held.fence = given.seen
          ORDER BY given.slot
          FOR UPDATE OF held SKIP LOCKED) AS locked"
    );
    let ready = stamped(&locked, "$4", "$5", "not_after");
    format!(
        "DELETE FROM {records} AS there USING ({ready}) AS ready
         WHERE there.slot = ready.slot AND there.fence = ready.seen
         RETURNING there.slot, ready.written, ready.raw"
    )
}

/// `$1` slots.
fn read(records: &str) -> String {
    format!(
        "SELECT given.slot, there.fence, there.written, there.record, {RAW_MICROS}
         FROM unnest($1::bytea[]) AS given (slot)
         LEFT JOIN {records} AS there ON there.slot = given.slot"
    )
}

/// `$1` before, `$2` limit, `$3` shift, `$4` floor. Gives one row with the count of the removed
/// (`NULL` where another node is sweeping) and the clock, then one for each record that is due and a
/// matter for the protocol: a lapsed claim, a reservation, a body that goes before its record.
///
/// The removal repeats what makes a record one to remove: what was chosen may have been given
/// more time before its lock was had.
fn sweep(records: &str, lock: i64) -> String {
    let never = i64::MAX;
    let (locked, again) = match seeded(Bug::DeleteUnchecked) {
        false => (
            "FOR UPDATE SKIP LOCKED",
            "AND there.state NOT IN (1, 5, 6) AND there.due < (SELECT at FROM horizon)",
        ),
        true => ("", ""),
    };
    format!(
        "WITH permit AS MATERIALIZED (
           SELECT pg_try_advisory_xact_lock({lock}) AS mine, {RAW_MICROS} AS raw
         ), horizon AS MATERIALIZED (
           SELECT CASE WHEN mine
                  THEN least($1::bigint, greatest(raw + $3::bigint, $4::bigint),
                             $4::bigint + {AHEAD_MAX})
                  ELSE 0 END AS at
           FROM permit
         ), expired AS MATERIALIZED (
           SELECT slot FROM {records}
           WHERE due < (SELECT at FROM horizon) AND due < {never} AND state NOT IN (1, 5, 6)
           ORDER BY due LIMIT $2::bigint
           {locked}
         ), gone AS (
           DELETE FROM {records} AS there USING expired
           WHERE there.slot = expired.slot {again}
           RETURNING 1
         ), lapsed AS MATERIALIZED (
           SELECT slot, written, record FROM {records}
           WHERE due < (SELECT at FROM horizon) AND due < {never} AND state = 1
           ORDER BY due LIMIT $2::bigint
         ), chores AS MATERIALIZED (
           SELECT slot, written, record FROM {records}
           WHERE due < (SELECT at FROM horizon) AND due < {never} AND state IN (5, 6)
           ORDER BY due LIMIT ($2::bigint + 1) / 2
         )
         SELECT NULL::bytea AS slot, CASE WHEN mine THEN (SELECT count(*) FROM gone) END AS number,
                NULL::bytea AS record, raw
         FROM permit
         UNION ALL
         SELECT slot, written, record, 0 FROM lapsed
         UNION ALL
         SELECT slot, written, record, 0 FROM chores"
    )
}

/// `$1` after, `$2` the window's end, `$3` tenant, `$4` operation, `$5` state, `$6` written
/// before, `$7` limit. Gives one row with the clock, then the records.
fn list(records: &str) -> String {
    format!(
        "(SELECT NULL::bytea AS slot, {RAW_MICROS} AS number, NULL::bytea AS record)
         UNION ALL
         (SELECT slot, written, record FROM {records}
          WHERE slot > $1 AND ($2::bytea IS NULL OR slot <= $2)
            AND ($3::text IS NULL OR tenant = $3)
            AND ($4::text IS NULL OR operation = $4)
            AND ($5::smallint[] IS NULL OR state = ANY ($5))
            AND ($6::bigint IS NULL OR written < $6)
          ORDER BY slot LIMIT $7::bigint)"
    )
}
