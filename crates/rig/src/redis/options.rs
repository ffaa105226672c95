//! What a server is made with.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

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
    tls: Option<Tls>,
    pub(super) is_sentinel: bool,
    pub(super) is_node: bool,
}

/// What a server has that speaks TLS, in PEM.
#[derive(Clone, Debug)]
struct Tls {
    certificate: String,
    key: String,
    /// Who signs the certificates of callers, if they have to have one.
    trusts: Option<String>,
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

    /// Lets it speak TLS too, on a [port of its own](RedisServer::tls_port), with a certificate
    /// and its key in PEM. If it is told whom it `trusts`, callers need a certificate from there.
    #[must_use]
    pub fn tls(mut self, certificate: &str, key: &str, trusts: Option<&str>) -> Self {
        self.tls = Some(Tls {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            trusts: trusts.map(str::to_owned),
        });
        self
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
        if let Some(tls) = &self.tls {
            set("tls-port", &server.tls_port().to_string());
            tls.set(server.folder.path(), &mut set);
        }
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

// === impl Tls ===

impl Tls {
    /// Writes its files into a folder, and sets what names them.
    fn set(&self, folder: &Path, mut set: impl FnMut(&str, &str)) {
        let mut file = |setting: &str, name: &str, pem: &str| {
            let path = folder.join(name);
            std::fs::write(&path, pem).expect("the folder can be written to");
            set(setting, &path.display().to_string());
        };
        file("tls-cert-file", "server.pem", &self.certificate);
        file("tls-key-file", "server.key", &self.key);
        let trusts = self.trusts.as_ref().unwrap_or(&self.certificate);
        file("tls-ca-cert-file", "trusted.pem", trusts);
        let asks = if self.trusts.is_some() { "yes" } else { "no" };
        set("tls-auth-clients", asks);
    }
}

/// How far a node's port for other nodes is from the one for callers, and a server's for TLS from
/// the one without.
pub(super) const BUS: u16 = 10_000;

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
