//! Processes of the bench: started with a log, watched, and ended when they are dropped.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tokio::time::sleep;

use crate::Failed;
use crate::load::Watch;

/// A process that ends with its owner.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
    last_word: Signal,
}

/// Where servers keep their files: this folder outlives a restart of the machine, so it is on a
/// disk, where syncing costs what it costs, and every user may enter it.
pub(crate) const DISK: &str = "/var/tmp";

/// How long a process may take until it serves.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a process is asked whether it serves.
const POLL: Duration = Duration::from_millis(10);

/// How much of a log is worth printing, in bytes.
const TAIL: usize = 4_000;

/// Returns an address on which nobody listens.
pub(crate) fn free_address() -> Result<SocketAddr, Failed> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Returns what `installed` finds of a program, which is installed from a package of Debian's if
/// need be and if we may.
pub(crate) fn installed_or(
    program: &str,
    package: &str,
    installed: impl Fn() -> Option<PathBuf>,
) -> Result<PathBuf, Failed> {
    if let Some(found) = installed() {
        return Ok(found);
    }
    if !geteuid().is_root() {
        return Err(format!("{program} is not installed; hint: apt-get install {package}").into());
    }
    eprintln!("installing {program} from Debian's packages");
    let status = Command::new("apt-get")
        .args(["install", "-y", "--no-install-recommends", package])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        // What is printed on our own standard output is figures.
        .stdout(std::io::stderr())
        .status();
    match (status, installed()) {
        (Ok(status), Some(found)) if status.success() => Ok(found),
        (status, _) => Err(format!(
            "{program} cannot be installed ({status:?}); hint: run apt-get update, then try again"
        )
        .into()),
    }
}

// === impl Process ===

impl Process {
    /// Starts `command`; what it prints goes to `log`, and `last_word` ends it.
    pub(crate) fn start(
        name: &'static str,
        mut command: Command,
        log: &Path,
        last_word: Signal,
    ) -> Result<Self, Failed> {
        let file = File::create(log)?;
        // The pipe ends with us, which a process that reads it can tell.
        command
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(file);
        let child = command.spawn().map_err(|error| {
            let program = command.get_program().to_string_lossy();
            format!("cannot start {program}: {error}")
        })?;
        Ok(Self {
            name,
            child,
            log: log.to_owned(),
            last_word,
        })
    }

    /// Returns the number by which the system knows the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `serves` says so.
    ///
    /// # Errors
    ///
    /// Returns an error with the end of the process's log if it ends, or takes too long.
    pub(crate) async fn until<F>(&mut self, mut serves: F) -> Result<(), Failed>
    where
        F: AsyncFnMut() -> bool,
    {
        let start = Watch::start();
        loop {
            self.alive()?;
            if serves().await {
                return Ok(());
            }
            if start.elapsed() >= PATIENCE {
                return Err(self.complaint("does not serve"));
            }
            sleep(POLL).await;
        }
    }

    /// Returns an error with the end of the process's log if it ended.
    pub(crate) fn alive(&mut self) -> Result<(), Failed> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(self.complaint(&format!("ended with {status}"))),
        }
    }

    /// Returns `error` with the end of the process's log, which may explain it.
    pub(crate) fn explain(&self, error: &Failed) -> Failed {
        let (name, words) = (self.name, self.last_words());
        format!("{error}\nthe last words of {name}:\n{words}").into()
    }

    fn complaint(&self, what: &str) -> Failed {
        let (name, words) = (self.name, self.last_words());
        format!("{name} {what}; its last words:\n{words}").into()
    }

    fn last_words(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let tail = &log[log.len().saturating_sub(TAIL)..];
        String::from_utf8_lossy(tail).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing more to do about it either way.
        let _ = kill_process(Pid::from_child(&self.child), self.last_word);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::{Command, Process, Signal};

    #[tokio::test]
    async fn process_that_ends_early_is_reported_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such store >&2; exit 3"]);
        let log = folder.path().join("log");
        let mut process = Process::start("gateway", command, &log, Signal::KILL).unwrap();
        let ended = process.until(async || false).await.unwrap_err().to_string();
        assert!(
            ended.contains("gateway ended with exit status: 3"),
            "{ended}"
        );
        assert!(ended.contains("no such store"), "{ended}");
    }
}
