//! The layer that makes a service safe to retry.

use std::sync::Arc;

use http::request::Parts;
use onceward::Engine;
use tokio::sync::Semaphore;
use tower_layer::Layer;

use crate::problem::Naming;
use crate::quota::Quotas;
use crate::{Guard, Idempotent, Probe, Terms};

/// Makes the service below it safe to retry.
///
/// A request with an `Idempotency-Key` is executed at most once; every retry gets the first
/// answer, marked `Idempotent-Replayed: true`. A request without a key passes through untouched.
///
/// `caller_of` says who asks, from the head of the request, and has to be trustworthy: what one
/// caller stored, another must not read. Where it returns `None` a request with a key is refused.
///
/// The operation is method and path as the layer sees them. A layer within a nested router sees
/// the path without the router's prefix, so two of them on one engine need a
/// [name](Terms::operation) each; a layer around the outermost router does not.
///
/// ```
/// use http::{Request, Response, request::Parts};
/// use http_body_util::{BodyExt, Full};
/// use bytes::Bytes;
/// use onceward::{Engine, MemoryStore, Policy};
/// use onceward_http::{IdempotentLayer, RequestBody};
/// use std::convert::Infallible;
/// use tower::{ServiceBuilder, ServiceExt as _, service_fn};
///
/// fn caller_of(parts: &Parts) -> Option<String> {
///     // In real life: what authentication found out.
///     Some(parts.headers.get("x-account")?.to_str().ok()?.to_owned())
/// }
///
/// async fn pay(_: Request<RequestBody<Full<Bytes>>>) -> Result<Response<Full<Bytes>>, Infallible> {
///     Ok(Response::new(Full::from("charged")))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let engine = Engine::new(MemoryStore::new(), Policy::default());
/// let service = ServiceBuilder::new()
///     .layer(IdempotentLayer::new(engine, caller_of))
///     .service_fn(pay);
/// let request = || {
///     Request::post("/payments")
///         .header("x-account", "acct_42")
///         .header("idempotency-key", "order-1001")
///         .body(Full::<Bytes>::from("{}"))
///         .unwrap()
/// };
/// service.clone().oneshot(request()).await.unwrap();
/// let again = service.oneshot(request()).await.unwrap();
/// assert_eq!(again.headers()["idempotent-replayed"], "true");
/// assert_eq!(again.into_body().collect().await.unwrap().to_bytes(), "charged");
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct IdempotentLayer<C> {
    engine: Engine,
    terms: Terms,
    naming: Naming,
    probe: Option<Arc<dyn Probe>>,
    executions: Option<Arc<Semaphore>>,
    quotas: Option<Arc<Quotas>>,
    caller_of: C,
}

// === impl IdempotentLayer ===

impl<C> IdempotentLayer<C>
where
    C: Fn(&Parts) -> Option<String>,
{
    /// Returns a layer that keeps its records with `engine`, under its policy.
    pub fn new(engine: Engine, caller_of: C) -> Self {
        let policy = engine.policy().clone();
        let terms = match policy.on_busy {
            onceward::OnBusy::Wait(limit) => Terms::default().on_busy(crate::OnBusy::Wait(limit)),
            _ => Terms::default().on_busy(crate::OnBusy::Refuse),
        };
        Self {
            terms: terms.policy(policy),
            engine,
            naming: Naming::default(),
            probe: None,
            executions: None,
            quotas: None,
            caller_of,
        }
    }

    /// Sets what holds for the requests. The policy in `terms` counts, not the engine's.
    #[must_use]
    pub fn terms(mut self, terms: Terms) -> Self {
        self.terms = terms;
        self
    }

    /// Sets how problems are named.
    #[must_use]
    pub fn naming(mut self, naming: Naming) -> Self {
        self.naming = naming;
        self
    }

    /// Sets whom to ask about probed work whose holder fell silent.
    #[must_use]
    pub fn probe(mut self, probe: Arc<dyn Probe>) -> Self {
        self.probe = Some(probe);
        self
    }

    /// Begins nothing new while as many executions are under way as `permits` has permits.
    #[must_use]
    pub fn executions(mut self, permits: Arc<Semaphore>) -> Self {
        self.executions = Some(permits);
        self
    }

    /// Sets what one caller may take. Layers may share it.
    #[must_use]
    pub fn quotas(mut self, quotas: Arc<Quotas>) -> Self {
        self.quotas = Some(quotas);
        self
    }
}

impl<S, C: Clone> Layer<S> for IdempotentLayer<C> {
    type Service = Idempotent<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        let mut guard = Guard::new(&self.engine, self.terms.clone()).naming(self.naming.clone());
        if let Some(probe) = &self.probe {
            guard = guard.probe(probe.clone());
        }
        if let Some(permits) = &self.executions {
            guard = guard.executions(permits.clone());
        }
        if let Some(quotas) = &self.quotas {
            guard = guard.quotas(quotas.clone());
        }
        Idempotent::new(inner, guard, self.caller_of.clone())
    }
}
