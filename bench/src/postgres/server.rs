//! A PostgreSQL of our own: nothing of the machine's configuration is read.

use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Signal, geteuid};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

use crate::Failed;
use crate::process::{DISK, Process, free_address, installed_or};

/// A server that syncs every commit to the disk, as servers do unless they are told otherwise.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) process: Process,
    programs: PathBuf,
    _folder: TempDir,
}

/// Whom the server runs as: it refuses to be root.
#[derive(Debug, Clone, Copy)]
struct User {
    user: u32,
    group: u32,
}

/// What differs from the defaults: room for 256 connections and ours, and no checkpoint in the
/// middle of a round, because it would burden whichever side is being measured.
const SETTINGS: [&str; 7] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=320",
    "shared_buffers=256MB",
    "checkpoint_timeout=1h",
    "max_wal_size=16GB",
    "fsync=on",
];

// === impl Server ===

impl Server {
    /// Starts a server with an empty database.
    pub(crate) async fn start() -> Result<Self, Failed> {
        let programs = find()?;
        let user = match geteuid().is_root() {
            true => Some(User::named("postgres")?),
            false => None,
        };
        let folder = tempfile::Builder::new()
            .prefix("onceward-bench-")
            .tempdir_in(DISK)?;
        if let Some(User { user, group }) = user {
            chown(folder.path(), Some(user), Some(group))?;
        }
        let data = folder.path().join("data");
        create(&programs, &data, user)?;
        let address = free_address()?;
        let mut command = command(&programs.join("postgres"), user);
        command.arg("-D").arg(&data);
        command.args(["-p", &address.port().to_string()]);
        command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        let log = folder.path().join("log");
        // At once and without a checkpoint: its files are removed anyway.
        let mut process = Process::start("PostgreSQL", command, &log, Signal::QUIT)?;
        process
            .until(async || connect(&url(address)).await.is_ok())
            .await?;
        Ok(Self {
            address,
            process,
            programs,
            _folder: folder,
        })
    }

    /// Returns the URL of the database.
    pub(crate) fn url(&self) -> String {
        url(self.address)
    }

    /// Returns the URL of a store in a schema of its own, with more `settings` of the store.
    pub(crate) fn store(&self, schema: &str, settings: &str) -> String {
        let more = if settings.is_empty() { "" } else { "&" };
        format!("{}?schema={schema}{more}{settings}", self.url())
    }

    /// Returns a connection.
    pub(crate) async fn connect(&self) -> Result<Client, Failed> {
        connect(&self.url()).await
    }

    /// Runs statements, one after the other.
    pub(crate) async fn execute(&self, statements: &str) -> Result<(), Failed> {
        let client = self.connect().await?;
        client.batch_execute(statements).await.map_err(words)
    }

    /// Returns the one number that `query` asks for.
    pub(crate) async fn count(&self, query: &str) -> Result<u64, Failed> {
        let client = self.connect().await?;
        let row = client.query_one(query, &[]).await.map_err(words)?;
        let count: i64 = row.try_get(0)?;
        Ok(count.try_into()?)
    }

    /// Returns one of the programs that came with the server.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }
}

fn url(address: SocketAddr) -> String {
    format!("postgres://postgres@{address}/postgres")
}

async fn connect(url: &str) -> Result<Client, Failed> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // It ends when the client is dropped; what goes wrong on it, the client is told.
    tokio::spawn(connection);
    Ok(client)
}

/// What the server said, which the driver keeps to itself.
fn words(error: tokio_postgres::Error) -> Failed {
    match error.as_db_error() {
        Some(said) => said.to_string().into(),
        None => error.into(),
    }
}

fn create(programs: &Path, data: &Path, user: Option<User>) -> Result<(), Failed> {
    let mut command = command(&programs.join("initdb"), user);
    command.arg("-D").arg(data);
    command.args(["-U", "postgres", "-A", "trust", "-E", "UTF8"]);
    command.args(["--locale=C", "--no-sync"]);
    let made = command.stdin(Stdio::null()).output()?;
    match made.status.success() {
        true => Ok(()),
        false => {
            let words = String::from_utf8_lossy(&made.stderr);
            Err(format!("initdb ended with {}: {words}", made.status).into())
        }
    }
}

fn command(program: &Path, user: Option<User>) -> Command {
    let mut command = Command::new(program);
    // A folder that it may not enter makes it complain.
    command.current_dir("/");
    if let Some(User { user, group }) = user {
        command.uid(user).gid(group);
    }
    command
}

/// Returns the folder with the newest server of this machine, installed if need be and if we may.
fn find() -> Result<PathBuf, Failed> {
    installed_or("PostgreSQL", "postgresql", installed)
}

fn installed() -> Option<PathBuf> {
    let mut found = Vec::new();
    for version in std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten() {
        let number = version.file_name().to_string_lossy().parse::<u32>();
        found.extend(number.map(|number| (number, version.path().join("bin"))));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    found.extend(std::env::split_paths(&path).map(|folder| (0, folder)));
    found.retain(|(_, folder)| folder.join("initdb").is_file() && folder.join("pgbench").is_file());
    found.into_iter().max().map(|(_, folder)| folder)
}

// === impl User ===

impl User {
    fn named(name: &str) -> Result<Self, Failed> {
        let users = std::fs::read_to_string("/etc/passwd")?;
        let found = users.lines().find_map(|line| Self::parse(line, name));
        found.ok_or_else(|| {
            format!("there is no user {name}, and PostgreSQL refuses to run as root").into()
        })
    }

    /// Reads a line of `/etc/passwd`.
    fn parse(line: &str, name: &str) -> Option<Self> {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        let mut numbers = fields.skip(1).map(|field| field.parse().ok());
        Some(Self {
            user: numbers.next()??,
            group: numbers.next()??,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::User;

    #[test]
    fn user_is_found_by_the_whole_name() {
        let line = "postgres:x:102:105:PostgreSQL administrator:/var/lib/postgresql:/bin/bash";
        let User { user, group } = User::parse(line, "postgres").unwrap();
        assert_eq!((user, group), (102, 105));
        assert!(User::parse(line, "post").is_none());
    }
}
