//! The shortest way: an axum service whose payments are safe to retry.
//!
//! Records live in memory, so they are gone when the program ends; `axum_embedded` keeps them.
//!
//! Run it with `cargo run -p onceward-http --features axum --example axum_memory`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::post;
use axum::{Json, Router};
use onceward::{Engine, MemoryStore, Policy};
use onceward_http::axum::Attempt;
use onceward_http::{IdempotentLayer, KeyNeed, Terms};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("Pay once, and send it again: the second answer is the first one, replayed.\n");
    println!("{}", curl("order-1001", 100));
    println!("\nAnother amount under the same key is refused:\n");
    println!("{}", curl("order-1001", 200));
    axum::serve(listener, app()).await
}

fn curl(key: &str, amount: u32) -> String {
    format!(
        "curl -i http://127.0.0.1:3000/payments -H 'X-Account: acct_42' \
         -H 'Idempotency-Key: {key}' --json '{{\"amount\":{amount}}}'"
    )
}

/// The whole service.
pub(crate) fn app() -> Router {
    let engine = Engine::new(MemoryStore::new(), Policy::default());
    // Nobody pays without a key here. By default a request without one is passed through.
    let terms = Terms::default().key(KeyNeed::Required);
    Router::new()
        .route("/payments", post(pay))
        .layer(IdempotentLayer::new(engine, account_of).terms(terms))
        .with_state(Arc::new(AtomicU32::new(0)))
}

/// Who asks. Two callers never see each other's answers, so this has to be trustworthy: what
/// your authentication found out, and not a header that anybody can send, as it is here.
fn account_of(request: &Parts) -> Option<String> {
    let account = request.headers.get("x-account")?;
    Some(account.to_str().ok()?.to_owned())
}

/// Charges a card. It knows nothing of retries: whoever sends the same key again gets the answer
/// of the first time, and this does not run.
async fn pay(
    attempt: Attempt,
    State(charges): State<Arc<AtomicU32>>,
    Json(order): Json<Value>,
) -> (StatusCode, Json<Value>) {
    let charge = charges.fetch_add(1, Ordering::Relaxed) + 1;
    // Forward the key to services that deduplicate on it.
    println!("charge {charge} under key {}", attempt.key().as_str());
    let paid = json!({ "charge": charge, "amount": order["amount"] });
    (StatusCode::CREATED, Json(paid))
}
