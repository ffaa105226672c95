//! The service behind a gateway: does what a script says and keeps what it saw.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::{DEADLINE, Fields, until};

mod act;
mod serve;

pub use self::act::{Act, Answer, Early, Gate, Payload};

/// A scripted HTTP/1.1 service on a free port. It ends when it is dropped.
#[derive(Debug)]
pub struct Origin {
    addr: SocketAddr,
    shared: Arc<Shared>,
    listening: AbortHandle,
}

/// A request that came in full.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The field lines.
    pub fields: Fields,
    /// The body.
    pub body: Vec<u8>,
    /// The fields after the body.
    pub trailers: Fields,
    /// Which connection it came on, counted from 0.
    pub connection: usize,
}

/// How the service reads requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Manners {
    /// Refuses all that is not written as the standard says.
    #[default]
    Strict,
    /// Makes the best of everything, as the most obliging of servers do.
    Lenient,
}

/// Who sent a request with a key, and which: `Authorization`, then the key.
type Slot = (String, String);

type Script = Box<dyn Fn(&Seen) -> Act + Send + Sync>;
type Look = Box<dyn Fn(&Fields) -> Early + Send + Sync>;

struct Shared {
    manners: Manners,
    script: Script,
    early: Look,
    seen: Mutex<Vec<Seen>>,
    /// How many there are in `seen`.
    count: watch::Sender<usize>,
    malformed: Mutex<Vec<String>>,
    connections: AtomicUsize,
}

// === impl Origin ===

impl Origin {
    /// Starts a service that answers every request with 201 and a body that no other has.
    pub async fn start() -> Self {
        Self::scripted(receipts()).await
    }

    /// Starts such a service at a place that was free a moment ago.
    pub async fn start_at(addr: SocketAddr) -> Self {
        Self::at(addr, Manners::Strict, |_| Early::Read, receipts()).await
    }

    /// Starts a service that does with every request what `script` says.
    pub async fn scripted(script: impl Fn(&Seen) -> Act + Send + Sync + 'static) -> Self {
        Self::with(Manners::Strict, |_| Early::Read, script).await
    }

    /// Starts a service that reads with these manners and decides after the head of a request
    /// whether to read the rest.
    pub async fn with(
        manners: Manners,
        early: impl Fn(&Fields) -> Early + Send + Sync + 'static,
        script: impl Fn(&Seen) -> Act + Send + Sync + 'static,
    ) -> Self {
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::at(anywhere, manners, early, script).await
    }

    /// # Panics
    ///
    /// Panics if the place is taken.
    async fn at(
        addr: SocketAddr,
        manners: Manners,
        early: impl Fn(&Fields) -> Early + Send + Sync + 'static,
        script: impl Fn(&Seen) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(addr).await.expect("a free port");
        let addr = listener.local_addr().expect("a bound listener has one");
        let shared = Arc::new(Shared {
            manners,
            script: Box::new(script),
            early: Box::new(early),
            seen: Mutex::default(),
            count: watch::Sender::new(0),
            malformed: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
        let listening = tokio::spawn(listen(listener, shared.clone())).abort_handle();
        Self {
            addr,
            shared,
            listening,
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Takes no more connections, and drops those it has. What it saw can still be asked for.
    pub async fn stop(&self) {
        self.listening.abort();
        let stopped = || async { self.listening.is_finished().then_some(()) };
        until("the origin stops", stopped).await;
    }

    /// The requests that came in full, in their order.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().clone()
    }

    /// How many requests came in full.
    pub fn count(&self) -> usize {
        *self.shared.count.borrow()
    }

    /// How many requests with this key came in full.
    pub fn executions(&self, key: &str) -> usize {
        let seen = self.shared.seen.lock();
        seen.iter()
            .filter(|seen| seen.key().as_deref() == Some(key))
            .count()
    }

    /// How often each caller's work was done, by `Authorization` and key.
    pub fn effects(&self) -> BTreeMap<Slot, usize> {
        let mut effects = BTreeMap::new();
        for seen in self.shared.seen.lock().iter() {
            if let Some(key) = seen.key() {
                let caller = seen.fields.get("authorization").unwrap_or_default();
                *effects.entry((caller.to_owned(), key)).or_default() += 1;
            }
        }
        effects
    }

    /// What came and was no request.
    pub fn malformed(&self) -> Vec<String> {
        self.shared.malformed.lock().clone()
    }

    /// How many connections came.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Waits until this many requests have come in full.
    ///
    /// # Panics
    ///
    /// Panics if they have not after [`DEADLINE`].
    pub async fn wait_for(&self, count: usize) {
        let mut changes = self.shared.count.subscribe();
        let enough = changes.wait_for(|now| *now >= count);
        let enough = tokio::time::timeout(DEADLINE, enough).await;
        assert!(
            enough.is_ok(),
            "the origin saw {} requests, not {count}",
            self.count()
        );
    }
}

/// Answers every request with 201 and a number of its own.
fn receipts() -> impl Fn(&Seen) -> Act + Send + Sync + 'static {
    let number = AtomicUsize::new(0);
    move |_| Answer::receipt(number.fetch_add(1, Ordering::Relaxed)).into()
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this future, and with them the connections.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let number = shared.connections.fetch_add(1, Ordering::Relaxed);
        let shared = shared.clone();
        connections.spawn(async move {
            let _ended: io::Result<()> = serve::connection(stream, number, &shared).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

// === impl Seen ===

impl Seen {
    /// Its key, without quotes.
    pub fn key(&self) -> Option<String> {
        let key = self.fields.get("idempotency-key")?;
        Some(key.trim_matches('"').to_owned())
    }

    /// Which attempt it says to be.
    pub fn attempt(&self) -> Option<u32> {
        self.fields.get("idempotency-attempt")?.parse().ok()
    }

    /// The fence it carries.
    pub fn fence(&self) -> Option<&str> {
        self.fields.get("idempotency-fence")
    }
}

// === impl Shared ===

impl Shared {
    fn note(&self, seen: Seen) {
        let mut all = self.seen.lock();
        all.push(seen);
        self.count.send_replace(all.len());
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Shared");
        shown
            .field("manners", &self.manners)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
