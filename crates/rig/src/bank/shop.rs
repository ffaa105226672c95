//! A shop behind the tower layer: small stories over HTTP, whose effects the judge reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, stream};
use http::request::{Builder, Parts};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use onceward::testing::{FaultyStore, ManualClock};
use onceward::{Attempt, BoxError, Effect, Engine, MemoryStore, Store};
use onceward_http::{AnswerBody, Boxed, IdempotentLayer, OnBusy, RequestBody, Terms};
use tokio::sync::{Semaphore, mpsc};
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::paused;
use crate::history::{self, Judgement};
use crate::lab::Lab;

mod stories;

/// A service that takes payments, behind the layer.
#[derive(Clone)]
struct Shop {
    lab: Arc<Lab>,
    engine: Engine,
    store: Arc<FaultyStore>,
    /// The same without faults, and without a record of what happens: for another shop.
    shared: Arc<dyn Store>,
    /// How often the service ran.
    runs: Arc<AtomicUsize>,
    /// Lets a service pass that is told to wait.
    gate: Arc<Semaphore>,
}

/// A body, in either direction.
type Sent = UnsyncBoxBody<Bytes, BoxError>;

/// What the service answers.
type Answered = Result<Response<Sent>, BoxError>;

/// The writing end of a body.
type Pipe = mpsc::UnboundedSender<Result<Frame<Bytes>, BoxError>>;

/// An answer that was read to its end.
#[derive(Debug)]
struct Seen {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// What a story ends with: why it did not end as it must.
type Told = Result<(), String>;

/// How many stories there are.
pub(super) fn round() -> u64 {
    stories::ALL.len() as u64
}

pub(super) fn trial(number: u64) -> Option<String> {
    let (name, story) = stories::ALL[(number % round()) as usize];
    let wrong = paused().block_on(async {
        let shop = Shop::new();
        match tokio::spawn(story(shop.clone())).await {
            Ok(Ok(())) => shop.judged().await,
            Ok(Err(wrong)) => Some(wrong),
            Err(panicked) => Some(super::words(&*panicked.into_panic())),
        }
    })?;
    Some(format!("{name}: {wrong}"))
}

/// A payment of 100 under `key`, by the shop's own caller.
fn pay(key: &str) -> Builder {
    by("alice", key)
}

fn by(caller: &str, key: &str) -> Builder {
    Request::post("/payments")
        .header("x-caller", caller)
        .header("idempotency-key", key)
}

fn full(text: impl Into<Bytes>) -> Sent {
    Full::new(text.into()).map_err(Into::into).boxed_unsync()
}

/// A body that is written piece by piece.
fn pipe() -> (Pipe, Sent) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let frames = stream::unfold(receiver, async |mut receiver| {
        let frame = receiver.recv().await?;
        Some((frame, receiver))
    });
    (sender, StreamBody::new(frames).boxed_unsync())
}

/// Reads an answer to its end, or as far as it comes.
async fn read(answer: Response<AnswerBody<Boxed<Sent>>>) -> Seen {
    let (parts, mut body) = answer.into_parts();
    let mut data = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        data.extend(frame.into_data().unwrap_or_default());
    }
    Seen {
        status: parts.status,
        headers: parts.headers,
        body: data.into(),
    }
}

fn caller_of(parts: &Parts) -> Option<String> {
    let caller = parts.headers.get("x-caller")?;
    Some(caller.to_str().ok()?.to_owned())
}

// === impl Shop ===

impl Shop {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new());
        let store = Arc::new(MemoryStore::with_clock(clock.clone()));
        Self::of("alice", store, clock)
    }

    /// A shop whose caller is `tenant`, on a store that others may use.
    fn of(tenant: &str, store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        let shared = store.clone();
        let lab = Lab::new(store, clock, (Effect::Opaque, Effect::Opaque), tenant);
        let store = Arc::new(FaultyStore::new(lab.recorded(1)));
        Self {
            engine: lab.engine(store.clone()),
            store,
            shared,
            lab,
            runs: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
        }
    }

    /// Sends a request and reads its answer to the end.
    fn send(&self, request: Builder, body: Sent) -> BoxFuture<'static, Seen> {
        let terms = Terms::default()
            .policy(self.lab.policy.clone())
            .operation("pay")
            .on_busy(OnBusy::Refuse);
        let shop = self.clone();
        let service = service_fn(move |request| -> BoxFuture<'static, Answered> {
            let shop = shop.clone();
            Box::pin(async move { shop.serve(request).await })
        });
        let caller_of: fn(&Parts) -> Option<String> = caller_of;
        let layer = IdempotentLayer::new(self.engine.clone(), caller_of).terms(terms);
        let request = request.body(body).expect("it is a request");
        let answer = layer.layer(service).oneshot(request).boxed();
        Box::pin(async { read(answer.await.expect("the service answers")).await })
    }

    async fn pay(&self, key: &str) -> Seen {
        self.send(pay(key), full("100")).await
    }

    /// The service itself: it charges, and answers as it is told.
    async fn serve(&self, request: Request<RequestBody<Sent>>) -> Answered {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let act = request.headers().get("x-act").cloned();
        let act = act.as_ref().and_then(|act| act.to_str().ok());
        if act == Some("wait") {
            self.gate.acquire().await?.forget();
        }
        let attempt = request.extensions().get::<Attempt>();
        let attempt = attempt.ok_or("a request with a key has an attempt")?;
        let id = self.lab.slot(attempt.key().as_str());
        let id = self.engine.id_of(&id).await?;
        let receipt = self.lab.service.charge(id, attempt.fence(), None)?;
        if matches!(act, Some("lost" | "stream")) {
            // From here on nothing can be stored.
            self.store.set_down(true);
        }
        let answer = Response::builder()
            .header("keep-alive", "timeout=5")
            .header("set-cookie", "session=alice");
        Ok(match act {
            Some("502") => answer.status(502).body(full("no answer"))?,
            Some("stream") => {
                let stream = answer.header("content-type", "text/event-stream");
                stream.body(full(receipt))?
            }
            Some("marked") => {
                let marked = answer.status(201).header("idempotent-replayed", "true");
                marked.body(full(receipt))?
            }
            Some("cut") => {
                let (pipe, body) = pipe();
                let half = receipt[..receipt.len() / 2].to_owned();
                pipe.send(Ok(Frame::data(half.into())))?;
                pipe.send(Err("the line is dead".into()))?;
                answer.status(201).body(body)?
            }
            _ => answer.status(201).body(full(receipt))?,
        })
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// Lets every task run as far as it can without time passing.
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// Lets time pass for everybody.
    async fn pass(&self, span: Duration) {
        const TICK: Duration = Duration::from_millis(50);
        let mut left = span;
        while !left.is_zero() {
            let tick = left.min(TICK);
            self.lab.clock.advance(tick);
            tokio::time::sleep(tick).await;
            left -= tick;
        }
    }

    /// What the judge says about all that was done here.
    async fn judged(&self) -> Option<String> {
        let report = history::check(&self.lab.history().await);
        match report.judgement {
            Judgement::Pass => None,
            Judgement::Fail(_) | Judgement::Unknown(_) => Some(report.to_string()),
        }
    }
}

// === impl Seen ===

impl Seen {
    fn is_replay(&self) -> bool {
        self.headers.contains_key("idempotent-replayed")
    }

    /// Sees that the service answered, now or before.
    fn expect_paid(&self) -> Told {
        ensure(self.status == 201, || {
            format!("a payment is answered with {}", self.status)
        })
    }
}

fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Told {
    match holds {
        true => Ok(()),
        false => Err(wrong()),
    }
}
