//! The admin listener: health, readiness and numbers.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use http::{StatusCode, header};
use metrics_exporter_prometheus::PrometheusHandle;
use onceward::{Engine, SlotId};
use onceward_stores::Regressed;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::config::Config;

/// What the admin listener tells about.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) engine: Engine,
    pub(crate) config: Config,
    pub(crate) numbers: Option<PrometheusHandle>,
    /// How many acknowledged answers the store was found to lack, where somebody can tell.
    pub(crate) regressed: Option<Regressed>,
    pub(crate) closing: CancellationToken,
}

/// How long readiness waits for the store.
const STORE_PATIENCE: Duration = Duration::from_secs(2);

// === impl Admin ===

impl Admin {
    pub(crate) fn router(self) -> Router {
        Router::new()
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .with_state(Arc::new(self))
    }

    /// Whether new work can be taken, or why not.
    async fn is_ready(&self) -> Result<(), &'static str> {
        if self.closing.is_cancelled() {
            return Err("shutting down");
        }
        let look = self.engine.store().get(SlotId::RESERVED);
        match tokio::time::timeout(STORE_PATIENCE, look).await {
            Ok(Ok(_)) if self.is_refused() => Err("strict = true, and the store can forget"),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err("the store is unavailable"),
            Err(_) => Err("the store does not answer"),
        }
    }

    /// Whether the store is no longer what a strict gateway may start on.
    fn is_refused(&self) -> bool {
        let class = self.engine.store().durability();
        self.config.refuses(class).is_some()
    }
}

/// The process runs; nothing more.
async fn healthz() -> &'static str {
    "ok\n"
}

/// The process can take work: its store answers and keeps what it should, and it is not shutting
/// down.
async fn readyz(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    let store = admin.engine.store();
    let (status, why) = match admin.is_ready().await {
        Ok(()) => (StatusCode::OK, None),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, Some(why)),
    };
    let mut body = json!({
        "ready": why.is_none(),
        "why": why,
        "store": store.kind(),
        "durability": format!("{:?}", store.durability()),
    });
    // Work can be taken all the same, and no other node knows better: this is for people.
    if let Some(regressed) = &admin.regressed {
        body["regressed"] = regressed().into();
    }
    (status, Json(body))
}

async fn metrics(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    let text = admin.numbers.as_ref().map(PrometheusHandle::render);
    let media_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    match text {
        Some(text) => (StatusCode::OK, media_type, text),
        None => (
            StatusCode::NOT_FOUND,
            media_type,
            "# another recorder has the numbers of this process\n".into(),
        ),
    }
}
