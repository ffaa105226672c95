//! Settings: which servers, how they are reached, and what a write waits for.

use std::env;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;

use crate::server::{TlsFiles, parameters, promotes, span};

/// The shortest a call or the wait for replicas may be given.
const LEAST: Duration = Duration::from_millis(10);

/// Where the records are and how they are reached: a `redis://` URL that was understood.
///
/// Neither `Display` nor `Debug` shows a password.
///
/// | URL | servers |
/// |---|---|
/// | `redis://[USER[:PASSWORD]@]HOST[:PORT][/DB]` | one server |
/// | `rediss://..` | the same with TLS |
/// | `redis+sentinel://[USER[:PASSWORD]@]HOST[:PORT],HOST../SERVICE[/DB]` | the server that the sentinels name |
/// | `redis+cluster://[USER[:PASSWORD]@]HOST[:PORT],HOST..` | a cluster, found from any of these nodes |
///
/// | parameter | default | |
/// |---|---|---|
/// | `prefix` | `onceward` | what the names of the keys begin with |
/// | `connections` | `2` | how many connections write and read, to each server; one more listens |
/// | `timeout` | `5s` | how long a call may take |
/// | `wait` | `0` | how many replicas a write waits for; fewer in time is an error |
/// | `wait_timeout` | `1s` | how long a write waits for them |
/// | `failover` | `any` | `never` says that no replica is ever promoted |
/// | `tls` | `off` | `on` for sentinels and clusters with TLS |
/// | `sslrootcert`, `sslcert`, `sslkey` | | PEM files; without a root those of the system count |
///
/// A password that is not in the URL comes from `ONCEWARD_REDIS_PASSWORD`; the sentinels' own, if
/// they have one, from `ONCEWARD_REDIS_SENTINEL_PASSWORD`.
///
/// ```
/// use onceward_stores::redis::Settings;
///
/// let settings: Settings = "redis://app:secret@keys:6380/2?prefix=shop".parse().unwrap();
/// assert_eq!(settings.to_string(), "redis://app@keys:6380/2?prefix=shop");
/// assert_eq!(settings.prefix(), "shop");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// The URL without its password.
    shown: String,
    pub(super) servers: Servers,
    /// The hosts of the URL: servers, sentinels or nodes of a cluster.
    pub(super) hosts: Vec<Host>,
    pub(super) user: Option<String>,
    password: Option<String>,
    pub(super) database: i64,
    prefix: String,
    pub(super) connections: usize,
    pub(super) timeout: Duration,
    pub(super) wait: usize,
    pub(super) wait_timeout: Duration,
    pub(super) promotes: bool,
    pub(super) has_tls: bool,
    pub(super) tls: TlsFiles,
}

/// How the servers are found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Servers {
    /// There is one, at the host of the URL.
    One,
    /// Sentinels know which one serves under this name.
    Sentinels(String),
    /// Each holds a part of the keys.
    Cluster,
}

/// A host and a port.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) port: u16,
}

/// What is wrong with a `redis://` URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSettings(String);

// === impl Settings ===

impl Settings {
    /// The most connections to one server that write and read.
    pub const CONNECTIONS_MAX: usize = 64;

    const SERVER_PORT: u16 = 6379;
    const SENTINEL_PORT: u16 = 26379;

    /// What the names of the keys begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// How long a call may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The same settings with this password, which counts more than the URL's.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Whether the URL has a password in it.
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Where the servers are, in a few words: for errors.
    pub fn place(&self) -> String {
        let hosts: Vec<_> = self.hosts.iter().map(Host::to_string).collect();
        let hosts = hosts.join(",");
        match &self.servers {
            Servers::One => format!("{hosts}/{}", self.database),
            Servers::Sentinels(service) => format!("{hosts}/{service}/{}", self.database),
            Servers::Cluster => hosts,
        }
    }

    /// The user that connects.
    pub fn user(&self) -> &str {
        self.user.as_deref().unwrap_or("default")
    }

    /// The password: the URL's, else that of the environment.
    pub(super) fn password(&self) -> Option<String> {
        let given = || variable("ONCEWARD_REDIS_PASSWORD");
        self.password.clone().or_else(given)
    }

    /// The password of the sentinels, if they have one.
    pub(super) fn sentinel_password() -> Option<String> {
        variable("ONCEWARD_REDIS_SENTINEL_PASSWORD")
    }

    /// The channel on which changed slots are told of.
    pub(super) fn channel(&self) -> String {
        format!("{}:changed", self.prefix)
    }

    /// Whether a replica may take the place of a server.
    pub(super) fn may_fail_over(&self) -> bool {
        self.promotes && self.servers != Servers::One
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), InvalidSettings> {
        let wrong = || InvalidSettings::of(name, value);
        match name {
            "prefix" if is_prefix(value) => value.clone_into(&mut self.prefix),
            "connections" => {
                let count = value.parse().ok();
                let fits = |count: &usize| (1..=Self::CONNECTIONS_MAX).contains(count);
                self.connections = count.filter(fits).ok_or_else(wrong)?;
            }
            "timeout" => self.timeout = span(value, LEAST).ok_or_else(wrong)?,
            "wait" => {
                let count = value.parse().ok();
                self.wait = count.filter(|it| *it <= 64).ok_or_else(wrong)?;
            }
            "wait_timeout" => self.wait_timeout = span(value, LEAST).ok_or_else(wrong)?,
            "failover" => self.promotes = promotes(value).ok_or_else(wrong)?,
            "tls" => {
                self.has_tls = match value {
                    "on" => true,
                    // What the scheme says stands.
                    "off" if !self.has_tls => false,
                    _ => return Err(wrong()),
                }
            }
            "sslrootcert" => self.tls.root = Some(value.into()),
            "sslcert" => self.tls.cert = Some(value.into()),
            "sslkey" => self.tls.key = Some(value.into()),
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// Sees that what was given goes together.
    fn checked(self) -> Result<Self, InvalidSettings> {
        let wrong = |why: &str| Err(InvalidSettings(why.to_owned()));
        if self.tls.cert.is_some() != self.tls.key.is_some() {
            return wrong("sslcert and sslkey go together");
        }
        if self.tls != TlsFiles::default() && !self.has_tls {
            return wrong("sslrootcert, sslcert and sslkey go with rediss:// or tls=on");
        }
        if self.wait > 0 && self.wait_timeout >= self.timeout {
            return wrong("wait_timeout has to be shorter than timeout");
        }
        Ok(self)
    }
}

impl FromStr for Settings {
    type Err = InvalidSettings;

    fn from_str(text: &str) -> Result<Self, InvalidSettings> {
        let unreadable = || InvalidSettings("host, user or database cannot be read".to_owned());
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let (scheme, rest) = base.split_once("://").ok_or_else(unreadable)?;
        // A user's name and password end at the last one: a password may hold it unescaped.
        let (who, place) = rest
            .rsplit_once('@')
            .map_or((None, rest), |(who, place)| (Some(who), place));
        let (user, password) = credentials(who).ok_or_else(unreadable)?;
        let (hosts, path) = place.split_once('/').unwrap_or((place, ""));
        let (servers, database, has_tls) = match scheme {
            "redis" | "rediss" => (Servers::One, path, scheme == "rediss"),
            "redis+sentinel" => {
                let (service, database) = path.split_once('/').unwrap_or((path, ""));
                if service.is_empty() {
                    let why = "the name of the service that the sentinels watch is missing";
                    return Err(InvalidSettings(why.to_owned()));
                }
                (Servers::Sentinels(service.to_owned()), database, false)
            }
            "redis+cluster" => (Servers::Cluster, path, false),
            _ => return Err(unreadable()),
        };
        let database = match (database, &servers) {
            ("", _) => 0,
            (_, Servers::Cluster) => {
                let why = "a cluster has one database: leave the number out";
                return Err(InvalidSettings(why.to_owned()));
            }
            (number, _) => number.parse().map_err(|_| unreadable())?,
        };
        let port = match servers {
            Servers::Sentinels(_) => Self::SENTINEL_PORT,
            Servers::One | Servers::Cluster => Self::SERVER_PORT,
        };
        let hosts = hosts.split(',').map(|host| Host::parse(host, port));
        let hosts = hosts.collect::<Option<Vec<_>>>().ok_or_else(unreadable)?;
        if servers == Servers::One && hosts.len() > 1 {
            let why = "several hosts go with redis+sentinel:// or redis+cluster://";
            return Err(InvalidSettings(why.to_owned()));
        }
        let mut settings = Self {
            shown: shown(scheme, user.as_deref(), place, query),
            servers,
            hosts,
            user,
            password,
            database,
            prefix: "onceward".to_owned(),
            connections: 2,
            timeout: Duration::from_secs(5),
            wait: 0,
            wait_timeout: Duration::from_secs(1),
            promotes: true,
            has_tls,
            tls: TlsFiles::default(),
        };
        for (_, name, value) in parameters(query) {
            let value = value.map_err(|raw| InvalidSettings::of(name, raw))?;
            settings.take(name, &value)?;
        }
        settings.checked()
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

// === impl Host ===

impl Host {
    /// Reads `name`, `name:port` or `[address]:port`.
    fn parse(text: &str, port: u16) -> Option<Self> {
        let (name, rest) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let port = match rest {
            "" => port,
            rest => rest.strip_prefix(':')?.parse().ok()?,
        };
        let name = name.to_owned();
        (!name.is_empty()).then_some(Self { name, port })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

// === impl InvalidSettings ===

impl InvalidSettings {
    fn of(name: &str, value: &str) -> Self {
        match name {
            "password" => {
                Self("a password stands before the host, or in ONCEWARD_REDIS_PASSWORD".to_owned())
            }
            _ => Self(format!("{name}={value} is not a setting of a Redis store")),
        }
    }
}

fn credentials(who: Option<&str>) -> Option<(Option<String>, Option<String>)> {
    let Some(who) = who else {
        return Some((None, None));
    };
    let decode = |text: &str| {
        let decoded = percent_decode_str(text).decode_utf8().ok()?;
        Some(Some(decoded.into_owned()).filter(|it| !it.is_empty()))
    };
    let (user, password) = who.split_once(':').unwrap_or((who, ""));
    Some((decode(user)?, decode(password)?))
}

/// The URL without its password.
fn shown(scheme: &str, user: Option<&str>, place: &str, query: &str) -> String {
    let user = user.map(|user| format!("{user}@")).unwrap_or_default();
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{scheme}://{user}{place}{mark}{query}")
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|it| !it.is_empty())
}

/// Whether the names of keys may begin with `text`. Braces would make another hash tag.
fn is_prefix(text: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "_-.:".contains(it);
    (1..=40).contains(&text.len()) && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests;
