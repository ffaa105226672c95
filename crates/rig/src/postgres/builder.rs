//! What a server is made with.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use onceward::clock::{Clock as _, SystemClock};

use super::process::Programs;
use super::{CLOCK_OFFSET, DATA, DEADLINE, PAUSE, Server, give, sql, template, url, value};

/// What a server is made with.
#[derive(Clone, Default, Debug)]
pub struct Builder {
    settings: Vec<(String, String)>,
    rules: Vec<String>,
    primary: Option<SocketAddr>,
    /// Where the standby reaches its primary, if not where that listens.
    link: Option<SocketAddr>,
    synchronous: bool,
    shim: Option<PathBuf>,
    /// Files of TLS, by their names in the data folder.
    secrets: Vec<(&'static str, String)>,
}

// === impl Builder ===

impl Builder {
    /// Sets a setting of the server, by its name in `postgresql.conf`.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Puts a line before all others in `pg_hba.conf`: who may come in, and how.
    #[must_use]
    pub fn rule(mut self, line: &str) -> Self {
        self.rules.push(line.to_owned());
        self
    }

    /// Makes the server a standby of `primary`, which has to run.
    #[must_use]
    pub fn standby_of(mut self, primary: &Server) -> Self {
        self.primary = Some(primary.addr());
        self
    }

    /// Has the standby reach its primary at another address: that of a proxy.
    #[must_use]
    pub fn follows(mut self, link: SocketAddr) -> Self {
        self.link = Some(link);
        self
    }

    /// Has the primary wait for this standby with every commit.
    #[must_use]
    pub fn sync_standby(mut self) -> Self {
        self.synchronous = true;
        self
    }

    /// Loads a copy of a library into every process of the server before all others.
    #[must_use]
    pub fn shim(mut self, library: impl Into<PathBuf>) -> Self {
        self.shim = Some(library.into());
        self
    }

    /// Has the server speak TLS with a certificate and its key, both in PEM. Whoever does not ask
    /// for it is still spoken to in clear: a rule with `hostssl` changes that.
    #[must_use]
    pub fn tls(mut self, certificate: &str, key: &str) -> Self {
        self.secrets.push(("server.crt", certificate.to_owned()));
        self.secrets.push(("server.key", key.to_owned()));
        self.setting("ssl", "on")
    }

    /// Believes certificates of callers that this authority has signed, given in PEM: rules may
    /// ask for one with `clientcert=verify-ca`, or `cert` in place of a password.
    #[must_use]
    pub fn trusts(mut self, authority: &str) -> Self {
        self.secrets.push(("callers.crt", authority.to_owned()));
        self.setting("ssl_ca_file", "callers.crt")
    }

    /// Starts the server, and returns when it answers: a standby, when it follows its primary.
    ///
    /// # Panics
    ///
    /// Panics if PostgreSQL is not installed, or the server does not start.
    pub async fn start(self) -> Server {
        let programs = Programs::find();
        let folder = tempfile::Builder::new()
            .prefix("onceward-postgres-")
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir()
            .expect("a place for temporary files");
        give(&programs, folder.path());
        let data = folder.path().join(DATA);
        match self.primary {
            Some(primary) => clone(&programs, primary, &data).await,
            None => template::copy(&programs, &data).await,
        }
        let shim = self.shim.as_deref().map(|library| {
            // Where it is may be closed to the user that the server runs as.
            let copy = folder.path().join("shim.so");
            std::fs::copy(library, &copy).expect("the library can be read");
            give(&programs, &copy);
            copy
        });
        let mut server = Server {
            programs,
            folder,
            port: 0,
            shim,
            process: None,
        };
        std::fs::write(server.folder.path().join(CLOCK_OFFSET), "0").expect("it can be written to");
        self.launch(&mut server).await;
        if let Some(primary) = self.primary {
            self.follow(primary, &server).await;
        }
        server
    }

    /// Starts it on a free port: another one if somebody else was faster.
    async fn launch(&self, server: &mut Server) {
        for _ in 0..10 {
            server.port = free_port();
            self.configure(server);
            match server.run().await {
                Ok(()) => return,
                Err(error) if error.log.contains("could not bind") => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("no port is free");
    }

    fn configure(&self, server: &Server) {
        let mut text = String::from(DEFAULTS);
        let mut set = |name: &str, value: &str| {
            let value = value.replace('\'', "''");
            writeln!(text, "{name} = '{value}'").expect("text grows");
        };
        set("port", &server.port.to_string());
        set("cluster_name", &name(server));
        if let Some(primary) = self.link.or(self.primary) {
            let (host, port, name) = (primary.ip(), primary.port(), name(server));
            let conninfo = format!("host={host} port={port} user=postgres application_name={name}");
            set("primary_conninfo", &conninfo);
        }
        for (name, value) in &self.settings {
            set(name, value);
        }
        let write = |file: &str, text: &str| {
            let file = server.data().join(file);
            std::fs::write(&file, text).expect("the folder can be written to");
            // The server insists on it for keys.
            let own = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(&file, own).expect("it was written just now");
            give(&server.programs, &file);
        };
        for (file, text) in &self.secrets {
            write(file, text);
        }
        write("postgresql.conf", &text);
        // What an `ALTER SYSTEM` of the primary set is not for the standby.
        write("postgresql.auto.conf", "");
        let rules = self.rules.join("\n");
        write("pg_hba.conf", &format!("{rules}\n{RULES}"));
        if self.primary.is_some() {
            write("standby.signal", "");
        }
    }

    /// Waits until the primary sends to the standby, and waits for it if it is to.
    async fn follow(&self, primary: SocketAddr, standby: &Server) {
        let primary = url(primary, "postgres");
        let name = name(standby);
        if self.synchronous {
            let setting = format!("ALTER SYSTEM SET synchronous_standby_names = '\"{name}\"'");
            sql(&primary, &setting).await.expect("the primary does it");
            let reload = "SELECT pg_reload_conf()";
            sql(&primary, reload).await.expect("the primary does it");
        }
        let wanted = match self.synchronous {
            true => "streaming sync",
            false => "streaming async",
        };
        let asked = format!(
            "SELECT state || ' ' || sync_state FROM pg_stat_replication \
             WHERE application_name = '{name}'"
        );
        let start = SystemClock.stopwatch();
        while value(&primary, &asked).await.expect("the primary answers") != wanted {
            let waited = SystemClock.stopwatch() - start;
            assert!(waited < DEADLINE, "the standby does not follow its primary");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// What every server has; what a builder sets comes after it and counts.
const DEFAULTS: &str = "\
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
fsync = on
synchronous_commit = on
wal_level = replica
max_wal_senders = 8
timezone = 'UTC'
log_timezone = 'UTC'
lc_messages = 'C'
";

/// Who may come in: everybody on this machine.
const RULES: &str = "\
host all all 127.0.0.1/32 trust
host replication all 127.0.0.1/32 trust
";

/// How the primary knows a standby.
fn name(server: &Server) -> String {
    format!("server_{}", server.port)
}

/// Copies the data of a running primary.
async fn clone(programs: &Programs, primary: SocketAddr, data: &Path) {
    let conninfo = format!(
        "host={} port={} user=postgres",
        primary.ip(),
        primary.port()
    );
    let mut command = programs.command("pg_basebackup");
    command.args([
        "--checkpoint=fast",
        "--no-sync",
        "--wal-method=stream",
        "-d",
    ]);
    command.arg(conninfo).arg("-D").arg(data);
    programs.run(command).await;
}

/// A port that nobody uses, below those that the system gives out: it stays free while the server
/// that had it is down.
fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(16_000..32_000);
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
