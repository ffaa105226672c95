//! A master and its replica, with three sentinels that watch over them.

use std::net::SocketAddr;

use super::{Options, RedisServer, until};

/// A master, a replica and three sentinels, all gone when dropped.
#[derive(Debug)]
pub struct Sentinels {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
    /// Sentinels of no use, which the URL names first.
    misled: Vec<RedisServer>,
}

/// What sentinels call the master.
const SERVICE: &str = "shop";

/// How many have to agree that the master is gone.
const QUORUM: &str = "2";

// === impl Sentinels ===

impl Sentinels {
    /// Starts all five, and returns when the sentinels know of each other and of the replica.
    ///
    /// # Panics
    ///
    /// Panics if they do not.
    pub async fn start(options: Options) -> Self {
        let master = RedisServer::start(options.clone()).await;
        let replica = RedisServer::start(options.replica_of(master.addr())).await;
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            sentinels.push(sentinel_of(master.addr()).await);
        }
        let all = Self {
            servers: vec![master, replica],
            sentinels,
            misled: Vec::new(),
        };
        all.settled().await;
        all
    }

    /// The URL of the service that they watch over.
    pub fn url(&self) -> String {
        let all = self.misled.iter().chain(&self.sentinels);
        let addrs = all.map(|one| one.addr().to_string());
        let addrs = addrs.collect::<Vec<_>>().join(",");
        format!("redis+sentinel://{addrs}/{SERVICE}")
    }

    /// The sentinels themselves.
    pub fn sentinels(&mut self) -> &mut [RedisServer] {
        &mut self.sentinels
    }

    /// Adds a sentinel that knows nothing of the others and names a server of its own as the
    /// master, as one does that has not heard of a failover. The URL names it first.
    pub async fn mislead(&mut self, named: SocketAddr) {
        self.misled.push(sentinel_of(named).await);
    }

    /// Where the master is, as a sentinel that runs knows it.
    ///
    /// # Panics
    ///
    /// Panics if none answers.
    pub async fn master(&self) -> SocketAddr {
        let mut running = self.sentinels.iter().filter(|one| one.is_running());
        let asked = running.next().expect("a sentinel runs");
        master_of(asked).await
    }

    /// The server that listens at an address.
    ///
    /// # Panics
    ///
    /// Panics if there is none.
    pub fn server(&mut self, addr: SocketAddr) -> &mut RedisServer {
        let found = self.servers.iter_mut().find(|server| server.addr() == addr);
        found.expect("it is one of theirs")
    }

    /// Waits until the sentinels have made another server the master, and all that run have heard
    /// of it. Returns where it is.
    ///
    /// # Panics
    ///
    /// Panics if they do not.
    pub async fn failed_over(&self, from: SocketAddr) -> SocketAddr {
        let addr = until("there is another master", || async {
            let mut heard = Vec::new();
            for sentinel in self.sentinels.iter().filter(|one| one.is_running()) {
                heard.push(master_of(sentinel).await);
            }
            heard.dedup();
            (heard.len() == 1 && heard[0] != from).then(|| heard[0])
        })
        .await;
        let found = self.servers.iter().find(|server| server.addr() == addr);
        let server = found.expect("it is one of theirs");
        server.until("role", "master").await;
        addr
    }

    /// The replica of the master that listens at an address.
    ///
    /// # Panics
    ///
    /// Panics if there is none.
    pub fn replica_of(&self, master: SocketAddr) -> &RedisServer {
        let mut others = self.servers.iter().filter(|one| one.addr() != master);
        others.next().expect("there are two")
    }

    /// Starts a master again that was replaced, as the replica of its heir: sentinels see to that
    /// as well, and take ten seconds over it.
    ///
    /// # Panics
    ///
    /// Panics if it does not start, or does not follow.
    pub async fn rejoin(&mut self, addr: SocketAddr) {
        let port = self.master().await.port().to_string();
        let server = self.server(addr);
        server.restart().await;
        server.cli(&["REPLICAOF", "127.0.0.1", &port]).await;
        server.until("master_link_status", "up").await;
        self.settled().await;
    }

    /// Waits until every sentinel that runs knows of the others and of a replica that follows the
    /// master: until then none of them would make it the master.
    ///
    /// # Panics
    ///
    /// Panics if it never comes to that.
    pub async fn settled(&self) {
        for sentinel in self.sentinels.iter().filter(|one| one.is_running()) {
            until("the sentinels know of each other", || async {
                let known = sentinel.cli(&["SENTINEL", "SENTINELS", SERVICE]).await;
                let replicas = sentinel.cli(&["SENTINEL", "REPLICAS", SERVICE]).await;
                let others = known.lines().filter(|line| *line == "name").count();
                let follows = is_followed(&replicas);
                (others == self.sentinels.len() - 1 && follows).then_some(())
            })
            .await;
        }
    }
}

/// Starts a sentinel that watches over a server.
async fn sentinel_of(master: SocketAddr) -> RedisServer {
    let monitor = format!("{SERVICE} 127.0.0.1 {} {QUORUM}", master.port());
    let mut options = Options::default()
        .setting("sentinel monitor", &monitor)
        .setting(
            "sentinel down-after-milliseconds",
            &format!("{SERVICE} 500"),
        )
        .setting("sentinel failover-timeout", &format!("{SERVICE} 3000"));
    options.is_sentinel = true;
    RedisServer::start(options).await
}

/// Whether a sentinel's words about replicas tell of one that is up and in step.
fn is_followed(replicas: &str) -> bool {
    let lines: Vec<&str> = replicas.lines().collect();
    let field = |name: &str| {
        let at = lines.iter().position(|line| *line == name);
        at.and_then(|at| lines.get(at + 1)).copied()
    };
    field("flags") == Some("slave") && field("master-link-status") == Some("ok")
}

/// Where the master is, as a sentinel knows it.
async fn master_of(sentinel: &RedisServer) -> SocketAddr {
    let asked = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE];
    let told = sentinel.cli(&asked).await;
    let addr = told.lines().collect::<Vec<_>>().join(":");
    addr.parse().expect("it is an address")
}
