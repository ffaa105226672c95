//! A gateway in this process, between a scripted service and a raw client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use onceward_gateway::config::{AdminListen, Config, Overrides};
use onceward_gateway::{Gateway, Given};
use onceward_stores::StoreUrl;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::gateway::{self, Act, Answer, Ask, Origin, Received};

/// A gateway that serves until it is dropped.
struct Served {
    addr: SocketAddr,
    serving: AbortHandle,
}

type Story = fn() -> BoxFuture<'static, Option<String>>;

const STORIES: [(&str, Story); 2] = [
    ("a request without an answer", || {
        Box::pin(loses_the_answer())
    }),
    ("a late request after a probe", || Box::pin(probes())),
];

/// How many stories there are.
pub(super) fn round() -> u64 {
    STORIES.len() as u64
}

pub(super) fn trial(number: u64) -> Option<String> {
    let (name, story) = STORIES[(number % round()) as usize];
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime starts");
    let wrong = runtime.block_on(story());
    runtime.shutdown_background();
    Some(format!("{name}: {}", wrong?))
}

/// The service takes a request and closes the connection without a word: nobody knows.
async fn loses_the_answer() -> Option<String> {
    let origin = Origin::scripted(|_| Act::Vanish).await;
    let served = Served::start(&origin, "").await;
    for _ in 0..3 {
        served.pay("k").await;
    }
    let executions = origin.executions("k");
    (executions != 1).then(|| format!("a request is executed twice or never: {executions}"))
}

/// A request gets no answer and lands after the service was asked about it. The service does not
/// promise to refuse older fences, so its "not done" is worth nothing.
async fn probes() -> Option<String> {
    const ROUTE: &str = "[[route]]\nmatch = \"POST /payments\"\neffect = \"probed\"\n\
                         probe = { url = \"/operations/{key}\" }\n";
    let (posts, effects) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let ledger = effects.clone();
    let origin = Origin::scripted(move |seen| match seen.method.as_str() {
        "GET" => {
            // What was on its way arrives now.
            ledger.store(1, Ordering::Relaxed);
            let answer = Answer::new(200, "").field("Idempotency-Outcome", "not-done");
            answer.into()
        }
        _ if posts.fetch_add(1, Ordering::Relaxed) == 0 => Act::Vanish,
        _ => Answer::receipt(1 + ledger.fetch_add(1, Ordering::Relaxed)).into(),
    })
    .await;
    let served = Served::start(&origin, ROUTE).await;
    for _ in 0..2 {
        served.pay("k").await;
    }
    let effects = effects.load(Ordering::Relaxed);
    (effects != 1).then(|| format!("the work has {effects} effects"))
}

// === impl Served ===

impl Served {
    async fn start(origin: &Origin, config: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a free port");
        let addr = listener.local_addr().expect("a bound listener has one");
        let overrides = Overrides {
            listen: Some(addr),
            upstream: Some(format!("http://{}", origin.addr())),
            store: Some(StoreUrl::Memory),
            admin: Some(AdminListen::Off),
            ..Overrides::default()
        };
        let config = Config::parse(config, "bank", overrides).expect("the configuration is good");
        let gateway = Gateway::start(config, Given::default()).await;
        let gateway = gateway.expect("the gateway starts");
        let serving = tokio::spawn(gateway.serve(listener, std::future::pending()));
        Self {
            addr,
            serving: serving.abort_handle(),
        }
    }

    async fn pay(&self, key: &str) -> Received {
        let ask = Ask::post("/payments").key(key).bearer("alice");
        let answer = gateway::ask(self.addr, &ask).await;
        answer.expect("the gateway answers")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
