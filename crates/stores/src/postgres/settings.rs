//! Settings: which database, which schema in it, and how it is spoken to.

use std::env;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::{channel, passfile};
use crate::server::{TlsFiles, parameters, promotes, span};

mod hosts;

/// The shortest a call may be given.
const LEAST: Duration = Duration::from_millis(100);

/// Where the records are and how they are reached: a `postgres://` URL that was understood.
///
/// Neither `Display` nor `Debug` shows a password.
///
/// | parameter | default | |
/// |---|---|---|
/// | `schema` | `onceward` | the schema that holds the tables |
/// | `prefix` | | what the names of the tables begin with |
/// | `connections` | `4` | how many connections write and read; two more listen and keep house |
/// | `timeout` | `5s` | how long a call may take |
/// | `migrate` | `on` | whether the tables are made and brought up to date on opening |
/// | `failover` | `any` | `never` says that no standby is ever promoted |
/// | `sslrootcert`, `sslcert`, `sslkey` | | PEM files, as libpq has them; `sslrootcert=system` |
///
/// A password that is not in the URL comes from `PGPASSWORD`, or from the file that `PGPASSFILE`
/// names, which nobody else may read; without it from `~/.pgpass`.
///
/// Those of libpq that the driver knows mean what they mean there: `sslmode`, `connect_timeout`,
/// `application_name`, `options`, `host`, `hostaddr`, `keepalives` and so on.
///
/// ```
/// use onceward_stores::postgres::Settings;
///
/// let settings: Settings = "postgres://app:secret@db:5433/shop?schema=keys".parse().unwrap();
/// assert_eq!(settings.to_string(), "postgres://app@db:5433/shop?schema=keys");
/// assert_eq!(settings.table("records"), r#""keys"."records""#);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// What the driver needs to connect, the password of the URL included.
    config: Config,
    /// The URL without its password.
    shown: String,
    schema: String,
    prefix: String,
    pub(super) connections: usize,
    pub(super) timeout: Duration,
    pub(super) migrates: bool,
    pub(super) promotes: bool,
    pub(super) tls: TlsFiles,
    pub(super) verify: Verify,
}

/// What is looked at in the server's certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verify {
    /// Nothing: the line is encrypted, and whoever is at its end is believed.
    Nothing,
    /// Who signed it.
    Signature,
    /// Who signed it, and that it is that of the host.
    Host,
}

/// What is wrong with a `postgres://` URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSettings(String);

// === impl Settings ===

impl Settings {
    /// The most connections that write and read: more only take batches apart.
    pub const CONNECTIONS_MAX: usize = 64;

    /// The name of a table as statements write it, quoted and with its schema.
    pub fn table(&self, name: &str) -> String {
        format!("{}.{}", self.quoted_schema(), self.plain(name))
    }

    /// The name of a table or index without its schema, quoted.
    pub fn plain(&self, name: &str) -> String {
        quote(&format!("{}{name}", self.prefix))
    }

    /// The schema, quoted.
    pub fn quoted_schema(&self) -> String {
        quote(&self.schema)
    }

    /// The schema that holds the tables.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// What the names of the tables begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The channel on which changed slots are told of.
    pub fn channel(&self) -> String {
        channel::name(&self.schema, &self.prefix)
    }

    /// How long a call may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The same settings with this password, which counts more than the URL's.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.config.password(password);
        self
    }

    /// Whether the URL has a password in it.
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    /// Whether the tables are made and brought up to date on opening.
    #[must_use]
    pub fn migrate(mut self, migrates: bool) -> Self {
        self.migrates = migrates;
        self
    }

    /// Where the database is, in a few words: for errors.
    pub fn place(&self) -> String {
        let hosts = self.config.get_hosts().iter().enumerate();
        let ports = self.config.get_ports();
        let hosts = hosts.map(|(at, host)| {
            let port = ports.get(at).or(ports.first()).unwrap_or(&5432);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                #[cfg(unix)]
                Host::Unix(path) => path.display().to_string(),
            }
        });
        let hosts: Vec<_> = hosts.collect();
        format!("{}/{}", hosts.join(","), self.database())
    }

    /// The database's name.
    pub fn database(&self) -> &str {
        let config = &self.config;
        config.get_dbname().or(config.get_user()).unwrap_or("")
    }

    /// The role that connects.
    pub fn user(&self) -> &str {
        self.config.get_user().unwrap_or("")
    }

    /// What the driver connects with. A password that the URL does not have comes from
    /// `PGPASSWORD` or a password file, as everywhere.
    pub(super) fn config(&self) -> Config {
        let mut config = self.config.clone();
        if config.get_password().is_none() {
            let given = env::var("PGPASSWORD").ok().filter(|it| !it.is_empty());
            if let Some(password) = given.or_else(|| passfile::password(&config)) {
                config.password(password);
            }
        }
        config
    }

    /// A number for the advisory lock of this schema and prefix that is named `what`.
    pub(super) fn lock(&self, what: &str) -> i64 {
        let parts = ["onceward", what, &self.schema, &self.prefix];
        // FNV-1a: the same on every node and in every version, which is all it has to be.
        let hash = parts.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, part| {
            let bytes = part.bytes().chain([0]);
            bytes.fold(hash, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            })
        });
        hash.cast_signed()
    }

    /// Takes a parameter of ours; gives back what is not.
    fn take(&mut self, name: &str, value: &str) -> Result<bool, InvalidSettings> {
        let wrong = || InvalidSettings::of(name, value);
        match name {
            "schema" | "prefix" if !is_name(value) => return Err(wrong()),
            "schema" if value.is_empty() => return Err(wrong()),
            "schema" => value.clone_into(&mut self.schema),
            "prefix" => value.clone_into(&mut self.prefix),
            "connections" => {
                let count = value.parse().ok();
                let fits = |count: &usize| (1..=Self::CONNECTIONS_MAX).contains(count);
                self.connections = count.filter(fits).ok_or_else(wrong)?;
            }
            "timeout" => self.timeout = span(value, LEAST).ok_or_else(wrong)?,
            "migrate" => self.migrates = switch(value).ok_or_else(wrong)?,
            "failover" => self.promotes = promotes(value).ok_or_else(wrong)?,
            "sslrootcert" => self.tls.root = Some(value.into()),
            "sslcert" => self.tls.cert = Some(value.into()),
            "sslkey" => self.tls.key = Some(value.into()),
            "sslmode" => {
                let (mode, verify) = match value {
                    "disable" => (SslMode::Disable, Verify::Nothing),
                    "allow" | "prefer" => (SslMode::Prefer, Verify::Nothing),
                    "require" => (SslMode::Require, Verify::Nothing),
                    "verify-ca" => (SslMode::Require, Verify::Signature),
                    "verify-full" => (SslMode::Require, Verify::Host),
                    _ => return Err(wrong()),
                };
                self.config.ssl_mode(mode);
                self.verify = verify;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl FromStr for Settings {
    type Err = InvalidSettings;

    fn from_str(text: &str) -> Result<Self, InvalidSettings> {
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let pairs = parameters(query).map(|(pair, name, value)| {
            let value = value.map_err(|raw| InvalidSettings::of(name, raw))?;
            Ok((pair, name, value))
        });
        let pairs: Vec<_> = pairs.collect::<Result<_, _>>()?;

        let mut ours = Self {
            config: Config::new(),
            shown: without_password(base, pairs.iter().map(|(pair, name, _)| (*pair, *name))),
            schema: "onceward".to_owned(),
            prefix: String::new(),
            connections: 4,
            timeout: Duration::from_secs(5),
            migrates: true,
            promotes: true,
            tls: TlsFiles::default(),
            verify: Verify::Nothing,
        };
        let mut theirs = Vec::new();
        for (pair, name, value) in &pairs {
            // A second pass sees them again, once the driver has read the rest.
            if !ours.take(name, value)? {
                theirs.push(*pair);
            }
        }
        let rest = format!("{base}?{}", theirs.join("&"));
        // The driver's own words may quote the URL, password and all.
        ours.config = rest.parse().map_err(|_| InvalidSettings::unreadable())?;
        for (_, name, value) in &pairs {
            ours.take(name, value)?;
        }
        ours.hold(pairs.iter().any(|(_, name, _)| *name == "sslmode"))?;
        ours.complete()
    }
}

impl Settings {
    /// Decides what the server's certificate has to show, from the roots that the URL names.
    fn hold(&mut self, has_mode: bool) -> Result<(), InvalidSettings> {
        let wrong = |why: &str| Err(InvalidSettings(why.to_owned()));
        match (&self.tls.root, self.verify) {
            (Some(root), Verify::Nothing | Verify::Signature) if root.as_os_str() == "system" => {
                if has_mode {
                    return wrong(
                        "sslrootcert=system goes with sslmode=verify-full: \
                         anybody can have a certificate that the system trusts",
                    );
                }
                self.config.ssl_mode(SslMode::Require);
                self.verify = Verify::Host;
            }
            // libpq does the same: a root that is named is a root to be held to.
            (Some(_), Verify::Nothing) => self.verify = Verify::Signature,
            (None, Verify::Signature) => return wrong("sslmode=verify-ca needs sslrootcert"),
            _ => {}
        }
        match self.tls.cert.is_some() == self.tls.key.is_some() {
            true => Ok(()),
            false => wrong("sslcert and sslkey go together"),
        }
    }

    /// Fills in what a URL leaves out.
    fn complete(mut self) -> Result<Self, InvalidSettings> {
        let config = &mut self.config;
        let is_torn = |host: &Host| matches!(host, Host::Tcp(name) if name.contains('@'));
        if config.get_hosts().iter().any(is_torn) {
            // The driver ends a password at the first one: the rest of it would be shown as a host.
            let why = "an @ in a user's name or password is written %40";
            return Err(InvalidSettings(why.to_owned()));
        }
        if config.get_hosts().is_empty() {
            // An address without a name is its own: the certificate is compared with it.
            for addr in config.get_hostaddrs().to_vec() {
                config.host(addr.to_string());
            }
        }
        if config.get_user().is_none_or(str::is_empty) {
            let user = env::var("PGUSER").unwrap_or_else(|_| "postgres".to_owned());
            config.user(user);
        }
        if config.get_hosts().is_empty() {
            config.host("localhost");
        }
        self.check_hosts()?;
        let config = &mut self.config;
        if config.get_hosts().len() > 1 {
            // Of several, the one that takes writes.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if config.get_application_name().is_none() {
            config.application_name("onceward");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(3));
        }
        // A peer that is gone without a word is noticed, also on a line where nothing is said.
        config.keepalives_idle(Duration::from_secs(10));
        config.keepalives_interval(Duration::from_secs(3));
        config.keepalives_retries(3);
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(20));
        }
        Ok(self)
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Settings").field(&self.shown).finish()
    }
}

// === impl InvalidSettings ===

impl InvalidSettings {
    fn of(name: &str, value: &str) -> Self {
        match name {
            "password" => Self("the password cannot be read".to_owned()),
            _ => Self(format!(
                "{name}={value} is not a setting of a PostgreSQL store"
            )),
        }
    }

    fn unreadable() -> Self {
        Self("host, user or a parameter of the URL cannot be read".to_owned())
    }
}

/// Returns the URL without a password, wherever one can stand.
fn without_password<'a>(base: &str, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let (scheme, rest) = base.split_once("://").unwrap_or(("postgres", base));
    // A user's name and password end at the last one: a password may hold it unescaped.
    let (who, place) = rest.rsplit_once('@').map_or((None, rest), |(who, place)| {
        (Some(who.split(':').next().unwrap_or("")), place)
    });
    let pairs: Vec<_> = pairs
        .filter(|(_, name)| *name != "password")
        .map(|(pair, _)| pair)
        .collect();
    let who = who.map(|who| format!("{who}@")).unwrap_or_default();
    let mark = if pairs.is_empty() { "" } else { "?" };
    format!("{scheme}://{who}{place}{mark}{}", pairs.join("&"))
}

/// Whether `text` may name a schema or begin the name of a table.
fn is_name(text: &str) -> bool {
    let fits = text.len() <= 40;
    fits && text
        .chars()
        .all(|it| it.is_ascii_alphanumeric() || it == '_')
}

fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "on" | "true" | "1" => Some(true),
        "off" | "false" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
