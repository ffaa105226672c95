//! Real PostgreSQL servers: started on free ports, killed, paused, cloned and promoted.
//!
//! A [`Server`] lives in a temporary folder and is gone with the process that started it, however
//! that ends. Programs of PostgreSQL are looked for on the path, and then where Debian keeps them.
//! The server refuses to run as root, so root starts it as the user `postgres`.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use onceward::clock::{Clock as _, SystemClock};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::guard::{Guard, is_alive};
pub use crate::proxy::{self, Proxy};

mod builder;
mod process;
mod scratch;
mod template;

pub use builder::Builder;
use process::Programs;
pub use scratch::{SERVER_VAR, Scratch, scratch, shared_url};

/// How long a server may take to do what it was told: recovery after kill -9 included.
const DEADLINE: Duration = Duration::from_secs(60);

/// How long a server may take to answer a try that may be repeated: on its port may be somebody
/// else, who has never heard of such a question.
const TRY: Duration = Duration::from_secs(5);

/// How long to wait before asking once more.
const PAUSE: Duration = Duration::from_millis(10);

/// A private PostgreSQL server on a free port of this machine, stopped and removed when dropped.
pub struct Server {
    programs: Programs,
    folder: TempDir,
    port: u16,
    /// A library that is loaded before all others.
    shim: Option<std::path::PathBuf>,
    /// `None` while it is stopped or dead.
    process: Option<Guard>,
}

/// Why a server does not run: what it said last.
#[derive(Debug, thiserror::Error)]
#[error("the server does not start:\n{log}")]
struct NotStarted {
    log: String,
}

// === impl Server ===

impl Server {
    /// Returns what a server is made with, to be changed before it starts.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts a server that syncs every commit and asks nobody on this machine for a password.
    ///
    /// # Panics
    ///
    /// Panics if PostgreSQL is not installed, or its server does not start.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// The URL of its first database, as its superuser.
    pub fn url(&self) -> String {
        url(self.addr(), "postgres")
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Makes a fresh database and returns its URL.
    ///
    /// # Panics
    ///
    /// Panics if the server does not do it.
    pub async fn database(&self) -> String {
        let name = format!("fresh_{:016x}", fastrand::u64(..));
        self.sql(&format!("CREATE DATABASE {name}")).await;
        url(self.addr(), &name)
    }

    /// Runs statements as the superuser, in the first database.
    ///
    /// # Panics
    ///
    /// Panics if the server does not do them.
    pub async fn sql(&self, text: &str) {
        sql(&self.url(), text).await.expect("the server does it");
    }

    /// Runs a statement as the superuser, in the first database, and returns the first value that
    /// comes back as text: empty where there is none.
    ///
    /// # Panics
    ///
    /// Panics if the server does not do it.
    pub async fn value(&self, text: &str) -> String {
        value(&self.url(), text).await.expect("the server does it")
    }

    /// Kills every process of it at once, as a machine does that stops.
    ///
    /// # Panics
    ///
    /// Panics if it is not running.
    pub async fn kill9(&mut self) {
        let process = self.process.take().expect("it is running");
        process.kill().await;
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

    /// Stops it in an orderly way: sessions are ended, and everything is on disk.
    ///
    /// # Panics
    ///
    /// Panics if it is not running.
    pub async fn stop(&mut self) {
        let process = self.process.take().expect("it is running");
        process.stop(Signal::INT).await;
    }

    /// Stops every process of it where it stands, as a machine does that hangs.
    ///
    /// # Panics
    ///
    /// Panics if it is not running.
    pub fn pause(&self) {
        self.process.as_ref().expect("it is running").freeze();
    }

    /// Lets every process of it go on.
    ///
    /// # Panics
    ///
    /// Panics if it is not running.
    pub fn resume(&self) {
        self.process.as_ref().expect("it is running").resume();
    }

    /// Makes a standby take over. Returns when it accepts writes.
    ///
    /// # Panics
    ///
    /// Panics if it does not.
    pub async fn promote(&self) {
        let promoted = self.value("SELECT pg_promote(true, 60)").await;
        assert_eq!(promoted, "t", "the standby takes over");
    }

    /// Steps its wall clock to this many seconds off, if it runs with the rig's clock shim.
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

    fn data(&self) -> std::path::PathBuf {
        self.folder.path().join(DATA)
    }

    /// Starts the process and waits until it answers, or has ended.
    async fn run(&mut self) -> Result<(), NotStarted> {
        let process = (self.programs).serve(self.folder.path(), self.shim.as_deref());
        let start = SystemClock.stopwatch();
        loop {
            let url = self.url();
            let asked = tokio::time::timeout(TRY, sql(&url, "SELECT 1"));
            if let Ok(Ok(())) = asked.await {
                self.process = Some(process);
                return Ok(());
            }
            let late = SystemClock.stopwatch() - start > DEADLINE;
            if late || !is_alive(process.server()) {
                process.kill().await;
                return Err(NotStarted {
                    log: tail(&self.log()),
                });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.end(self.folder.path());
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.addr())
    }
}

/// The server's data, in its folder.
const DATA: &str = "data";
/// What the server says, in its folder.
const LOG: &str = "log";
/// How far off the server's wall clock is, in its folder.
const CLOCK_OFFSET: &str = "clock-offset";

fn url(addr: SocketAddr, database: &str) -> String {
    format!("postgres://postgres@{addr}/{database}")
}

/// Runs statements on a connection of their own.
async fn sql(url: &str, text: &str) -> Result<(), tokio_postgres::Error> {
    value(url, text).await.map(drop)
}

/// Runs statements on a connection of their own, and returns the first value that comes back.
///
/// # Panics
///
/// Panics if nothing comes back.
async fn value(url: &str, text: &str) -> Result<String, tokio_postgres::Error> {
    let asked = tokio::time::timeout(2 * DEADLINE, ask(url, text));
    let asked = asked.await;
    asked.unwrap_or_else(|_| panic!("the server says nothing to {text:?}"))
}

async fn ask(url: &str, text: &str) -> Result<String, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    let driver = tokio::spawn(connection);
    let messages = client.simple_query(text).await;
    // It says goodbye before the driver ends: what comes next finds the session gone.
    drop(client);
    let _ = driver.await.expect("the driver does not panic");
    let first = messages?.into_iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(ToOwned::to_owned),
        _ => None,
    });
    Ok(first.unwrap_or_default())
}

/// The last lines of a log: enough to see what went wrong.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Gives a file or folder to the user that the server runs as.
fn give(programs: &Programs, path: &Path) {
    if let Some((user, group)) = programs.user() {
        std::os::unix::fs::chown(path, Some(user), Some(group)).expect("root may give files away");
    }
}
