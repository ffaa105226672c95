//! The gateway: the real executable, with the settings that an SDK needs.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, ChildStderr, Command, Stdio},
    sync::mpsc::channel,
    thread,
    time::Duration,
};

use tempfile::TempDir;

/// Longer than a start takes, also on a busy machine.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// A running gateway.
pub(crate) struct Gateway {
    child: Child,
    addr: Option<SocketAddr>,
    /// Its configuration and store.
    _folder: TempDir,
}

// === impl Gateway ===

impl Gateway {
    /// Starts a gateway before `upstream`, with these tables in its configuration.
    pub(crate) fn start(upstream: SocketAddr, tables: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("onceward.toml");
        let config = format!("upstream = \"http://{upstream}\"\n{tables}");
        fs::write(&path, &config).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_onceward"))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", "off"])
            .arg("--config")
            .arg(&path)
            .current_dir(&folder)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Whatever happens from here on, it is ended.
        let mut gateway = Self {
            child,
            addr: None,
            _folder: folder,
        };
        let stderr = gateway.child.stderr.take().unwrap();
        match await_listening(stderr) {
            Ok(addr) => gateway.addr = Some(addr),
            Err(told) => panic!("the gateway does not start with:\n{config}\nit says:\n{told}"),
        }
        gateway
    }

    /// Where it listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr.unwrap()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the gateway says where it listens, or returns what it says instead.
fn await_listening(stderr: ChildStderr) -> Result<SocketAddr, String> {
    let (sender, receiver) = channel();
    // It is read to its end, for a gateway whose log nobody reads would stand still.
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let mut told = String::new();
    while let Ok(line) = receiver.recv_timeout(STARTS_WITHIN) {
        if let Some((_, addr)) = line.split_once("listening on http://") {
            return Ok(addr.trim().parse().unwrap());
        }
        told += &line;
        told.push('\n');
    }
    Err(told)
}
