//! Real Redis servers: started on free ports, killed, paused, promoted, and set wrong.
//!
//! A [`RedisServer`] lives in a temporary folder and is gone with the process that started it,
//! however that ends. [`Sentinels`] watch over a master and its replica; a [`Cluster`] has six
//! nodes. Programs of Redis are looked for on the path.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use onceward::clock::{Clock as _, SystemClock};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

mod cluster;
mod options;
mod scratch;
mod sentinels;

pub use cluster::Cluster;
pub use options::Options;
pub use scratch::{fresh_url, shared};
pub use sentinels::Sentinels;

use crate::guard::{Guard, is_alive};
use crate::proxy::{Proxy, Talk};

/// How long a server may take to do what it was told: recovery after kill -9 included.
const DEADLINE: Duration = Duration::from_secs(60);

/// How long to wait before asking once more.
const PAUSE: Duration = Duration::from_millis(5);

/// The server's settings, in its folder.
const CONFIG: &str = "redis.conf";
/// What the server says, in its folder.
const LOG: &str = "log";
/// How far off the server's wall clock is, in its folder.
const CLOCK_OFFSET: &str = "clock-offset";

/// A private Redis server on a free port of this machine, stopped and removed when dropped.
pub struct RedisServer {
    folder: TempDir,
    port: u16,
    password: Option<String>,
    /// A library that is loaded before all others.
    shim: Option<PathBuf>,
    /// Whether it watches over others and keeps nothing itself.
    is_sentinel: bool,
    /// `None` while it is stopped or dead.
    process: Option<Guard>,
}

/// Why a server does not run: what it said last.
#[derive(Debug, thiserror::Error)]
#[error("the server does not start:\n{log}")]
struct NotStarted {
    log: String,
}

// === impl RedisServer ===

impl RedisServer {
    /// Starts a server, and returns when it answers: a replica, when it follows its master.
    ///
    /// # Panics
    ///
    /// Panics if Redis is not installed, or its server does not start.
    pub async fn start(options: Options) -> Self {
        options.start().await
    }

    /// Starts a server that syncs every write before it answers.
    ///
    /// # Panics
    ///
    /// Panics if Redis is not installed, or its server does not start.
    pub async fn durable() -> Self {
        Self::start(Options::default().durable()).await
    }

    /// The URL of its first database.
    pub fn url(&self) -> String {
        let password = self.password.as_ref();
        let password = password.map_or_else(String::new, |word| format!(":{word}@"));
        format!("redis://{password}{}", self.addr())
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Where it speaks TLS, if it was [told to](Options::tls).
    pub fn tls_port(&self) -> u16 {
        self.port + options::BUS
    }

    /// The folder that it keeps its data in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a proxy in front of it.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub fn proxy(&self) -> Proxy {
        Proxy::between(self.addr(), Talk::Redis)
    }

    /// Runs a command, and returns what it answers, a line for each value.
    ///
    /// # Panics
    ///
    /// Panics if the server refuses it, or does not answer.
    pub async fn cli(&self, words: &[&str]) -> String {
        let answered = self.try_cli(words).await;
        answered.unwrap_or_else(|said| panic!("{words:?}: {said}"))
    }

    /// Runs a command, and returns what it answers, or what the server has against it.
    pub async fn try_cli(&self, words: &[&str]) -> Result<String, String> {
        let port = self.port.to_string();
        let mut all = vec!["-e", "-p", &port];
        if let Some(password) = &self.password {
            all.extend(["--no-auth-warning", "-a", password]);
        }
        all.extend(words);
        redis_cli(&all).await
    }

    /// A field of `INFO`: empty where there is none.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub async fn info(&self, field: &str) -> String {
        let all = self.cli(&["INFO", "everything"]).await;
        let values = all.lines().filter_map(|line| line.split_once(':'));
        let value = { values }.find_map(|(name, value)| (name == field).then_some(value));
        value.unwrap_or_default().trim_end().to_owned()
    }

    /// Waits until a field of `INFO` has a value.
    ///
    /// # Panics
    ///
    /// Panics if it never does.
    pub async fn until(&self, field: &str, value: &str) {
        let is_so = || async { (self.info(field).await == value).then_some(()) };
        until(&format!("{field} is {value}"), is_so).await;
    }

    /// Kills it on the spot, as a machine does that stops.
    ///
    /// # Panics
    ///
    /// Panics if it is not running.
    pub async fn kill9(&mut self) {
        let process = self.process.take().expect("it is running");
        process.kill().await;
    }

    /// Stops it in an orderly way.
    ///
    /// # Panics
    ///
    /// Panics if it is not running.
    pub async fn stop(&mut self) {
        let process = self.process.take().expect("it is running");
        process.stop(Signal::TERM).await;
    }

    /// Starts it again on its port and folder, after it was killed or stopped; stops it before
    /// that if it is still running. Returns when it answers.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    pub async fn restart(&mut self) {
        if self.process.is_some() {
            self.stop().await;
        }
        self.run().await.expect("it has started before");
    }

    /// Stops it where it stands, as a machine does that hangs.
    ///
    /// # Panics
    ///
    /// Panics if it is not running.
    pub fn pause(&self) {
        self.process.as_ref().expect("it is running").freeze();
    }

    /// Lets it go on.
    ///
    /// # Panics
    ///
    /// Panics if it is not running.
    pub fn resume(&self) {
        self.process.as_ref().expect("it is running").resume();
    }

    /// Whether it was started and neither killed nor stopped since.
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// Waits until this replica has everything that its master has by now.
    ///
    /// # Panics
    ///
    /// Panics if it never has.
    pub async fn caught_up_with(&self, master: &Self) {
        let all = master.info("master_repl_offset").await;
        let all: u64 = all.parse().expect("it is a number");
        until("the replica has everything", || async {
            let has = self.info("slave_repl_offset").await;
            let has: u64 = has.parse().ok()?;
            (has >= all).then_some(())
        })
        .await;
    }

    /// Waits until its master has heard from this replica, which takes up to a second after it
    /// began to follow: before that it counts for nobody who waits for replicas.
    ///
    /// # Panics
    ///
    /// Panics if nothing is heard.
    pub async fn heard_by(&self, master: &Self) {
        // Something that replicas are told of, and that leaves nothing behind.
        master.cli(&["PUBLISH", "onceward-rig", "heard?"]).await;
        let written = master.info("master_repl_offset").await;
        let all = format!("port={},state=online,offset={written},", self.port);
        until("the master has heard from its replica", || async {
            let told = master.cli(&["INFO", "replication"]).await;
            told.contains(&all).then_some(())
        })
        .await;
    }

    /// Makes a replica take over, with whatever it has.
    ///
    /// # Panics
    ///
    /// Panics if it does not.
    pub async fn promote(&self) {
        self.cli(&["REPLICAOF", "NO", "ONE"]).await;
        self.until("role", "master").await;
    }

    /// Steps its wall clock to this many seconds off, if its clock is
    /// [movable](Options::movable_clock).
    ///
    /// # Panics
    ///
    /// Panics if its folder cannot be written to.
    pub fn step_clock(&self, seconds: i64) {
        let file = self.folder.path().join(CLOCK_OFFSET);
        // Put there whole: it is read at every look at the clock.
        let fresh = file.with_extension("new");
        std::fs::write(&fresh, seconds.to_string()).expect("the folder can be written to");
        std::fs::rename(&fresh, &file).expect("the folder can be written to");
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        let log = std::fs::read(self.folder.path().join(LOG)).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Starts the process and waits until it answers, or has ended.
    async fn run(&mut self) -> Result<(), NotStarted> {
        let process = self.spawn();
        let start = SystemClock.stopwatch();
        loop {
            let number = process.server().as_raw_nonzero().get();
            if self.answers_as(number).await == Some(true) {
                self.process = Some(process);
                return Ok(());
            }
            let late = SystemClock.stopwatch() - start > DEADLINE;
            if late || !is_alive(process.server()) {
                process.kill().await;
                let log = tail(&self.log());
                return Err(NotStarted { log });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn spawn(&self) -> Guard {
        let folder = self.folder.path();
        let mut command = Guard::command(folder, "KILL");
        let offset = folder.join(CLOCK_OFFSET);
        command
            .arg("env")
            .arg(format!("CLOCK_OFFSET={}", offset.display()));
        if let Some(shim) = &self.shim {
            command.arg(format!("LD_PRELOAD={}", shim.display()));
        }
        command.arg("redis-server").arg(folder.join(CONFIG));
        if self.is_sentinel {
            command.arg("--sentinel");
        }
        Guard::spawn(command)
    }

    /// Whether whoever listens on its port is the process of this number, and has read its data.
    async fn answers_as(&self, number: i32) -> Option<bool> {
        let mut stream = TcpStream::connect(self.addr()).await.ok()?;
        let mut words = String::from("INFO server\r\nPING\r\n");
        if let Some(password) = &self.password {
            words.insert_str(0, &format!("AUTH {password}\r\n"));
        }
        stream.write_all(words.as_bytes()).await.ok()?;
        let mut said = Vec::new();
        let ends = [&b"+PONG\r\n"[..], b"-LOADING", b"-NOAUTH", b"-MASTERDOWN"];
        loop {
            if 0 == stream.read_buf(&mut said).await.ok()? {
                return None;
            }
            if ends.iter().any(|end| contains(&said, end)) {
                let number = format!("process_id:{number}\r\n");
                return Some(contains(&said, number.as_bytes()) && contains(&said, ends[0]));
            }
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.end(self.folder.path());
        }
    }
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisServer({})", self.addr())
    }
}

/// Runs the command line of Redis.
async fn redis_cli(words: &[&str]) -> Result<String, String> {
    let mut command = tokio::process::Command::new("redis-cli");
    let output = command.args(words).stdin(Stdio::null()).output().await;
    let output = output.expect("Redis is installed: apt-get install redis-tools");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&[output.stdout, output.stderr].concat())),
    }
}

/// Asks again and again until there is an answer.
async fn until<T, F: Future<Output = Option<T>>>(what: &str, ask: impl Fn() -> F) -> T {
    let start = SystemClock.stopwatch();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        let waited = SystemClock.stopwatch() - start;
        assert!(waited < DEADLINE, "it does not come about that {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// The last lines of a log: enough to see what went wrong.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
