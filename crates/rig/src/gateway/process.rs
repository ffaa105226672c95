//! The gateway's process: started, killed, started again and measured.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::{OnceCell, watch};
use tokio::time::timeout;

use super::DEADLINE;
use crate::postgres::{Scratch, scratch};
use crate::redis;

mod limits;
mod shims;

pub use self::shims::shim;

/// How a gateway is started.
#[derive(Clone, Debug)]
pub struct Launch {
    executable: PathBuf,
    folder: Arc<TempDir>,
    arguments: BTreeMap<&'static str, String>,
    variables: BTreeMap<String, String>,
    /// The server that its records are on, if they are on one.
    server: Option<Server>,
    /// The cache in front of it, once it was started, if there is one.
    cache: Option<Arc<OnceCell<String>>>,
}

/// Where records are that many gateways share: a place that is made at the first start.
#[derive(Clone, Debug)]
enum Server {
    Postgres(Arc<OnceCell<(String, Scratch)>>),
    Redis(Arc<OnceCell<String>>),
}

/// A running gateway. It is killed when it is dropped.
#[derive(Debug)]
pub struct Gateway {
    /// How to start it again.
    launch: Launch,
    child: Child,
    pid: Pid,
    log: Arc<Log>,
    addr: SocketAddr,
    admin: SocketAddr,
}

/// How a process ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Its exit status, if it was not killed.
    pub code: Option<i32>,
    /// All that it said on stderr.
    pub stderr: String,
}

/// What a process said on stderr, up to now.
#[derive(Debug, Default)]
struct Log {
    text: Mutex<String>,
    /// How many lines there are, and whether there will be more.
    lines: watch::Sender<(usize, bool)>,
}

/// The file that says how far off the wall clock is.
const CLOCK_OFFSET: &str = "clock-offset";

// === impl Launch ===

impl Launch {
    /// A gateway on free ports, with a store in a folder of its own.
    ///
    /// # Panics
    ///
    /// Panics if there is no place for the folder.
    pub fn new(executable: impl Into<PathBuf>) -> Self {
        let folder = TempDir::new().expect("a place for temporary files");
        let store = format!("embedded:{}", folder.path().join("store").display());
        let arguments = BTreeMap::from([
            ("--listen", "127.0.0.1:0".into()),
            ("--admin", "127.0.0.1:0".into()),
            ("--store", store),
        ]);
        Self {
            executable: executable.into(),
            folder: Arc::new(folder),
            arguments,
            variables: BTreeMap::new(),
            server: None,
            cache: None,
        }
    }

    /// Sets the service behind it.
    #[must_use]
    pub fn upstream(self, addr: SocketAddr) -> Self {
        self.argument("--upstream", &format!("http://{addr}"))
    }

    /// Sets an option of the command line.
    #[must_use]
    pub fn argument(mut self, name: &'static str, value: &str) -> Self {
        self.arguments.insert(name, value.into());
        self
    }

    /// Leaves an option of the command line out.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.arguments.remove(name);
        self
    }

    /// Keeps records in memory.
    #[must_use]
    pub fn in_memory(self) -> Self {
        self.argument("--store", "memory:")
    }

    /// Keeps records in a schema of PostgreSQL, which is made at the first start. Clones share it.
    #[must_use]
    pub fn in_postgres(mut self) -> Self {
        self.server = Some(Server::Postgres(Arc::default()));
        self
    }

    /// Keeps records in Redis, under names that are made up at the first start. Clones share them.
    #[must_use]
    pub fn in_redis(mut self) -> Self {
        self.server = Some(Server::Redis(Arc::default()));
        self
    }

    /// Has a Redis server remember answers in front of the database. Clones share it.
    #[must_use]
    pub fn cached(mut self) -> Self {
        self.cache = Some(Arc::default());
        self
    }

    /// Writes a file into its folder and starts it with that as its configuration.
    #[must_use]
    pub fn config(self, text: &str) -> Self {
        let path = self.file("onceward.toml", text);
        self.argument("--config", &path.display().to_string())
    }

    /// Sets a variable.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Leaves a variable out.
    #[must_use]
    pub fn without_variable(mut self, name: &str) -> Self {
        self.variables.remove(name);
        self
    }

    /// Its folder, which lasts as long as anything started from it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The store that it keeps its records in.
    pub fn store(&self) -> &str {
        self.arguments.get("--store").map_or("", String::as_str)
    }

    /// The cache in front of it.
    pub fn cache(&self) -> &str {
        self.arguments.get("--cache").map_or("", String::as_str)
    }

    /// Writes a file into its folder.
    ///
    /// # Panics
    ///
    /// Panics if the file cannot be written.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder().join(name);
        std::fs::write(&path, text).expect("the folder can be written to");
        path
    }

    /// Starts it, and waits until it listens.
    ///
    /// # Panics
    ///
    /// Panics if it does not, with what it says.
    pub async fn start(self) -> Gateway {
        match self.try_start().await {
            Ok(gateway) => gateway,
            Err(ended) => panic!("it does not start: {}", ended.stderr),
        }
    }

    /// Starts it, and waits until it listens, or has ended without.
    ///
    /// # Panics
    ///
    /// Panics if it does neither.
    pub async fn try_start(mut self) -> Result<Gateway, Ended> {
        self.find_server().await;
        let (mut child, log) = self.spawn();
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let pid = id.and_then(Pid::from_raw).expect("it was not waited for");
        let addr = log.address("listening on http://").await;
        let admin = log.address("admin on http://").await;
        let (Some(addr), Some(admin)) = (addr, admin) else {
            return Err(ended(&mut child, &log).await);
        };
        Ok(Gateway {
            launch: self,
            child,
            pid,
            log,
            addr,
            admin,
        })
    }

    /// Starts it, and waits until it ends by itself.
    ///
    /// # Panics
    ///
    /// Panics if it does not end.
    pub async fn fail(mut self) -> Ended {
        self.find_server().await;
        let (mut child, log) = self.spawn();
        ended(&mut child, &log).await
    }

    /// Names the place on a server as its store, if its records are on one.
    async fn find_server(&mut self) {
        let url = match &self.server {
            None => return,
            Some(Server::Postgres(place)) => &place.get_or_init(scratch).await.0,
            Some(Server::Redis(place)) => place.get_or_init(redis::fresh_url).await,
        };
        self.arguments.insert("--store", url.clone());
        if let Some(cache) = &self.cache {
            let url = cache.get_or_init(redis::fresh_url).await;
            self.arguments.insert("--cache", url.clone());
        }
    }

    fn spawn(&self) -> (Child, Arc<Log>) {
        // What is ignored stays ignored in the program that takes over: a file that grows over
        // its limit is then an error, which is how tests take the store away, and not the end.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
        command.arg(&self.executable).arg("serve");
        for (name, value) in &self.arguments {
            command.args([*name, value]);
        }
        for variable in ["ONCEWARD_STORE", "ONCEWARD_SECRET", "ONCEWARD_SECRET_FILE"] {
            command.env_remove(variable);
        }
        for variable in ["ONCEWARD_LOG", "ONCEWARD_ADMIN_TOKEN", "ONCEWARD_CACHE"] {
            command.env_remove(variable);
        }
        command.envs(&self.variables).current_dir(self.folder());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command
            .kill_on_drop(true)
            .spawn()
            .expect("there is a shell");
        let log = Arc::new(Log::default());
        let stderr = child.stderr.take().expect("it is piped");
        tokio::spawn(listen(stderr, log.clone()));
        (child, log)
    }
}

async fn listen(stderr: ChildStderr, log: Arc<Log>) {
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();
    while let Ok(1..) = lines.read_until(b'\n', &mut line).await {
        log.text.lock().push_str(&String::from_utf8_lossy(&line));
        log.lines.send_modify(|(lines, _)| *lines += 1);
        line.clear();
    }
    log.lines.send_modify(|(_, ended)| *ended = true);
}

async fn ended(child: &mut Child, log: &Log) -> Ended {
    let status = timeout(DEADLINE, child.wait()).await;
    let Ok(Ok(status)) = status else {
        panic!("it does not end: {}", log.text.lock());
    };
    // The last lines may still be on their way.
    let mut lines = log.lines.subscribe();
    let _ = timeout(DEADLINE, lines.wait_for(|(_, ended)| *ended)).await;
    Ended {
        code: status.code(),
        stderr: log.text.lock().clone(),
    }
}

// === impl Gateway ===

impl Gateway {
    /// Where callers are listened for.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where operators are listened for.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.launch.folder()
    }

    /// How it was started.
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// All that it said on stderr since it was started.
    pub fn log(&self) -> String {
        self.log.text.lock().clone()
    }

    /// Kills it on the spot and waits until it is gone.
    pub async fn kill9(&mut self) -> Ended {
        self.signal(Signal::KILL);
        ended(&mut self.child, &self.log).await
    }

    /// Asks it to end.
    pub fn term(&self) {
        self.signal(Signal::TERM);
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> Ended {
        ended(&mut self.child, &self.log).await
    }

    /// Starts it again on the same store, on other ports.
    ///
    /// # Panics
    ///
    /// Panics if it does not start. Kill it or wait for its end first.
    pub async fn restart(self) -> Self {
        self.launch.clone().start().await
    }

    fn signal(&self, signal: Signal) {
        // It may have ended by itself; then there is nobody to tell.
        let _ = kill_process(self.pid, signal);
    }

    /// Moves its wall clock this many seconds off the real one, and the one that it has after a
    /// restart as well. It needs a [movable clock](Launch::movable_clock).
    pub fn move_clock(&self, seconds: i64) {
        // In one step, so that it is never seen half written.
        let next = self.launch.file("clock-offset.next", &seconds.to_string());
        let moved = std::fs::rename(next, self.folder().join(CLOCK_OFFSET));
        moved.expect("the folder can be written to");
    }
}

// === impl Log ===

impl Log {
    /// Waits for a line that says an address after `before`, or `None` if there is none.
    async fn address(&self, before: &str) -> Option<SocketAddr> {
        let mut lines = self.lines.subscribe();
        let found = async {
            loop {
                let (_, ended) = *lines.borrow_and_update();
                if let Some(addr) = self.find(before) {
                    return Some(addr);
                }
                if ended || lines.changed().await.is_err() {
                    return None;
                }
            }
        };
        timeout(DEADLINE, found).await.ok().flatten()
    }

    fn find(&self, before: &str) -> Option<SocketAddr> {
        let text = self.text.lock();
        let (_, rest) = text.split_once(before)?;
        let is_address = |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '[' | ']');
        let end = rest.find(|c| !is_address(c)).unwrap_or(rest.len());
        rest[..end].trim_end_matches(['.', ':']).parse().ok()
    }
}

#[cfg(test)]
mod tests;
