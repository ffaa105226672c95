//! What a server is made with.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::{CLOCK_OFFSET, CONFIG, RedisServer};
use crate::gateway::shim;

/// What a server is made with: without any of it, one that keeps everything in memory alone and
/// never evicts.
#[derive(Clone, Default, Debug)]
pub struct Options {
    settings: Vec<(String, String)>,
    password: Option<String>,
    /// Where it finds its master, if it is a replica.
    master: Option<SocketAddr>,
    movable_clock: bool,
    pub(super) is_sentinel: bool,
    pub(super) is_node: bool,
}

/// What every server has; what options set comes after it and counts.
///
/// Replicas are sent everything at once, and forks for anything else would only cost time.
const DEFAULTS: &str = "\
bind 127.0.0.1
protected-mode no
daemonize no
";

/// What every server has that keeps data.
const KEEPING: &str = "\
save \"\"
appendonly no
auto-aof-rewrite-percentage 0
maxmemory-policy noeviction
repl-diskless-sync yes
repl-diskless-sync-delay 0
repl-diskless-load swapdb
enable-debug-command local
";

// === impl Options ===

impl Options {
    /// Sets a setting of the server, by its name in `redis.conf`.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Keeps every write on disk before it is answered.
    #[must_use]
    pub fn durable(self) -> Self {
        self.append("always")
    }

    /// Keeps writes in a file, synced as `appendfsync` says: `always`, `everysec` or `no`.
    #[must_use]
    pub fn append(self, sync: &str) -> Self {
        let kept = self.setting("appendonly", "yes");
        kept.setting("appendfsync", sync)
    }

    /// Limits its memory, with what is to happen when it is full: `noeviction`, `allkeys-lru`.
    #[must_use]
    pub fn memory(self, size: &str, policy: &str) -> Self {
        let limited = self.setting("maxmemory", size);
        limited.setting("maxmemory-policy", policy)
    }

    /// Lets nobody in without this password.
    #[must_use]
    pub fn password(mut self, word: &str) -> Self {
        self.password = Some(word.to_owned());
        self.setting("requirepass", word)
            .setting("masterauth", word)
    }

    /// Makes the server a replica of whoever listens at an address: a master, or a proxy before
    /// one.
    #[must_use]
    pub fn replica_of(mut self, master: SocketAddr) -> Self {
        self.master = Some(master);
        self
    }

    /// Gives it a wall clock that can be [stepped](RedisServer::step_clock).
    #[must_use]
    pub fn movable_clock(mut self) -> Self {
        self.movable_clock = true;
        self
    }

    /// Starts the server, and returns when it answers: a replica, when it follows its master.
    pub(super) async fn start(self) -> RedisServer {
        let folder = tempfile::Builder::new()
            .prefix("onceward-redis-")
            .tempdir()
            .expect("a place for temporary files");
        let library = self.movable_clock.then(|| shim("clock", folder.path()));
        std::fs::write(folder.path().join(CLOCK_OFFSET), "0").expect("it can be written to");
        let mut server = RedisServer {
            folder,
            port: 0,
            password: self.password.clone(),
            shim: library,
            is_sentinel: self.is_sentinel,
            process: None,
        };
        self.launch(&mut server).await;
        if self.master.is_some() {
            server.until("master_link_status", "up").await;
        }
        server
    }

    /// Starts it on a free port: another one if somebody else was faster.
    async fn launch(&self, server: &mut RedisServer) {
        for _ in 0..10 {
            server.port = free_port();
            let file = server.folder.path().join(CONFIG);
            std::fs::write(file, self.text(server)).expect("the folder can be written to");
            match server.run().await {
                Ok(()) => return,
                Err(error) if error.log.contains("bind") => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("no port is free");
    }

    /// The server's file of settings.
    fn text(&self, server: &RedisServer) -> String {
        let mut text = String::from(DEFAULTS);
        if !self.is_sentinel {
            text.push_str(KEEPING);
        }
        let mut set = |name: &str, value: &str| {
            writeln!(text, "{name} {value}").expect("text grows");
        };
        set("port", &server.port.to_string());
        set("dir", &server.folder.path().display().to_string());
        if self.is_node {
            set("cluster-enabled", "yes");
            set("cluster-port", &(server.port + BUS).to_string());
        }
        if let Some(master) = self.master {
            set("replicaof", &format!("{} {}", master.ip(), master.port()));
        }
        for (name, value) in &self.settings {
            set(name, value);
        }
        text
    }
}

/// How far a node's port for other nodes is from the one for callers.
const BUS: u16 = 10_000;

/// A port that nobody uses, below those that the system gives out: it stays free while the server
/// that had it is down. So is the one beside it on which nodes of a cluster talk.
fn free_port() -> u16 {
    let is_free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        let port = fastrand::u16(10_100..20_000);
        if is_free(port) && is_free(port + BUS) {
            return port;
        }
    }
}
