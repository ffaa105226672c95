//! The two ends of the gateway as processes: the upstream, and the gateway itself.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::message;
use crate::Failed;
use crate::process::{Process, free_address};

/// The upstream, in a process of its own.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    pub(crate) process: Process,
    _folder: TempDir,
}

/// What reached the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) requests: u64,
    /// Those that came under a key that had come before.
    pub(crate) repeated: u64,
}

/// The gateway, in a process of its own, with a store that nobody has used.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    pub(crate) process: Process,
    _folder: TempDir,
}

/// Where the gateway keeps its records.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Store {
    /// Embedded: every batch is on the disk before it is acknowledged.
    Fsync,
    /// Embedded: left to the operating system.
    Os,
    Memory,
}

// === impl Upstream ===

impl Upstream {
    /// Starts this executable once more, as the upstream.
    pub(crate) async fn start() -> Result<Self, Failed> {
        let (address, folder) = (free_address()?, tempfile::tempdir()?);
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["upstream", "--listen", &address.to_string()]);
        let log = folder.path().join("log");
        let mut process = Process::start("the upstream", command, &log, Signal::KILL)?;
        process.until(async || ok(address, "/_count").await).await?;
        Ok(Self {
            address,
            process,
            _folder: folder,
        })
    }

    /// Tells what reached the upstream since it last forgot.
    pub(crate) async fn reached(&self) -> Result<Reached, Failed> {
        let (_, body) = message::call(self.address, "GET", "/_count").await?;
        let body: Value = serde_json::from_slice(&body)?;
        let count = |name: &str| body[name].as_u64().ok_or("the upstream does not count");
        Ok(Reached {
            requests: count("requests")?,
            repeated: count("repeated")?,
        })
    }

    /// Makes the upstream forget what reached it.
    pub(crate) async fn reset(&self) -> Result<(), Failed> {
        message::call(self.address, "POST", "/_reset").await?;
        Ok(())
    }
}

// === impl Gateway ===

impl Gateway {
    /// Starts `program` as a gateway before `upstream`.
    pub(crate) async fn start(
        program: &Path,
        upstream: SocketAddr,
        store: Store,
    ) -> Result<Self, Failed> {
        let folder = folder_on_disk()?;
        let url = store.url(folder.path());
        Self::start_in(folder, program, upstream, &["--store", &url], "").await
    }

    /// Starts `program` as a gateway before `upstream` that is configured by this text.
    pub(crate) async fn start_with(
        program: &Path,
        upstream: SocketAddr,
        store: Store,
        config: &str,
    ) -> Result<Self, Failed> {
        let folder = folder_on_disk()?;
        let url = store.url(folder.path());
        Self::start_in(folder, program, upstream, &["--store", &url], config).await
    }

    /// Starts `program` as a gateway before `upstream`, with its records on the server at `url`
    /// and perhaps a cache before it.
    pub(crate) async fn start_on(
        program: &Path,
        upstream: SocketAddr,
        url: &str,
        cache: Option<&str>,
    ) -> Result<Self, Failed> {
        let mut place = vec!["--store", url];
        place.extend(cache.into_iter().flat_map(|url| ["--cache", url]));
        Self::start_in(folder_on_disk()?, program, upstream, &place, "").await
    }

    async fn start_in(
        folder: TempDir,
        program: &Path,
        upstream: SocketAddr,
        place: &[&str],
        config: &str,
    ) -> Result<Self, Failed> {
        let file = folder.path().join("onceward.toml");
        std::fs::write(&file, config)?;
        let (address, admin) = (free_address()?, free_address()?);
        let mut command = Command::new(program);
        command.arg("serve");
        command.args(["--upstream", &format!("http://{upstream}")]);
        command.args(["--listen", &address.to_string()]);
        command.args(["--admin", &admin.to_string()]);
        command.args(place);
        command.arg("--config").arg(file);
        for (name, _) in std::env::vars_os() {
            // What is set for another gateway on this machine is not meant for this one.
            if name.to_string_lossy().starts_with("ONCEWARD_") {
                command.env_remove(name);
            }
        }
        let log = folder.path().join("log");
        let mut process = Process::start("the gateway", command, &log, Signal::KILL)?;
        process.until(async || ok(admin, "/readyz").await).await?;
        Ok(Self {
            address,
            process,
            _folder: folder,
        })
    }
}

// === impl Store ===

impl Store {
    fn url(self, folder: &Path) -> String {
        let path = folder.join("store");
        match self {
            Self::Fsync => format!("embedded:{}", path.display()),
            Self::Os => format!("embedded:{}?durability=os", path.display()),
            Self::Memory => "memory:".to_owned(),
        }
    }
}

/// Returns the gateway's executable as the sources have it now.
///
/// Only cargo can tell whether an executable is up to date, so it is asked wherever it is at hand.
pub(crate) fn executable() -> Result<PathBuf, Failed> {
    let own = std::env::current_exe()?;
    let beside = own.with_file_name("onceward");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let target = own.parent().and_then(Path::parent);
    if let (Some(workspace), Some(target)) = (workspace.filter(|it| it.is_dir()), target) {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build
            .args(["build", "--release", "-p", "onceward-cli"])
            .args(["--bin", "onceward", "--target-dir"])
            .arg(target)
            .current_dir(workspace)
            .stdin(Stdio::null());
        eprintln!("building the gateway: cargo build --release -p onceward-cli --bin onceward");
        match build.status() {
            Ok(status) if status.success() => return Ok(target.join("release").join("onceward")),
            Ok(status) => return Err(format!("the gateway does not build: {status}").into()),
            Err(error) => eprintln!("cargo cannot be run: {error}"),
        }
    }
    if !beside.is_file() {
        let path = beside.display();
        return Err(format!("{path} is missing; hint: name one with --gateway PATH").into());
    }
    eprintln!("measuring {} as it is found", beside.display());
    Ok(beside)
}

/// Makes a folder beside the executable or in the current one, for a temporary folder of the
/// machine may be in memory, where syncing costs nothing.
fn folder_on_disk() -> Result<TempDir, Failed> {
    let own = std::env::current_exe()?;
    let beside = own.parent().unwrap_or(Path::new("."));
    let make = |within| {
        let mut folder = tempfile::Builder::new();
        folder.prefix("onceward-bench-").tempdir_in(within)
    };
    Ok(make(beside).or_else(|_| make(Path::new(".")))?)
}

async fn ok(address: SocketAddr, path: &str) -> bool {
    matches!(message::call(address, "GET", path).await, Ok((200, _)))
}
