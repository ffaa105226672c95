//! An axum service as it would run on one machine: records in a folder, callers told apart by
//! their tokens, and an orderly end.
//!
//! Run it with `cargo run -p onceward-http --features axum --example axum_embedded`, stop it with
//! Ctrl-C, start it again, and retry: the answer is still there.

use std::time::Duration;

use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use onceward::{BoxError, Effect, Engine, Pace, Policy};
use onceward_http::axum::Attempt;
use onceward_http::{Fate, IdempotentLayer, Terms};
use onceward_stores::{StoreUrl, open};
use serde_json::{Value, json};

/// How long running work may take when the program is asked to stop.
const GRACE: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // "memory:" would do as well, and other stores have other URLs.
    let engine = engine("embedded:./onceward-data")?;
    // Removes what has expired, for as long as it lives.
    let sweeper = engine.sweeper(Pace::default());

    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("Pay, stop the program, start it again, and pay again:\n");
    println!(
        "curl -i http://127.0.0.1:3000/payments -H 'Authorization: Bearer alices-token' \
         -H 'Idempotency-Key: order-1001' --json '{{\"amount\":100}}'"
    );
    println!("\nAn amount of 0 is turned away without using the key up:\n");
    println!(
        "curl -i http://127.0.0.1:3000/payments -H 'Authorization: Bearer alices-token' \
         -H 'Idempotency-Key: order-1002' --json '{{\"amount\":0}}'"
    );
    axum::serve(listener, app(&engine))
        .with_graceful_shutdown(async {
            let _ = tokio::signal::ctrl_c().await;
        })
        .await?;

    // Callers may be gone while their work still runs. What does not end in time is marked
    // unknown, so that nobody executes it a second time.
    drop(sweeper);
    let left = engine.shutdown(GRACE).await;
    println!("{} operations were left unknown", left.len());
    Ok(())
}

/// Opens the store that `url` names. Blocks while it reads what is there.
pub(crate) fn engine(url: &str) -> Result<Engine, BoxError> {
    let url: StoreUrl = url.parse()?;
    Ok(Engine::builder(open(&url)?).build())
}

/// The whole service.
pub(crate) fn app(engine: &Engine) -> Router {
    let policy = Policy::default()
        // Longer than any caller goes on retrying.
        .retention(Duration::from_secs(7 * 86_400))
        // Nothing is known about a charge that was cut off, so nobody tries it again.
        .effect(Effect::Opaque);
    let layer = IdempotentLayer::new(engine.clone(), account_of);
    Router::new()
        .route("/payments", post(pay))
        .layer(layer.terms(Terms::default().policy(policy)))
}

/// Who asks: the owner of the token, and not the token, which may be renewed between two
/// attempts. Whoever has none gets 401.
fn account_of(request: &Parts) -> Option<String> {
    let credential = request.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    // A database in real life.
    let account = match credential.strip_prefix("Bearer ")? {
        "alices-token" | "alices-new-token" => "alice",
        "bobs-token" => "bob",
        _ => return None,
    };
    Some(account.to_owned())
}

/// Charges a card.
async fn pay(attempt: Option<Attempt>, Json(order): Json<Value>) -> impl IntoResponse {
    if order["amount"] == 0 {
        // A handler knows better than its status what it did: here nothing, so that the same key
        // may be used again with another amount.
        let turned_away = Json(json!({ "error": "nothing to pay" }));
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        return (status, axum::Extension(Fate::Release), turned_away).into_response();
    }
    let protected = attempt.is_some();
    let paid = json!({ "amount": order["amount"], "protected": protected });
    (StatusCode::CREATED, Json(paid)).into_response()
}
