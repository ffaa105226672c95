//! A payments service whose charge, ledger and event commit together with the caller's key.
//!
//! Kill it at any moment, start it again and retry with the same key: there is one charge, one
//! line in the ledger and one event, and every retry gets the first answer.
//!
//! ```text
//! DATABASE_URL=postgres://postgres@127.0.0.1/postgres \
//!   cargo run -p onceward-stores --features postgres --example charges
//! ```

use std::env;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use onceward::{BoxError, Ending, Fingerprint, Key, Outcome, Policy, RunError, Scope, Slot};
use onceward_stores::postgres::{
    Connections, Event, PostgresStore, Relay, RelayPace, Settings, Transactional,
};
use serde_json::{Value, json};

/// What the business keeps. The mailbox stands for whoever hears of charges.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS accounts (name text PRIMARY KEY, balance bigint NOT NULL);
    CREATE TABLE IF NOT EXISTS charges
      (id bigserial PRIMARY KEY, key text, account text, amount bigint);
    CREATE TABLE IF NOT EXISTS ledger
      (id bigserial PRIMARY KEY, charge bigint NOT NULL, account text, amount bigint);
    CREATE TABLE IF NOT EXISTS mailbox (event bigint PRIMARY KEY, body text NOT NULL);";

struct Service {
    keys: Transactional,
    pool: Connections,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = env::var("DATABASE_URL").or_else(|_| env::var("ONCEWARD_STORE"))?;
    let settings: Settings = url.parse()?;
    // Opening blocks: it connects and brings the tables of the store up to date.
    let store = tokio::task::spawn_blocking(|| PostgresStore::open(settings)).await??;
    let pool = Connections::new(store.settings(), 8);
    make_tables(&pool).await?;
    let service = Service {
        keys: Transactional::new(&store, Policy::default()).await?,
        pool: pool.clone(),
    };
    // Any number of nodes may run one: an event is with one of them at a time.
    let relay = Relay::start(&store, RelayPace::default(), move |event| {
        deliver(pool.clone(), event)
    });

    let listen = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(&listen).await?;
    println!("listening on {}", listener.local_addr()?);
    println!(
        "curl -i http://{}/charges -H 'Idempotency-Key: order-1001' \
         --json '{{\"account\":\"alice\",\"amount\":100}}'",
        listener.local_addr()?
    );
    let app = Router::new().route("/charges", post(charge));
    axum::serve(listener, app.with_state(Arc::new(service)))
        .with_graceful_shutdown(async {
            let _ = tokio::signal::ctrl_c().await;
        })
        .await?;
    relay.stop().await;
    Ok(())
}

/// Charges an account, once for each key.
async fn charge(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    Json(order): Json<Value>,
) -> Response {
    let key = headers
        .get("idempotency-key")
        .and_then(|key| key.to_str().ok());
    let Some(key) = key.and_then(|key| Key::parse(key).ok()) else {
        return (StatusCode::BAD_REQUEST, "send an Idempotency-Key").into_response();
    };
    let (Some(account), Some(amount)) = (order["account"].as_str(), order["amount"].as_i64())
    else {
        return (StatusCode::BAD_REQUEST, "send an account and an amount").into_response();
    };
    // Whoever was authenticated, in real life.
    let slot = Slot::new(Scope::new("shop", "charge"), key);
    let fingerprint = Fingerprint::builder(0)
        .part(account.as_bytes())
        .part(&amount.to_le_bytes())
        .finish();
    let Service { keys, pool } = &*service;
    let answer = keys.run(pool, &slot, fingerprint, |mut tx| async move {
        let pay = "UPDATE accounts SET balance = balance - $2 WHERE name = $1 AND balance >= $2";
        if tx.execute(pay, &[&account, &amount]).await? == 0 {
            // Final, and kept: a retry gets the same answer, even if money has come since.
            return Ok::<_, BoxError>(Outcome::failure("no money"));
        }
        let insert = "INSERT INTO charges (key, account, amount) VALUES ($1, $2, $3) RETURNING id";
        let row = tx
            .query_one(insert, &[&tx.key().as_str(), &account, &amount])
            .await?;
        let id: i64 = row.get(0);
        let note = "INSERT INTO ledger (charge, account, amount) VALUES ($1, $2, $3)";
        tx.execute(note, &[&id, &account, &amount]).await?;
        let body = json!({ "charge": id, "account": account, "amount": amount }).to_string();
        tx.stage("charged", account, body.as_bytes()).await?;
        Ok(Outcome::success(body))
    });
    match answer.await {
        Ok(answer) => {
            let status = match answer.outcome.ending {
                Ending::Success => StatusCode::CREATED,
                Ending::Failure => StatusCode::PAYMENT_REQUIRED,
            };
            let replayed = [("idempotent-replayed", answer.replayed.to_string())];
            let body = answer.outcome.body().cloned().unwrap_or_default();
            (status, replayed, body).into_response()
        }
        Err(error) => refusal(&error),
    }
}

/// What to tell a caller that gets no answer. The same key may be used again in every case.
fn refusal(error: &RunError) -> Response {
    let status = match error {
        RunError::Busy(_) | RunError::Unknown(_) => StatusCode::CONFLICT,
        RunError::Mismatch => StatusCode::UNPROCESSABLE_ENTITY,
        // The database is away, or the line broke and nobody could be asked what became of it.
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, [("retry-after", "1")], error.to_string()).into_response()
}

/// Delivers an event. It may come twice, and its number tells.
async fn deliver(pool: Connections, event: Event) -> Result<(), BoxError> {
    let body = std::str::from_utf8(&event.payload)?;
    let keep = "INSERT INTO mailbox (event, body) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    pool.get()
        .await?
        .execute(keep, &[&event.number, &body])
        .await?;
    Ok(())
}

/// Makes the tables and some accounts. One node at a time: `IF NOT EXISTS` alone is a race.
async fn make_tables(pool: &Connections) -> Result<(), BoxError> {
    let mut connection = pool.get().await?;
    let tx = connection.transaction().await?;
    tx.batch_execute("SELECT pg_advisory_xact_lock(2026)")
        .await?;
    tx.batch_execute(TABLES).await?;
    tx.batch_execute(
        "INSERT INTO accounts VALUES ('alice', 1000000), ('bob', 1000000) ON CONFLICT DO NOTHING",
    )
    .await?;
    tx.commit().await?;
    Ok(())
}
