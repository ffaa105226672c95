//! A saga: steps that can each be undone, under the keys `<saga>/<step>` and
//! `<saga>/<step>/compensate`.
//!
//! However often it is started, and wherever it was killed before, every step and every
//! compensation is done once. A step that refuses is final: the steps before it are undone, last
//! first.
//!
//! ```text
//! DATABASE_URL=postgres://postgres@127.0.0.1/postgres \
//!   cargo run -p onceward-stores --features postgres --example saga -- trip-1
//! ```
//!
//! `trip-2 hotel` is a trip whose hotel is full.
//!
//! Keys are forgotten after their retention, and a step whose key is forgotten would be done again.
//! Choose one that outlives the longest time after which a saga may still be started again.

use std::env;

use onceward::{BoxError, Ending, Fingerprint, Key, Outcome, Policy, Scope, Slot};
use onceward_stores::postgres::{Connections, PostgresStore, Settings, Transactional};

const STEPS: [&str; 3] = ["flight", "hotel", "payment"];

struct Saga {
    keys: Transactional,
    pool: Connections,
    name: String,
    /// The step that refuses, to see what happens then.
    full: Option<String>,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = env::var("DATABASE_URL").or_else(|_| env::var("ONCEWARD_STORE"))?;
    let settings: Settings = url.parse()?;
    let store = tokio::task::spawn_blocking(|| PostgresStore::open(settings)).await??;
    let pool = Connections::new(store.settings(), 2);
    let tables = "CREATE TABLE IF NOT EXISTS bookings
                    (saga text, step text, done text, at timestamptz DEFAULT now())";
    pool.get().await?.batch_execute(tables).await?;
    let mut arguments = env::args().skip(1);
    let saga = Saga {
        keys: Transactional::new(&store, Policy::default()).await?,
        pool,
        name: arguments.next().unwrap_or_else(|| "trip-1".to_owned()),
        full: arguments.next(),
    };
    println!(
        "{}",
        if saga.run().await? {
            "booked"
        } else {
            "undone"
        }
    );
    Ok(())
}

// === impl Saga ===

impl Saga {
    /// Goes through the steps, and back again where one refuses. Returns whether all were done.
    async fn run(&self) -> Result<bool, BoxError> {
        for (at, step) in STEPS.iter().enumerate() {
            if self.once(step, "book").await? == Ending::Success {
                continue;
            }
            for done in STEPS[..at].iter().rev() {
                self.once(&format!("{done}/compensate"), "cancel").await?;
            }
            return Ok(false);
        }
        Ok(true)
    }

    /// Does a step, or finds out how it ended.
    async fn once(&self, step: &str, deed: &str) -> Result<Ending, BoxError> {
        let key = Key::parse(&format!("{}/{step}", self.name))?;
        let slot = Slot::new(Scope::new("travel", "saga"), key);
        // The key says it all: a step has no payload that could differ between two tries.
        let fingerprint = Fingerprint::of(step.as_bytes());
        let (name, is_full) = (&self.name, self.full.as_deref() == Some(step));
        let run = self
            .keys
            .run(&self.pool, &slot, fingerprint, |tx| async move {
                if is_full {
                    return Ok::<_, BoxError>(Outcome::failure("nothing is free"));
                }
                let insert = "INSERT INTO bookings (saga, step, done) VALUES ($1, $2, $3)";
                tx.execute(insert, &[name, &step, &deed]).await?;
                Ok(Outcome::success(deed.to_owned()))
            });
        let answer = run.await?;
        let known = if answer.replayed { "known" } else { "new" };
        println!(
            "{}/{step}: {:?} ({known})",
            self.name, answer.outcome.ending
        );
        Ok(answer.outcome.ending)
    }
}
