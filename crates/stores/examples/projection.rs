//! A projection: balances made from a feed of events, which commits its position and the key of
//! each event together with what it makes of it.
//!
//! Kill it at any moment and start it again, or start two: every event counts once. The position
//! says where to go on; the key `<projection>/<event>` says that an event was dealt with even where
//! the feed delivers it again, out of turn or by another way.
//!
//! A position may only move on if nothing can appear before it any more. Numbers of a sequence are
//! given out before their transactions commit, in whatever order those do, so whoever writes the
//! feed locks it first: one transaction at a time, and numbers grow in the order of commits. (The
//! outbox of the store does so for each key.)
//!
//! ```text
//! DATABASE_URL=postgres://postgres@127.0.0.1/postgres \
//!   cargo run -p onceward-stores --features postgres --example projection
//! ```

use std::env;

use onceward::{BoxError, Fingerprint, Key, Outcome, Policy, Scope, Slot};
use onceward_stores::postgres::{Connections, PostgresStore, Settings, Transactional};

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS feed
      (position bigserial PRIMARY KEY, account text NOT NULL, amount bigint NOT NULL);
    CREATE TABLE IF NOT EXISTS balances (account text PRIMARY KEY, balance bigint NOT NULL);
    CREATE TABLE IF NOT EXISTS positions (projection text PRIMARY KEY, position bigint NOT NULL);
    INSERT INTO positions VALUES ('balances', 0) ON CONFLICT DO NOTHING;";

/// An event of the feed.
struct Event {
    position: i64,
    account: String,
    amount: i64,
}

struct Projection {
    keys: Transactional,
    pool: Connections,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = env::var("DATABASE_URL").or_else(|_| env::var("ONCEWARD_STORE"))?;
    let settings: Settings = url.parse()?;
    let store = tokio::task::spawn_blocking(|| PostgresStore::open(settings)).await??;
    let pool = Connections::new(store.settings(), 2);
    let connection = pool.get().await?;
    connection.batch_execute(TABLES).await?;
    // Readers do not wait for this lock; other writers do, until the commit.
    let some = "BEGIN;
                LOCK TABLE feed IN SHARE ROW EXCLUSIVE MODE;
                INSERT INTO feed (account, amount)
                SELECT 'account-' || n % 3, n FROM generate_series(1, 30) n;
                COMMIT";
    connection.batch_execute(some).await?;
    drop(connection);

    let projection = Projection {
        keys: Transactional::new(&store, Policy::default()).await?,
        pool,
    };
    let mut count = 0;
    while let Some(event) = projection.next().await? {
        // As a feed that delivers at least once does.
        for _ in 0..2 {
            projection.apply(&event).await?;
        }
        count += 1;
    }
    println!("{count} events were new, and each counted once");
    Ok(())
}

// === impl Projection ===

impl Projection {
    /// The first event after the position.
    async fn next(&self) -> Result<Option<Event>, BoxError> {
        let after = "SELECT feed.position, account, amount FROM feed JOIN positions
                     ON projection = 'balances' AND feed.position > positions.position
                     ORDER BY feed.position LIMIT 1";
        let row = self.pool.get().await?.query_opt(after, &[]).await?;
        Ok(row.map(|row| Event {
            position: row.get(0),
            account: row.get(1),
            amount: row.get(2),
        }))
    }

    /// Counts an event, moves the position and keeps the key: all of it, or none.
    async fn apply(&self, event: &Event) -> Result<(), BoxError> {
        let key = Key::parse(&format!("balances/{}", event.position))?;
        let slot = Slot::new(Scope::new("accounts", "project"), key);
        let fingerprint = Fingerprint::of(&event.amount.to_le_bytes());
        let run = self
            .keys
            .run(&self.pool, &slot, fingerprint, |tx| async move {
                let add = "INSERT INTO balances VALUES ($1, $2) ON CONFLICT (account)
                       DO UPDATE SET balance = balances.balance + EXCLUDED.balance";
                tx.execute(add, &[&event.account, &event.amount]).await?;
                let forward = "UPDATE positions SET position = greatest(position, $1)
                           WHERE projection = 'balances'";
                tx.execute(forward, &[&event.position]).await?;
                Ok::<_, BoxError>(Outcome::success(""))
            });
        run.await?;
        Ok(())
    }
}
