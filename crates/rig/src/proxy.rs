//! A proxy in front of a server: the network, with everything that it does to connections.
//!
//! It runs on a thread of its own, so that it goes on whatever becomes of the runtime of the test.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, oneshot};
use tokio::task::JoinSet;

mod postgres;
mod redis;
mod wire;

/// A proxy on a free port of this machine. Its connections are gone when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Dropped to end the thread.
    end: Option<oneshot::Sender<()>>,
}

/// What the network does to connections.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// Every connection ends, as if the server had closed it.
    Cut,
    /// Every connection is reset, and what was under way is lost.
    Reset,
    /// Nothing goes through any connection that is open now, and nobody is told.
    HalfOpen,
    /// The next request never reaches the server, and its connection is reset.
    RequestDropped,
    /// The next request is done by the server; then its connection is reset instead of the reply.
    ReplyDropped,
}

/// Whose talk a proxy understands, as far as to know when a request is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Talk {
    /// PostgreSQL's.
    Postgres,
    /// That of Redis.
    Redis,
}

/// What the proxy and its connections share.
#[derive(Debug)]
struct Shared {
    talk: Talk,
    rules: Mutex<Rules>,
    strikes: broadcast::Sender<Fault>,
    struck: AtomicU64,
    connections: AtomicU64,
}

/// What holds for all connections.
#[derive(Clone, Copy, Debug)]
struct Rules {
    target: SocketAddr,
    /// How long every piece takes on its way, in either direction.
    delay: Duration,
    /// Whether whoever comes is turned away.
    closed: bool,
    /// What the next request meets.
    awaits: Option<Fault>,
}

// === impl Fault ===

impl Fault {
    /// Everything that a network does.
    pub const ALL: [Self; 5] = [
        Self::Cut,
        Self::Reset,
        Self::HalfOpen,
        Self::RequestDropped,
        Self::ReplyDropped,
    ];
}

// === impl Proxy ===

impl Proxy {
    /// Starts a proxy in front of a server of PostgreSQL.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub fn start(target: SocketAddr) -> Self {
        Self::between(target, Talk::Postgres)
    }

    /// Starts a proxy in front of a server that speaks `talk`.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub fn between(target: SocketAddr, talk: Talk) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let addr = listener.local_addr().expect("it is bound");
        listener.set_nonblocking(true).expect("it is a socket");
        let rules = Rules {
            target,
            delay: Duration::ZERO,
            closed: false,
            awaits: None,
        };
        let shared = Arc::new(Shared {
            talk,
            rules: Mutex::new(rules),
            strikes: broadcast::channel(64).0,
            struck: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        });
        let (end, ended) = oneshot::channel();
        let serving = shared.clone();
        let thread = std::thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || serve(listener, &serving, ended))
            .expect("a thread starts");
        Self {
            addr,
            shared,
            thread: Some(thread),
            end: Some(end),
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the URL of a server with the proxy's address in place of the server's.
    ///
    /// # Panics
    ///
    /// Panics if the URL does not name its server by address and port.
    pub fn url(&self, of: &str) -> String {
        let start = of
            .find('@')
            .map_or_else(|| of.find("://").map(|at| at + 3), |at| Some(at + 1));
        let start = start.expect("it is a URL");
        let end = of[start..]
            .find(['/', '?'])
            .map_or(of.len(), |at| start + at);
        let addr: SocketAddr = of[start..end].parse().expect("it names an address");
        of.replacen(&addr.to_string(), &self.addr.to_string(), 1)
    }

    /// Sends whoever comes from now on to another server.
    pub fn retarget(&self, target: SocketAddr) {
        self.shared.rules.lock().target = target;
    }

    /// Lets every piece take this long on its way.
    pub fn delay(&self, span: Duration) {
        self.shared.rules.lock().delay = span;
    }

    /// Turns away whoever comes, and resets every connection there is.
    pub fn close(&self) {
        self.shared.rules.lock().closed = true;
        self.strike(Fault::Reset);
    }

    /// Lets connections through again.
    pub fn open(&self) {
        self.shared.rules.lock().closed = false;
    }

    /// Lets a fault strike: now, or as soon as there is a request that it can strike.
    pub fn strike(&self, fault: Fault) {
        match fault {
            Fault::Cut | Fault::Reset | Fault::HalfOpen => {
                // Nobody is connected: there is nothing to strike.
                let _ = self.shared.strikes.send(fault);
            }
            Fault::RequestDropped | Fault::ReplyDropped => {
                self.shared.rules.lock().awaits = Some(fault);
            }
        }
    }

    /// Whether a fault still waits for a request.
    pub fn awaits(&self) -> bool {
        self.shared.rules.lock().awaits.is_some()
    }

    /// How many connections were struck so far.
    pub fn struck(&self) -> u64 {
        self.shared.struck.load(Ordering::Relaxed)
    }

    /// How many connections there are now.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

// === impl Shared ===

impl Shared {
    fn rules(&self) -> Rules {
        *self.rules.lock()
    }

    /// Takes the fault that waits for a request, if there is one.
    fn take(&self) -> Option<Fault> {
        self.rules.lock().awaits.take()
    }

    fn note(&self) {
        self.struck.fetch_add(1, Ordering::Relaxed);
    }
}

/// Lives until the proxy is dropped.
fn serve(listener: std::net::TcpListener, shared: &Arc<Shared>, ended: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener).expect("it does not block");
        let mut connections = JoinSet::new();
        tokio::pin!(ended);
        loop {
            tokio::select! {
                _ = &mut ended => return,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => {
                    let Ok((client, _)) = accepted else { continue };
                    connections.spawn(connect(client, shared.clone()));
                }
            }
        }
    });
}

/// Connects a client with the server, unless it is turned away.
async fn connect(client: TcpStream, shared: Arc<Shared>) {
    let strikes = shared.strikes.subscribe();
    let rules = shared.rules();
    if rules.closed {
        return wire::reset(client);
    }
    let Ok(server) = TcpStream::connect(rules.target).await else {
        return wire::reset(client);
    };
    shared.connections.fetch_add(1, Ordering::Relaxed);
    wire::Wire::new(client, server, shared.clone())
        .run(strikes)
        .await;
    shared.connections.fetch_sub(1, Ordering::Relaxed);
}
