//! Configuration: a file and a command line, checked once.
//!
//! [`Config::parse`] finds everything that is wrong at once, and says where and what to do about
//! it. What it returns is right, and nothing looks at it again.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::HeaderName;
use onceward::Durability;
use onceward_http::{KeyNeed, Terms, quota};
use onceward_stores::{CacheUrl, StoreUrl};

pub use self::parse::{admin_listen, listen, upstream_url};
pub use self::problem::{Errors, Place, Problem};
pub use self::quotas::Census;
pub use self::store::{cache_url, holds_password, store_url, without_password};
pub use self::token::{Token, TokenError, TokenSource};
use crate::identity;
use crate::route::{Probe, Route};
use crate::strict;

mod check;
mod fields;
mod keys;
mod parse;
mod problem;
pub(crate) mod quotas;
mod reader;
pub mod reference;
mod rules;
mod store;
mod terms;
mod token;
mod upstream;
mod who;
mod written;

/// How a gateway is set up.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Where callers are listened for.
    pub listen: SocketAddr,
    /// The service behind.
    pub upstream: Upstream,
    /// Whether a proxy in front ends TLS.
    pub plaintext_behind_proxy: bool,
    /// Whether a store that can forget is refused; see [`Config::refuses`].
    pub strict: bool,
    /// How long requests in flight get to end.
    pub shutdown_grace: Duration,
    /// The certificate, if callers come over TLS.
    pub tls: Option<Tls>,
    /// Where records are kept.
    pub store: StoreUrl,
    /// What remembers answers in front of a database.
    pub cache: Option<CacheUrl>,
    /// The file with the password of a database; see [`Config::store_with_password`].
    pub password_file: Option<PathBuf>,
    /// The listener for operators.
    pub admin: Admin,
    /// Who callers are.
    pub identity: identity::Settings,
    /// What callers may take.
    pub limits: Limits,
    /// What one caller may take.
    pub quotas: quota::Limits,
    /// What is logged.
    pub log: Log,
    /// What refusals look like.
    pub problems: Problems,
    /// What holds for some requests, in the order of the file. No two match the same requests.
    pub routes: Vec<Route>,
    /// What holds for all others.
    pub fallback: Terms,
    /// How the service is asked about those others, if they are probed.
    pub fallback_probe: Option<Probe>,
    /// What is allowed, and worth a second look.
    pub warnings: Vec<Problem>,
}

/// The service behind the gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Upstream {
    /// Where it is: `http` or `https`, host and port.
    pub url: String,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// What a service over `https` is verified with; the system's certificates if there is none.
    pub ca_file: Option<PathBuf>,
    /// Which `Host` the service sees.
    pub host: HostRule,
    /// How the key is called towards the service.
    pub key_header: KeyHeader,
}

/// Which `Host` the service sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HostRule {
    /// The one that the caller sent.
    #[default]
    Preserve,
    /// That of the upstream's URL.
    Upstream,
}

/// How the key is called towards the service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyHeader {
    /// By this name.
    Name(HeaderName),
    /// It is not sent.
    Drop,
}

/// A certificate and its key, both in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Tls {
    /// The file with the certificate and its chain.
    pub cert: PathBuf,
    /// The file with the private key.
    pub key: PathBuf,
}

/// The listener for operators.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Admin {
    /// Where operators are listened for, if anywhere.
    pub listen: Option<SocketAddr>,
    /// Where their token comes from.
    pub token: TokenSource,
    /// How records are counted.
    pub census: Census,
}

/// Where operators are listened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdminListen {
    /// Here.
    At(SocketAddr),
    /// Nowhere.
    Off,
}

/// What callers may take from the gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Connections at a time from one address.
    pub connections_per_peer: usize,
    /// How long a new connection may say nothing.
    pub first_byte_timeout: Duration,
    /// How long the head of a request may take.
    pub header_timeout: Duration,
    /// How long a connection may stay open between requests.
    pub idle_timeout: Duration,
    /// How long a body may be slower than 1 KiB a second.
    pub body_grace: Duration,
    /// Header lines of one request.
    pub headers: usize,
    /// Bytes of the head of one request.
    pub header_size: usize,
    /// Requests at a time on one HTTP/2 connection.
    pub streams: u32,
    /// New executions at a time; replays and waits do not count.
    pub executions: usize,
}

/// What is logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Log {
    /// For people or for machines.
    pub format: LogFormat,
    /// Whether every request gets a line.
    pub access: bool,
}

/// For whom the log is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines: an object per line.
    Json,
}

/// What the gateway's own refusals look like.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Problems {
    /// What the name of a problem is appended to, to make its `type`.
    pub type_base: String,
    /// What the name of a problem is appended to, to link its page.
    pub docs_base: Option<String>,
}

/// What the command line and the environment say. It counts before the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Overrides {
    /// Where callers are listened for.
    pub listen: Option<SocketAddr>,
    /// Where the service is; see [`upstream_url`].
    pub upstream: Option<String>,
    /// Where records are kept.
    pub store: Option<StoreUrl>,
    /// What remembers answers in front of a database.
    pub cache: Option<CacheUrl>,
    /// Where operators are listened for.
    pub admin: Option<AdminListen>,
    /// The operators' token, from `ONCEWARD_ADMIN_TOKEN`.
    pub admin_token: Option<Token>,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },

    /// The file is not a configuration.
    #[error(transparent)]
    Invalid(#[from] Errors),
}

// === impl Config ===

impl Config {
    /// Reads and checks a file.
    pub fn load(path: &Path, overrides: Overrides) -> Result<Self, LoadError> {
        let text = std::fs::read_to_string(path).map_err(|source| LoadError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self::parse(&text, &path.display().to_string(), overrides)?)
    }

    /// Checks the text of a file, which is called `file` in messages.
    ///
    /// No other file is read: paths are looked at by those who open them.
    pub fn parse(text: &str, file: &str, overrides: Overrides) -> Result<Self, Errors> {
        check::parse(text, file, overrides)
    }

    /// What holds without a file.
    pub fn without_file(overrides: Overrides) -> Result<Self, Errors> {
        Self::parse("", "", overrides)
    }

    /// What holds without a file for the service at `upstream`.
    pub fn default_for(upstream: &str) -> Result<Self, Errors> {
        Self::without_file(Overrides {
            upstream: Some(upstream.to_owned()),
            ..Overrides::default()
        })
    }

    /// Whether callers can only be on this machine.
    pub fn is_loopback(&self) -> bool {
        is_loopback(self.listen.ip())
    }

    /// How long after a count of all records the next one begins, if they are counted at all.
    pub fn counts_every(&self) -> Option<Duration> {
        let needed = self.quotas.need_census().then_some(Census::USUAL);
        self.admin.census.every.or(needed)
    }

    /// What an acknowledged write survives in the store, as far as its URL tells.
    pub fn durability(&self) -> Durability {
        match &self.store {
            StoreUrl::Memory => Durability::D0,
            StoreUrl::Embedded { sync: false, .. } => Durability::D1,
            _ => Durability::D2,
        }
    }

    /// Says why a store of this class is refused, if it is: a strict gateway does not promise
    /// what its store can forget.
    pub fn refuses(&self, durability: Durability) -> Option<String> {
        if !self.strict || durability >= strict::CLASS_MIN {
            return None;
        }
        let relies =
            |terms: &Terms| terms.key != KeyNeed::Off && !strict::is_covered(terms.policy.effect);
        let route = self.routes.iter().find(|route| relies(&route.terms));
        let who = match route {
            Some(route) => format!("the route {:?}", route.pattern.to_string()),
            None if relies(&self.fallback) => "what [defaults] says".to_owned(),
            None => return None,
        };
        let survives = match durability {
            Durability::D0 => "can lose acknowledged writes in a restart or failover (D0)",
            _ => "can lose acknowledged writes in a power failure (D1)",
        };
        Some(format!(
            "strict = true, but the store {survives} and {who} relies on it: use a durable store, \
             or effect = \"keyed\" on every route"
        ))
    }
}

/// Whether an address is only reachable from this machine.
pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_peer: 10_000,
            first_byte_timeout: Duration::from_secs(5),
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            body_grace: Duration::from_secs(10),
            headers: 100,
            header_size: 32 << 10,
            streams: 100,
            executions: 10_000,
        }
    }
}

// === impl Problems ===

impl Default for Problems {
    fn default() -> Self {
        Self {
            type_base: "urn:onceward:problem:".into(),
            docs_base: None,
        }
    }
}

#[cfg(test)]
mod tests;
