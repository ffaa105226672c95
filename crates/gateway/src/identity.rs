//! Identity: who sent a request.
//!
//! The answer is a part of every scope, so that no caller sees another's answers. It is an id and
//! never a credential: what is kept in a store must not open any door.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use http::request::Parts;
use ipnet::IpNet;
use onceward::Timestamp;

use self::api_key::ApiKeys;
pub use self::jwt::Algorithm;
use self::jwt::Verifier;
pub use self::unidentified::Unidentified;

mod api_key;
mod credential;
mod header;
mod jwt;
mod memo;
mod unidentified;

/// Who callers are, ready to be asked.
#[derive(Debug)]
pub struct Identity(Kind);

#[derive(Debug)]
enum Kind {
    /// Told apart by their credential.
    Credential {
        /// Whether a caller without one is let in, as all others without one.
        shared: bool,
    },
    Jwt(Verifier),
    Header(HeaderSettings),
    ApiKey(ApiKeys),
    None,
}

/// Who sent a request: the tenant of its scope.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Caller(Arc<str>);

/// How callers are known.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Settings {
    /// By `Authorization`, else `X-Api-Key`, unverified: it only tells them apart.
    Credential,
    /// By a verified bearer token.
    Jwt(JwtSettings),
    /// By a header that a trusted proxy sets.
    Header(HeaderSettings),
    /// By a key that is known here.
    ApiKey(ApiKeySettings),
    /// Not at all: all are one.
    None,
}

/// Which bearer tokens count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JwtSettings {
    /// What signatures are verified with.
    pub keys: JwtKeys,
    /// Who must have issued the token.
    pub issuer: Option<String>,
    /// Whom it must be meant for.
    pub audience: Option<String>,
    /// The claim that names the caller.
    pub claim: String,
    /// Which signatures count.
    pub algorithms: Vec<Algorithm>,
    /// How far the issuer's clock may be off.
    pub leeway: Duration,
}

/// What signatures of bearer tokens are verified with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JwtKeys {
    /// The public keys in a file, a JSON Web Key Set.
    File(PathBuf),
    /// The secret in an environment variable.
    SecretEnv(String),
}

/// Which header names the caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeaderSettings {
    /// The header.
    pub name: HeaderName,
    /// From whom it is believed.
    pub peers: Vec<IpNet>,
}

/// Which keys are known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiKeySettings {
    /// The header with the key.
    pub header: HeaderName,
    /// The file with an id and a digest per line.
    pub keys: PathBuf,
}

/// Why callers cannot be known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A file cannot be read.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },

    /// A file does not hold what it should.
    #[error("{}: {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        hint: &'static str,
    },

    /// An environment variable does not hold a secret.
    #[error("the environment variable {name} {problem}")]
    Secret {
        /// The variable.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

// === impl Identity ===

impl Identity {
    /// Returns what `settings` say, after reading the files they name. `loopback` is whether all
    /// callers are on this machine; `env` looks environment variables up.
    pub fn new(
        settings: &Settings,
        loopback: bool,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SetupError> {
        Ok(Self(match settings {
            Settings::Credential => Kind::Credential { shared: loopback },
            Settings::Jwt(settings) => Kind::Jwt(Verifier::new(settings, env)?),
            Settings::Header(settings) => Kind::Header(settings.clone()),
            Settings::ApiKey(settings) => Kind::ApiKey(ApiKeys::new(settings)?),
            Settings::None => Kind::None,
        }))
    }

    /// Who sent the request, whose connection comes from `peer`, at the time of day `now`.
    pub fn caller(
        &self,
        request: &Parts,
        peer: SocketAddr,
        now: Timestamp,
    ) -> Result<Caller, Unidentified> {
        let headers = &request.headers;
        match &self.0 {
            Kind::Credential { shared } => credential::caller(headers, *shared),
            Kind::Jwt(verifier) => verifier.caller(headers, now),
            Kind::Header(settings) => header::caller(settings, headers, peer),
            Kind::ApiKey(keys) => keys.caller(headers),
            Kind::None => Ok(Caller::shared()),
        }
    }
}

// === impl Caller ===

impl Caller {
    /// The longest name of a caller, in bytes, without what says how it is known.
    pub const NAME_MAX: usize = 1024;

    /// The one caller of those who are not told apart.
    pub fn shared() -> Self {
        Self("shared".into())
    }

    /// The tenant of a scope.
    pub fn tenant(&self) -> &str {
        &self.0
    }

    /// The tenant of a scope, for good.
    pub fn into_tenant(self) -> Arc<str> {
        self.0
    }

    /// Returns the caller `name`, known by `by`, unless that is no name: other ways to know
    /// callers, and other callers, never give the same tenant.
    fn named(by: &str, name: &str) -> Option<Self> {
        let fits = (1..=Self::NAME_MAX).contains(&name.len());
        let plain = match name.is_ascii() {
            true => !name.bytes().any(|byte| byte.is_ascii_control()),
            false => !name.contains(char::is_control),
        };
        (fits && plain).then(|| Self([by, ":", name].concat().into()))
    }
}

// === impl SetupError ===

impl SetupError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => {
                "check the path, which is relative to the working directory, and its permissions"
            }
            Self::Invalid { hint, .. } => hint,
            Self::Secret { .. } => "set it to the issuer's secret, of at least 32 bytes",
        }
    }
}

#[cfg(test)]
mod tests;
