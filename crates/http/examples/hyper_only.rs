//! Without a framework: hyper serves, and the layer stands around a function.
//!
//! Run it with `cargo run -p onceward-http --example hyper_only`.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use onceward::{Engine, MemoryStore, Policy};
use onceward_http::{AnswerBody, Boxed, IdempotentLayer, RequestBody};
use tokio::io::{AsyncRead, AsyncWrite};
use tower::util::BoxCloneService;
use tower::{Layer as _, ServiceExt as _, service_fn};

/// The service with its layer: one clone for each connection.
type Shop =
    BoxCloneService<Request<Incoming>, Response<AnswerBody<Boxed<Full<Bytes>>>>, Infallible>;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("Send this twice; the second answer says Idempotent-Replayed: true:\n");
    println!(
        "curl -i http://127.0.0.1:3000/payments -H 'X-Account: acct_42' \
         -H 'Idempotency-Key: order-1001' -d amount=100"
    );
    let shop = shop();
    loop {
        let (connection, _) = listener.accept().await?;
        tokio::spawn(serve(connection, shop.clone()));
    }
}

/// Serves one connection to its end.
pub(crate) async fn serve<C>(connection: C, shop: Shop)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(shop);
    let served = http1::Builder::new()
        .serve_connection(TokioIo::new(connection), service)
        .await;
    if let Err(error) = served {
        eprintln!("{error}");
    }
}

/// The whole service.
pub(crate) fn shop() -> Shop {
    let engine = Engine::new(MemoryStore::new(), Policy::default());
    let charges = Arc::new(AtomicU32::new(0));
    let pay = service_fn(move |request| pay(request, charges.clone()));
    // Records belong to the engine, so the layer is applied once and its service cloned.
    IdempotentLayer::new(engine, account_of)
        .layer(pay)
        .boxed_clone()
}

/// Who asks: what authentication found out, in real life.
fn account_of(request: &Parts) -> Option<String> {
    let account = request.headers.get("x-account")?;
    Some(account.to_str().ok()?.to_owned())
}

/// Charges a card.
async fn pay(
    request: Request<RequestBody<Incoming>>,
    charges: Arc<AtomicU32>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let charge = charges.fetch_add(1, Ordering::Relaxed) + 1;
    // A request with a key has an attempt in its extensions, and its whole body in memory.
    let protected = request.extensions().get::<onceward::Attempt>().is_some();
    let text = format!("charge {charge}, protected: {protected}\n");
    Ok(Response::new(Full::from(text)))
}
