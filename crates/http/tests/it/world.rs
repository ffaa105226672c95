//! A shop to test: a service that takes payments behind the layer, with the store, the clock and
//! every frame in a test's hands.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use onceward::testing::World;
use onceward::{BoxError, Key, Record, Scope, Slot, State};
use onceward_http::quota::Quotas;
use onceward_http::{
    AnswerBody, Boxed, Handled, Idempotent, IdempotentLayer, Probe, RequestBody, Terms,
};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tower::{Layer, Service, ServiceExt as _};

/// A body of a test, in either direction.
pub(crate) type Sent = UnsyncBoxBody<Bytes, BoxError>;

/// What the layer answers.
pub(crate) type Answer = Response<AnswerBody<Boxed<Sent>>>;

/// What the service answers.
pub(crate) type Answered = Result<Response<Sent>, BoxError>;

type CallerOf = fn(&Parts) -> Option<String>;

/// A service behind the layer, in a world.
#[derive(Clone, Debug)]
pub(crate) struct Shop {
    pub(crate) world: World,
    terms: Terms,
    probe: Option<Arc<dyn Probe>>,
    pub(crate) executions: Option<Arc<Semaphore>>,
    pub(crate) quotas: Option<Arc<Quotas>>,
    handler: Handler,
}

/// The service, which counts how often it runs.
#[derive(Clone)]
pub(crate) struct Handler {
    runs: Arc<AtomicUsize>,
    work: Arc<dyn Fn(Run) -> BoxFuture<'static, Answered> + Send + Sync>,
}

/// One run of the service.
#[derive(Debug)]
pub(crate) struct Run {
    /// Which run this is, from 1.
    pub(crate) number: usize,
    pub(crate) request: Request<RequestBody<Sent>>,
}

/// An answer that was read to its end.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
    /// Whether the body ended before its end.
    pub(crate) cut: bool,
    pub(crate) handled: Handled,
}

/// The writing end of a body.
#[derive(Clone, Debug)]
pub(crate) struct Pipe(mpsc::UnboundedSender<Result<Frame<Bytes>, BoxError>>);

/// A body that says how long it is.
#[derive(Debug)]
struct Announced {
    body: Sent,
    left: u64,
}

/// What changes a request.
pub(crate) trait Change {
    fn with(self, name: &'static str, value: &str) -> Self;
    fn without(self, name: &'static str) -> Self;
    fn to(self, method: Method, target: &'static str) -> Self;
    fn saying(self, body: &'static str) -> Self;
}

/// Returns a payment of 100 under `key`, by alice.
pub(crate) fn pay(key: &str) -> Request<Sent> {
    let keyed = Request::post("/payments").header("idempotency-key", key);
    keyed.header("x-caller", "alice").body(full("100")).unwrap()
}

/// Returns an answer with this status and body.
pub(crate) fn answer(status: u16, body: &'static str) -> Response<Sent> {
    let answer = Response::builder().status(status);
    answer.body(full(body)).unwrap()
}

/// Returns a body that is all there.
pub(crate) fn full(text: impl Into<Bytes>) -> Sent {
    let whole = Full::new(text.into());
    whole.map_err(Into::into).boxed_unsync()
}

/// Returns a body without a byte.
pub(crate) fn empty() -> Sent {
    Empty::new().map_err(Into::into).boxed_unsync()
}

/// Returns a body that a test writes, frame by frame.
pub(crate) fn pipe() -> (Pipe, Sent) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let frames = stream::unfold(receiver, async |mut receiver| {
        let frame = receiver.recv().await?;
        Some((frame, receiver))
    });
    (Pipe(sender), StreamBody::new(frames).boxed_unsync())
}

/// Returns `body`, which says that it has `len` bytes.
pub(crate) fn announced(len: u64, body: Sent) -> Sent {
    Announced { body, left: len }.boxed_unsync()
}

/// Returns the trailers of tests: a checksum.
pub(crate) fn checksum() -> HeaderMap {
    HeaderMap::from_iter([(
        HeaderName::from_static("x-checksum"),
        HeaderValue::from_static("17"),
    )])
}

/// Reads an answer to its end.
pub(crate) async fn read(answer: Answer) -> Seen {
    let (parts, mut body) = answer.into_parts();
    let handled = *parts.extensions.get().expect("every answer is handled");
    let (mut data, mut trailers, mut cut) = (Vec::new(), None, false);
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(bytes)) => data.extend_from_slice(&bytes),
            Ok(Err(frame)) => trailers = frame.into_trailers().ok(),
            Err(_) => cut = true,
        }
    }
    Seen {
        status: parts.status,
        headers: parts.headers,
        body: data.into(),
        trailers,
        cut,
        handled,
    }
}

fn caller_of(parts: &Parts) -> Option<String> {
    let caller = parts.headers.get("x-caller")?;
    Some(caller.to_str().ok()?.to_owned())
}

// === impl Shop ===

impl Shop {
    /// Returns a shop that does `work` for each payment.
    pub(crate) fn new<F>(work: impl Fn(Run) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answered> + Send + 'static,
    {
        Self {
            world: World::new(),
            terms: Terms::default(),
            probe: None,
            executions: None,
            quotas: None,
            handler: Handler {
                runs: Arc::default(),
                work: Arc::new(move |run| Box::pin(work(run))),
            },
        }
    }

    /// Returns a shop that answers with what `made` makes.
    pub(crate) fn answering(made: impl Fn() -> Response<Sent> + Send + Sync + 'static) -> Self {
        Self::new(move |_| std::future::ready(Ok(made())))
    }

    /// Returns a shop in which payments always succeed.
    pub(crate) fn open() -> Self {
        Self::answering(|| answer(201, "paid"))
    }

    /// Returns a shop in which payments take until the gate lets one go.
    pub(crate) fn gated() -> (Self, Arc<Semaphore>) {
        let gate = Arc::new(Semaphore::new(0));
        let inner = gate.clone();
        let shop = Self::new(move |_| {
            let gate = inner.clone();
            async move {
                gate.acquire().await.unwrap().forget();
                Ok(answer(201, "paid"))
            }
        });
        (shop, gate)
    }

    /// Returns a shop whose first answer is `body` as an event stream.
    pub(crate) fn streaming(body: Sent) -> Self {
        Self::once(move || {
            let stream = Response::builder().header("content-type", "text/event-stream");
            stream.body(body).unwrap()
        })
    }

    /// Returns a shop with one answer to give.
    pub(crate) fn once(made: impl FnOnce() -> Response<Sent> + Send + 'static) -> Self {
        let made = std::sync::Mutex::new(Some(made));
        Self::answering(move || {
            let made = made.lock().unwrap().take();
            made.expect("executed once")()
        })
    }

    pub(crate) fn terms(mut self, change: impl FnOnce(Terms) -> Terms) -> Self {
        self.terms = change(self.terms);
        self
    }

    pub(crate) fn effect(self, effect: onceward::Effect) -> Self {
        self.terms(|mut terms| {
            terms.policy = terms.policy.effect(effect);
            terms
        })
    }

    /// The same shop that keeps answers of this many bytes at the most.
    pub(crate) fn keeping(self, bytes: usize) -> Self {
        self.terms(|mut terms| {
            terms.policy = terms.policy.body_max(bytes);
            terms
        })
    }

    pub(crate) fn probe(mut self, probe: impl Probe) -> Self {
        self.probe = Some(Arc::new(probe));
        self
    }

    pub(crate) fn service(&self) -> Idempotent<Handler, CallerOf> {
        self.layer().layer(self.handler.clone())
    }

    /// The service with another layer between it and ours.
    pub(crate) fn service_within<L: Layer<Handler>>(
        &self,
        between: L,
    ) -> Idempotent<L::Service, CallerOf> {
        self.layer().layer(between.layer(self.handler.clone()))
    }

    fn layer(&self) -> IdempotentLayer<CallerOf> {
        let mut layer = IdempotentLayer::new(self.world.engine.clone(), caller_of as CallerOf)
            .terms(self.terms.clone());
        if let Some(probe) = &self.probe {
            layer = layer.probe(probe.clone());
        }
        if let Some(permits) = &self.executions {
            layer = layer.executions(permits.clone());
        }
        match &self.quotas {
            Some(quotas) => layer.quotas(quotas.clone()),
            None => layer,
        }
    }

    /// Sends a request and returns the head of its answer.
    pub(crate) fn call(&self, request: Request<Sent>) -> BoxFuture<'static, Answer> {
        let answer = self.try_call(request);
        Box::pin(async { answer.await.expect("the service does not fail") })
    }

    pub(crate) fn try_call(
        &self,
        request: Request<Sent>,
    ) -> BoxFuture<'static, Result<Answer, BoxError>> {
        Box::pin(self.service().oneshot(request))
    }

    /// Sends a request and reads its answer to the end.
    pub(crate) fn send(&self, request: Request<Sent>) -> BoxFuture<'static, Seen> {
        let answer = self.call(request);
        Box::pin(async { read(answer.await).await })
    }

    /// Sends a request, in a task of its own.
    pub(crate) fn start(&self, request: Request<Sent>) -> JoinHandle<Seen> {
        tokio::spawn(self.send(request))
    }

    /// Sends a request while time passes.
    pub(crate) async fn send_within(&self, span: Duration, request: Request<Sent>) -> Seen {
        let answer = self.start(request);
        self.world.pass(span).await;
        answer.await.unwrap()
    }

    /// Starts a payment and waits until it runs.
    pub(crate) async fn start_running(&self, key: &str) -> JoinHandle<Seen> {
        let runs = self.runs();
        let first = self.start(pay(key));
        self.world.settle().await;
        assert_eq!(self.runs(), runs + 1, "it runs");
        first
    }

    /// Returns what a task saw that has nothing left to wait for.
    pub(crate) async fn ended(&self, task: JoinHandle<Seen>) -> Seen {
        self.world.settle().await;
        assert!(task.is_finished(), "it still waits");
        task.await.unwrap()
    }

    /// How often the service ran.
    pub(crate) fn runs(&self) -> usize {
        self.handler.runs.load(Ordering::SeqCst)
    }

    /// The record of alice's payment under `key`.
    pub(crate) async fn record(&self, key: &str) -> Option<Arc<Record>> {
        let scope = Scope::new("alice", "POST /payments");
        let slot = Slot::new(scope, Key::parse(key).unwrap());
        let engine = &self.world.engine;
        let found = engine.inspect(engine.id_of(&slot).await.unwrap()).await;
        found.unwrap().map(|found| found.record)
    }

    /// Sees that nobody knows about the payment under `key`, and that a retry is told so.
    pub(crate) async fn expect_unknown(&self, key: &str) {
        let runs = self.runs();
        let record = self.record(key).await.expect("there is a record");
        assert!(matches!(record.state, State::Unknown(_)), "{record:?}");
        self.send(pay(key)).await.expect_problem("outcome-unknown");
        assert_eq!(self.runs(), runs, "unknown is never executed again");
    }
}

// === impl Handler ===

impl Service<Request<RequestBody<Sent>>> for Handler {
    type Response = Response<Sent>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Answered>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody<Sent>>) -> Self::Future {
        let number = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
        (self.work)(Run { number, request })
    }
}

impl std::fmt::Debug for Handler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handler").finish_non_exhaustive()
    }
}

// === impl Run ===

impl Run {
    pub(crate) fn attempt(&self) -> &onceward::Attempt {
        let attempt = self.request.extensions().get();
        attempt.expect("a request with a key has an attempt")
    }
}

// === impl Seen ===

impl Seen {
    /// Sees that this is what the service answered, and the first time that it is given.
    pub(crate) fn expect_first(self, status: u16, body: &str) -> Self {
        self.expect(status, body);
        assert!(!self.headers.contains_key("idempotent-replayed"));
        assert_eq!(self.handled.outcome, "original");
        self
    }

    /// Sees that this is the first answer once more.
    pub(crate) fn expect_replay(self, status: u16, body: &str) -> Self {
        self.expect(status, body);
        assert_eq!(self.headers["idempotent-replayed"], "true");
        assert_eq!(self.handled.outcome, "replay");
        self
    }

    /// Sees that this is what the service answered, and that it is not stored.
    pub(crate) fn expect_not_stored(self, status: u16, body: &str) -> Self {
        self.expect(status, body);
        assert_eq!(self.handled.outcome, "not-stored");
        self
    }

    pub(crate) fn expect(&self, status: u16, body: &str) {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!((self.status.as_u16(), &*text), (status, body));
        assert!(!self.cut);
    }

    /// Sees that this is a refusal of that name, and returns its body.
    pub(crate) fn expect_problem(&self, name: &str) -> serde_json::Value {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.handled.outcome, name, "{} {text}", self.status);
        let body: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(body["type"], format!("urn:onceward:problem:{name}"));
        assert_eq!(body["status"], self.status.as_u16());
        body
    }
}

// === impl Pipe ===

impl Pipe {
    pub(crate) fn data(&self, text: impl Into<Bytes>) {
        // Whoever reads may be gone.
        let _ = self.0.send(Ok(Frame::data(text.into())));
    }

    pub(crate) fn trailers(&self, trailers: HeaderMap) {
        let _ = self.0.send(Ok(Frame::trailers(trailers)));
    }

    /// Cuts the body.
    pub(crate) fn fail(self) {
        let _ = self.0.send(Err("the line is dead".into()));
    }

    pub(crate) fn is_read(&self) -> bool {
        !self.0.is_closed()
    }
}

// === impl Announced ===

impl Body for Announced {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.left = self.left.saturating_sub(data.len() as u64);
        }
        polled
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

// === impl Change ===

impl Change for Request<Sent> {
    fn with(mut self, name: &'static str, value: &str) -> Self {
        let value = HeaderValue::from_str(value).unwrap();
        self.headers_mut().append(name, value);
        self
    }

    fn without(mut self, name: &'static str) -> Self {
        self.headers_mut().remove(name);
        self
    }

    fn to(mut self, method: Method, target: &'static str) -> Self {
        *self.method_mut() = method;
        *self.uri_mut() = http::Uri::from_static(target);
        self
    }

    fn saying(self, body: &'static str) -> Self {
        self.map(|_| full(body))
    }
}
