//! Redis servers of our own: nothing of the machine's configuration is read.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::Failed;
use crate::payer::compare;
use crate::process::{DISK, Process, free_address, installed_or};

/// A server that throws nothing away.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) process: Process,
    programs: PathBuf,
    _folder: TempDir,
}

/// What a server does about its log before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// It syncs the log to the disk.
    Always,
    /// It writes to the log, which is synced every second.
    EverySecond,
    /// There is no log.
    Memory,
}

/// The database in which there is nothing of the store's.
pub(crate) const PLAIN: &str = "1";

/// Counts the records whose names look like the second word and whose state has this digit, which
/// they begin with.
const COUNT: &str = "
    local cursor, count = '0', 0
    repeat
        local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1], 'COUNT', 1000)
        cursor = page[1]
        for _, name in ipairs(page[2]) do
            if redis.call('GETRANGE', name, 0, 0) == ARGV[2] then count = count + 1 end
        end
    until cursor == '0'
    return count";

/// Writes so many answers of 300 bytes, each under twelve digits.
const FILL: &str = "
    for number = 0, ARGV[1] - 1 do
        redis.call('SET', string.format('answers:%012d', number), string.rep('7', 300))
    end
    return redis.call('DBSIZE')";

// === impl Server ===

impl Server {
    /// Starts an empty server.
    pub(crate) async fn start(persistence: Persistence) -> Result<Self, Failed> {
        Self::start_with(&persistence.settings()).await
    }

    /// Starts a replica of this server, and returns when it has what this one has.
    pub(crate) async fn replica(&self, persistence: Persistence) -> Result<Self, Failed> {
        let master = format!("{} {}", self.address.ip(), self.address.port());
        let mut settings = persistence.settings().to_vec();
        settings.push(("replicaof", &master));
        let mut replica = Self::start_with(&settings).await?;
        let (programs, address) = (replica.programs.clone(), replica.address);
        let is_up = async || {
            let info = ask(&programs, address, &["INFO", "replication"]).await;
            info.is_ok_and(|info| info.contains("master_link_status:up"))
        };
        replica.process.until(is_up).await?;
        Ok(replica)
    }

    async fn start_with(settings: &[(&str, &str)]) -> Result<Self, Failed> {
        let programs = installed_or("Redis", "redis", installed)?;
        let folder = tempfile::Builder::new()
            .prefix("onceward-bench-")
            .tempdir_in(DISK)?;
        let address = free_address()?;
        let mut command = Command::new(programs.join("redis-server"));
        command
            .args(["--bind", &address.ip().to_string()])
            .args(["--port", &address.port().to_string()])
            .arg("--dir")
            .arg(folder.path())
            // Neither a snapshot nor a new log is written in the middle of a round: it would burden
            // whichever side is being measured.
            .args(["--save", "", "--auto-aof-rewrite-percentage", "0"]);
        for (name, value) in settings {
            command.arg(format!("--{name}")).args(value.split(' '));
        }
        let log = folder.path().join("log");
        let mut process = Process::start("Redis", command, &log, Signal::KILL)?;
        process
            .until(async || ask(&programs, address, &["PING"]).await.is_ok())
            .await?;
        Ok(Self {
            address,
            process,
            programs,
            _folder: folder,
        })
    }

    /// Returns the URL of a store under a prefix of its own, with more `settings` of the store.
    pub(crate) fn store(&self, prefix: &str, settings: &str) -> String {
        let more = if settings.is_empty() { "" } else { "&" };
        let address = self.address;
        format!("redis://{address}?prefix={prefix}{more}{settings}")
    }

    /// Returns how many records there are under a prefix whose state has this number.
    pub(crate) async fn records(&self, prefix: &str, state: u8) -> Result<u64, Failed> {
        let (names, state) = (format!("{prefix}{{*}}:r:*"), state.to_string());
        self.number(&["EVAL", COUNT, "0", &names, &state]).await
    }

    /// Returns how many keys there are that are none of the store's.
    pub(crate) async fn plain_keys(&self) -> Result<u64, Failed> {
        self.number(&["-n", PLAIN, "DBSIZE"]).await
    }

    /// Writes so many answers that are none of the store's, where there is nothing else.
    pub(crate) async fn fill(&self, answers: u64) -> Result<(), Failed> {
        let words = ["-n", PLAIN, "EVAL", FILL, "0", &answers.to_string()];
        compare("the plain database", self.number(&words).await?, answers)
    }

    /// Returns one of the programs that came with the server.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    async fn number(&self, words: &[&str]) -> Result<u64, Failed> {
        let said = ask(&self.programs, self.address, words).await?;
        let number = said.trim().parse();
        number.map_err(|_| format!("Redis said {said:?}, which is no number").into())
    }
}

/// Runs a command, and returns what the server says.
async fn ask(programs: &Path, address: SocketAddr, words: &[&str]) -> Result<String, Failed> {
    let mut command = Command::new(programs.join("redis-cli"));
    command
        .args(["-e", "-h", &address.ip().to_string()])
        .args(["-p", &address.port().to_string()])
        .args(words)
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(said),
        false => {
            let words = String::from_utf8_lossy(&output.stderr);
            Err(format!("redis-cli ended with {}: {words}{said}", output.status).into())
        }
    }
}

/// Returns the first folder of the path in which all the programs are.
fn installed() -> Option<PathBuf> {
    let programs = ["redis-server", "redis-cli", "redis-benchmark"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path);
    folders.find(|folder| programs.iter().all(|name| folder.join(name).is_file()))
}

// === impl Persistence ===

impl Persistence {
    /// In our own words, which figures begin with.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::EverySecond => "everysec",
            Self::Memory => "memory",
        }
    }

    /// In the words of the server's settings.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Always => "appendfsync always",
            Self::EverySecond => "appendfsync everysec",
            Self::Memory => "appendonly no",
        }
    }

    fn settings(self) -> [(&'static str, &'static str); 2] {
        match self {
            Self::Always => [("appendonly", "yes"), ("appendfsync", "always")],
            Self::EverySecond => [("appendonly", "yes"), ("appendfsync", "everysec")],
            Self::Memory => [("appendonly", "no"), ("appendfsync", "no")],
        }
    }
}
