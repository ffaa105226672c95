//! The schema: the tables, and how they come to be and change.
//!
//! Every change is a numbered migration that is never edited once released. They run one after the
//! other, each in a transaction of its own under an advisory lock, so that nodes which start
//! together take turns and a crash leaves a whole version behind.
//!
//! **How records are laid out.** `slot` finds a record; what a store may look at stands beside the
//! encoded record in columns of its own. Two partial indexes go by `due`: claims whose lease may
//! lapse are in the one, what may expire in the other, and what never comes due is in neither. A
//! record is in at most one of them, so the second costs a write nothing.
//!
//! **Why expiry is no storm.** Records are spread over time by when they were written, and so is
//! their end. A sweep removes a few hundred at a time, in the order in which they came due: that
//! is the order in which they lie on the pages, so pages empty together and are filled again.
//! Rows that somebody holds are skipped, one node sweeps at a time, and autovacuum is told to come
//! by after a fiftieth of the table instead of a fifth. Dropping partitions by day would be
//! cheaper still, but a unique slot cannot span partitions that go by time, and the slot is what
//! the promise rests on.

use std::time::Duration;

use futures_util::TryFutureExt as _;
use tokio_postgres::Client;

use super::SERVER;
use super::session::in_time;
use super::trouble::refusal;
use super::{Settings, outbox};
use crate::OpenError;

/// One change of the schema.
pub(super) struct Migration {
    /// The version that it leads to.
    pub(super) version: i32,
    /// What it does, in a few words.
    pub(super) what: &'static str,
    /// The statements.
    sql: fn(&Settings) -> Vec<String>,
}

/// All changes, in their order. Released ones stay as they are.
pub(super) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    what: "records, clock, outbox",
    sql: first,
}];

/// The newest version that this program knows.
pub(super) const KNOWN: i32 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// What migrating did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Migrated {
    /// The version that was there: 0 where there was nothing.
    pub from: i32,
    /// The version that is there now.
    pub to: i32,
}

/// How long migrating may take, waiting for others included.
const PATIENCE: Duration = Duration::from_secs(60);

fn first(settings: &Settings) -> Vec<String> {
    let records = settings.table("records");
    let clock = settings.table("clock");
    let plain = |name: &str| settings.plain(name);
    let never = i64::MAX;
    vec![
        format!(
            "CREATE TABLE {records} (
               slot bytea NOT NULL,
               fence uuid NOT NULL,
               state smallint NOT NULL,
               due bigint NOT NULL,
               written bigint NOT NULL,
               tenant text NOT NULL,
               operation text NOT NULL,
               record bytea NOT NULL,
               CONSTRAINT {} PRIMARY KEY (slot)
             ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02,
                     autovacuum_vacuum_insert_scale_factor = 0.2,
                     autovacuum_analyze_scale_factor = 0.1,
                     autovacuum_vacuum_cost_delay = 1)",
            plain("records_pkey"),
        ),
        // Bodies are compressed by whoever made them, or not worth it.
        format!("ALTER TABLE {records} ALTER COLUMN record SET STORAGE EXTERNAL"),
        format!(
            "CREATE INDEX {} ON {records} (due) WHERE state <> 1 AND due < {never}",
            plain("records_due"),
        ),
        format!(
            "CREATE INDEX {} ON {records} (due) WHERE state = 1 AND due < {never}",
            plain("records_lapse"),
        ),
        format!(
            "CREATE TABLE {clock} (
               id smallint PRIMARY KEY CHECK (id = 1),
               guarded bigint NOT NULL
             ) WITH (fillfactor = 50)"
        ),
        outbox::create(settings),
    ]
}

/// Brings the schema up to date, or says why that is not allowed.
pub(super) async fn prepare(client: &Client, settings: &Settings) -> Result<Migrated, OpenError> {
    let place = || settings.place();
    let from = version(client, settings).await?;
    let behind = match from.cmp(&KNOWN) {
        std::cmp::Ordering::Greater => {
            return Err(OpenError::NewerSchema {
                place: place(),
                found: from,
                known: KNOWN,
            });
        }
        order => order.is_lt(),
    };
    if behind && !settings.migrates {
        return Err(OpenError::MigrationNeeded {
            place: place(),
            found: from,
            known: KNOWN,
        });
    }
    if behind {
        migrate(client, settings).await?;
    }
    Ok(Migrated { from, to: KNOWN })
}

/// The version of the schema: 0 where there is none.
pub(super) async fn version(client: &Client, settings: &Settings) -> Result<i32, OpenError> {
    let read = async {
        // Asked first, for a table that is missing would be an error in the server's log.
        let there = "SELECT EXISTS (
               SELECT FROM pg_catalog.pg_class AS it
               JOIN pg_catalog.pg_namespace AS home ON home.oid = it.relnamespace
               WHERE home.nspname = $1 AND it.relname = $2)";
        let name = format!("{}schema_version", settings.prefix());
        let there = client
            .query_one(there, &[&settings.schema(), &name])
            .await?;
        if !there.try_get::<_, bool>(0)? {
            return Ok(0);
        }
        let table = settings.table("schema_version");
        let read = format!("SELECT coalesce(max(version), 0) FROM {table}");
        client.query_one(&read, &[]).await?.try_get(0)
    };
    let read = read.map_err(|error: tokio_postgres::Error| refusal(settings, &error));
    in_time(settings, read).await
}

async fn migrate(client: &Client, settings: &Settings) -> Result<(), OpenError> {
    let done = tokio::time::timeout(PATIENCE, steps(client, settings)).await;
    let timed_out = |_| OpenError::Server {
        server: SERVER,
        place: settings.place(),
        why: "migrating did not end within a minute: another node is at it, or it fell silent"
            .to_owned(),
    };
    done.map_err(timed_out)?
        .map_err(|error| refusal(settings, &error))
}

async fn steps(client: &Client, settings: &Settings) -> Result<(), tokio_postgres::Error> {
    // Building an index takes as long as it takes, and so does the turn of another node.
    let limits = "SET statement_timeout = 0; SET lock_timeout = 0; SET enable_seqscan = on";
    client.batch_execute(limits).await?;
    for migration in MIGRATIONS {
        client.batch_execute("BEGIN").await?;
        let applied = apply(client, settings, migration).await;
        match applied {
            Ok(()) => client.batch_execute("COMMIT").await?,
            Err(error) => {
                // The first error is the one to tell of.
                let _ = client.batch_execute("ROLLBACK").await;
                return Err(error);
            }
        }
    }
    client.batch_execute(&super::sql::session(settings)).await
}

async fn apply(
    client: &Client,
    settings: &Settings,
    migration: &Migration,
) -> Result<(), tokio_postgres::Error> {
    let lock = settings.lock("migrate");
    let lock = format!("SELECT pg_advisory_xact_lock({lock})");
    client.batch_execute(&lock).await?;
    prepare_table(client, settings).await?;
    // Once the lock is had: another node may have been faster.
    let versions = settings.table("schema_version");
    let read = format!("SELECT coalesce(max(version), 0) FROM {versions}");
    let version: i32 = client.query_one(&read, &[]).await?.try_get(0)?;
    if version >= migration.version {
        return Ok(());
    }
    for statement in (migration.sql)(settings) {
        client.batch_execute(&statement).await?;
    }
    let note = format!("INSERT INTO {versions} (version, what) VALUES ($1, $2)");
    client
        .execute(&note, &[&migration.version, &migration.what])
        .await?;
    tracing::info!(version = migration.version, "the schema was migrated");
    Ok(())
}

/// Makes the schema and the table of versions, if they are missing.
///
/// A role that may not create schemas can use one that somebody else made for it, so nothing is
/// created that is there: `IF NOT EXISTS` would ask for the right all the same.
async fn prepare_table(client: &Client, settings: &Settings) -> Result<(), tokio_postgres::Error> {
    let there = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)";
    let there = client.query_one(there, &[&settings.schema()]).await?;
    if !there.try_get::<_, bool>(0)? {
        let create = format!("CREATE SCHEMA {}", settings.quoted_schema());
        client.batch_execute(&create).await?;
    }
    let versions = settings.table("schema_version");
    let create = format!(
        "CREATE TABLE IF NOT EXISTS {versions} (
           version int PRIMARY KEY,
           what text NOT NULL,
           applied timestamptz NOT NULL DEFAULT now()
         )"
    );
    client.batch_execute(&create).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_from_one_without_a_gap() {
        let versions = MIGRATIONS.iter().map(|it| it.version);
        assert!(versions.eq(1..=KNOWN));
    }
}
