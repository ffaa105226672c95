//! The link: a thread of its own that speaks to the servers, for callers on any runtime.
//!
//! Callers put a command in and wait for its answer; few connections carry what waits, many
//! commands at a time. A command that a server did not run is sent again until its deadline: to
//! the same one, to the one that the sentinels name by then, or to where the cluster says that
//! the key is. One whose answer was lost is sent again only in a way that does no harm if it had
//! happened; see [`Nature`](super::ask::Nature). That is why neither the cluster client nor the
//! sentinel client of the driver is used: they repeat what they do not know.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use onceward::clock::{Clock as _, SystemClock};
use parking_lot::{Mutex, RwLock};
use tokio::runtime::{self, Handle};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::SERVER;
use super::ask::{Answer, Ask, Target};
use super::cluster::{self, Map};
use super::connect::Connector;
use super::node::Node;
use super::settings::{Host, Servers, Settings};
use super::trouble::Trouble;
use crate::OpenError;

/// The way to the servers. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Link {
    hub: Arc<Hub>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What callers and the link's thread share.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(super) connector: Connector,
    pub(super) map: RwLock<Map>,
    /// Wakes whoever looks at the cluster: the map may be wrong.
    pub(super) is_stale: Notify,
    /// There is a new connection: a server that was away may be back.
    pub(super) returned: Notify,
    tasks: Mutex<JoinSet<()>>,
    is_closing: AtomicBool,
    closing: Notify,
    /// The link's own runtime, which lasts as long as the link.
    own: Handle,
}

/// The end of a link's thread.
struct End(Arc<Hub>);

/// How often commands that wait for too long are looked for.
const TICK: Duration = Duration::from_millis(50);

/// How long the connections may take to end when a link is closed.
const LINGER: Duration = Duration::from_secs(1);

// === impl Link ===

impl Link {
    /// Connects, and does `prepare` before anybody else can ask for something.
    ///
    /// Blocks until that is done.
    pub(crate) fn open<T: Send + 'static>(
        settings: Settings,
        name: &str,
        prepare: impl AsyncFnOnce(&Arc<Hub>) -> Result<T, OpenError> + Send + 'static,
    ) -> Result<(Self, T), OpenError> {
        let place = settings.place();
        let failed = |why: String| OpenError::Server {
            server: SERVER,
            place: place.clone(),
            why,
        };
        let (tell, told) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let runtime = match runtime_of_thread(&settings) {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(tell.send(Err(error))),
                };
                runtime.block_on(async move {
                    let opened = async {
                        let hub = Hub::start(settings).await?;
                        let end = End(Arc::clone(&hub));
                        let prepared = prepare(&hub).await?;
                        Ok((hub, end, prepared))
                    };
                    match opened.await {
                        Ok((hub, end, prepared)) => {
                            // If nobody waits any more, the link is closed at once.
                            let _ = tell.send(Ok((Arc::clone(&hub), prepared)));
                            serve(&hub, end).await;
                        }
                        Err(error) => drop(tell.send(Err(error))),
                    }
                });
            })
            .map_err(|error: io::Error| failed(format!("no thread for it: {error}")))?;
        let told = told.recv();
        let (hub, prepared) = told.map_err(|_| failed("its thread ended".to_owned()))??;
        let thread = Mutex::new(Some(thread));
        Ok((Self { hub, thread }, prepared))
    }

    /// What commands are run by.
    #[cfg(feature = "postgres")] // for the hybrid
    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Ends what is under way, and answers whatever is asked later with an error.
    ///
    /// Blocks until the connections are closed.
    pub(crate) fn close(&self) {
        self.hub.closing.notify_one();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of a link to Redis panicked");
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}

// === impl Hub ===

impl Hub {
    /// Connects to the first server, and finds the others of a cluster.
    async fn start(settings: Settings) -> Result<Arc<Self>, OpenError> {
        let connector = Connector::new(settings)?;
        let (map, sessions) = match connector.settings.servers {
            Servers::Cluster => cluster::discover(&connector).await?,
            Servers::One | Servers::Sentinels(_) => {
                let host = connector.settings.hosts[0].clone();
                let session = connector.connect(&host).await?;
                let node = Arc::new(Node::new(0, session.host.clone()));
                (Map::of_one(node), vec![(0, session)])
            }
        };
        let hub = Arc::new(Self {
            connector,
            map: RwLock::new(map),
            is_stale: Notify::new(),
            returned: Notify::new(),
            tasks: Mutex::default(),
            is_closing: AtomicBool::new(false),
            closing: Notify::new(),
            own: Handle::current(),
        });
        for (id, session) in sessions {
            let node = hub.node(id).expect("a session is with a node of the map");
            node.start(&hub, Some(session));
        }
        if hub.is_cluster() {
            hub.spawn(cluster::follow(Arc::clone(&hub)));
        }
        hub.spawn(reap(Arc::clone(&hub)));
        Ok(hub)
    }

    /// Asks the servers for something, and waits for the answer until the settings' timeout. That
    /// is kept to a twentieth of a second while the command waits to be sent, and ends the
    /// connection once it was sent.
    pub(crate) async fn run(&self, mut ask: Ask) -> Result<Answer, Trouble> {
        ask.deadline = self.stopwatch() + self.connector.settings.timeout;
        let answer = ask.expect();
        self.route(ask);
        let lost = |_| Trouble::lost("the store was closed");
        answer.await.map_err(lost)?
    }

    /// The settings that the link was opened with.
    pub(crate) fn settings(&self) -> &Settings {
        &self.connector.settings
    }

    pub(crate) fn stopwatch(&self) -> Duration {
        SystemClock.stopwatch()
    }

    /// Puts a command into the queue of the server that it is for.
    pub(super) fn route(&self, ask: Ask) {
        if self.is_closing() {
            return ask.answer(Err(Trouble::lost("the store is closed")));
        }
        let node = match ask.target {
            Target::Slot(slot) => self.map.read().owner(slot),
            Target::Node(id) => self.node(id),
        };
        match node {
            Some(node) => node.push(ask),
            None => ask.answer(Err(Trouble::lost("no server holds the key"))),
        }
    }

    /// The server that holds the keys of a hash slot now, by its number.
    pub(crate) fn owner(&self, slot: u16) -> Option<usize> {
        self.map.read().owner(slot).map(|node| node.id)
    }

    pub(super) fn node(&self, id: usize) -> Option<Arc<Node>> {
        self.map.read().nodes.get(id).cloned()
    }

    /// The servers that hold keys, by their numbers.
    pub(crate) fn masters(&self) -> Vec<usize> {
        let map = self.map.read();
        let serving = map.nodes.iter().filter(|node| !node.is_retired());
        serving.map(|node| node.id).collect()
    }

    /// Takes note that a key is elsewhere for good, and sends its command there.
    pub(super) fn moved(self: &Arc<Self>, ask: Ask, host: &Host) {
        let node = self.node_at(host);
        if let Target::Slot(slot) = ask.target {
            self.map.write().set_owner(slot, node.id);
        }
        self.is_stale.notify_one();
        node.push(ask);
    }

    /// Sends a command to where its key is on its way to.
    pub(super) fn asked_elsewhere(self: &Arc<Self>, mut ask: Ask, host: &Host) {
        ask.is_asking = true;
        self.node_at(host).push(ask);
    }

    /// The node at `host`, with lanes.
    pub(super) fn node_at(self: &Arc<Self>, host: &Host) -> Arc<Node> {
        let (node, is_idle) = self.map.write().node_at(host);
        if is_idle {
            node.start(self, None);
        }
        node
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.connector.settings.servers == Servers::Cluster
    }

    /// Takes note that a connection was lost, and perhaps more than that.
    pub(super) fn lost(&self, node: &Node) {
        if self.is_cluster() && !node.is_retired() {
            self.stale();
        }
    }

    /// Takes note that the cluster may not be what it was.
    pub(super) fn stale(&self) {
        self.is_stale.notify_one();
    }

    /// Lets something run for as long as the link is open.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, &self.own);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Answers all who wait with an error, and takes nobody in any more.
    fn end(&self) {
        self.is_closing.store(true, Ordering::Release);
        let nodes = self.map.read().nodes.clone();
        for node in nodes {
            node.refuse("the store is closed");
            node.wake.notify_waiters();
        }
    }
}

// === impl End ===

/// Leaves nobody waiting, whatever ended the thread.
impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Serves until the link is closed.
async fn serve(hub: &Arc<Hub>, end: End) {
    hub.closing.notified().await;
    drop(end);
    let ended = async {
        // What is under way is ended; what waits for something that never comes is not.
        tokio::time::sleep(Duration::from_millis(1)).await;
        while hub.map.read().nodes.iter().any(|node| node.is_up()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let _ = tokio::time::timeout(LINGER, ended).await;
    let mut tasks = std::mem::take(&mut *hub.tasks.lock());
    tasks.shutdown().await;
}

/// Answers those who have waited for too long, again and again.
async fn reap(hub: Arc<Hub>) {
    loop {
        tokio::time::sleep(TICK).await;
        let nodes = hub.map.read().nodes.clone();
        let now = hub.stopwatch();
        for node in nodes {
            node.reap(now);
        }
    }
}

pub(super) fn runtime_of_thread(settings: &Settings) -> Result<runtime::Runtime, OpenError> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|source| OpenError::Server {
        server: SERVER,
        place: settings.place(),
        why: format!("no runtime for it: {source}"),
    })
}
