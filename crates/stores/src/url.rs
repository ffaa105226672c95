//! Store URLs: how a store is named on the command line and in a configuration.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

#[cfg(feature = "postgres")]
use crate::postgres::Settings;

/// Which store, and where.
///
/// ```
/// use onceward_stores::StoreUrl;
///
/// let url: StoreUrl = "embedded:./onceward-data".parse().unwrap();
/// assert_eq!(url.to_string(), "embedded:./onceward-data");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StoreUrl {
    /// `memory:`, in this process.
    Memory,
    /// `embedded:PATH`, in a folder.
    Embedded {
        /// The folder.
        path: PathBuf,
        /// Whether every batch is synced to the disk before it is acknowledged.
        sync: bool,
    },
    /// `postgres://..`, in a database.
    #[cfg(feature = "postgres")]
    Postgres(Box<Settings>),
    /// `redis://..`, in a server, behind sentinels or in a cluster.
    #[cfg(feature = "redis")]
    Redis(Box<crate::redis::Settings>),
}

/// Why a text is not the URL of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidUrl {
    /// It has no scheme that is known here.
    #[error("{0:?} is not a store URL")]
    Scheme(String),

    /// The folder of an embedded store is missing.
    #[error("{0:?} names no folder")]
    NoPath(String),

    /// A parameter behind the question mark is not known, or has another value.
    #[error("{0:?} is not a parameter of this store")]
    Parameter(String),

    /// The URL of a PostgreSQL store cannot be understood.
    #[error("{0}")]
    Postgres(String),

    /// The URL of a Redis store cannot be understood.
    #[error("{0}")]
    Redis(String),

    /// This program was built without that kind of store.
    #[error("this program was built without the {0} store")]
    NotBuilt(&'static str),
}

// === impl StoreUrl ===

impl FromStr for StoreUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        let (scheme, rest) = text
            .split_once(':')
            .ok_or_else(|| InvalidUrl::Scheme(text.to_owned()))?;
        match scheme {
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => Err(InvalidUrl::Parameter(rest.to_owned())),
            "embedded" => embedded(text, rest),
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => match text.parse() {
                Ok(settings) => Ok(Self::Postgres(Box::new(settings))),
                Err(wrong) => Err(InvalidUrl::Postgres(wrong.to_string())),
            },
            #[cfg(not(feature = "postgres"))]
            "postgres" | "postgresql" => Err(InvalidUrl::NotBuilt("postgres")),
            #[cfg(feature = "redis")]
            "redis" | "rediss" | "redis+sentinel" | "redis+cluster" => {
                match text.parse::<crate::redis::Settings>() {
                    Ok(settings) => Ok(Self::Redis(Box::new(settings))),
                    Err(wrong) => Err(InvalidUrl::Redis(wrong.to_string())),
                }
            }
            #[cfg(not(feature = "redis"))]
            "redis" | "rediss" | "redis+sentinel" | "redis+cluster" => {
                Err(InvalidUrl::NotBuilt("redis"))
            }
            _ => Err(InvalidUrl::Scheme(text.to_owned())),
        }
    }
}

fn embedded(text: &str, rest: &str) -> Result<StoreUrl, InvalidUrl> {
    let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    if path.is_empty() {
        return Err(InvalidUrl::NoPath(text.to_owned()));
    }
    let sync = match parameters {
        "" | "durability=disk" => true,
        "durability=os" => false,
        other => return Err(InvalidUrl::Parameter(other.to_owned())),
    };
    Ok(StoreUrl::Embedded {
        path: path.into(),
        sync,
    })
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Embedded { path, sync } => {
                let parameters = if *sync { "" } else { "?durability=os" };
                write!(f, "embedded:{}{parameters}", path.display())
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(settings) => settings.fmt(f),
            #[cfg(feature = "redis")]
            Self::Redis(settings) => settings.fmt(f),
        }
    }
}

// === impl InvalidUrl ===

impl InvalidUrl {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Scheme(_) => {
                "use memory:, embedded:PATH, postgres://USER@HOST/DATABASE or redis://HOST, \
                 for example embedded:./onceward-data"
            }
            Self::NoPath(_) => "name a folder, for example embedded:./onceward-data",
            Self::Parameter(_) => {
                "an embedded store takes ?durability=disk (the default) or ?durability=os"
            }
            Self::Postgres(_) => {
                "write postgres://USER@HOST:PORT/DATABASE with schema, prefix, connections, \
                 timeout (5s), migrate (on or off), failover (any or never), sslmode, \
                 sslrootcert, sslcert or sslkey behind the question mark"
            }
            Self::Redis(_) => {
                "write redis://USER@HOST:PORT/DB, rediss://.., redis+sentinel://HOST,HOST/SERVICE \
                 or redis+cluster://HOST,HOST with prefix, connections, timeout (5s), wait, \
                 wait_timeout (1s), failover (any or never), tls (on or off), sslrootcert, sslcert \
                 or sslkey behind the question mark"
            }
            Self::NotBuilt(_) => "build it with the feature of that name",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_read_back_as_they_are_shown() {
        for url in ["memory:", "embedded:./data", "embedded:/a b?durability=os"] {
            assert_eq!(url.parse::<StoreUrl>().unwrap().to_string(), url);
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said() {
        let refused = |text: &str| text.parse::<StoreUrl>().unwrap_err();
        assert!(matches!(refused("data"), InvalidUrl::Scheme(_)));
        assert!(matches!(refused("mysql://x"), InvalidUrl::Scheme(_)));
        assert!(matches!(refused("embedded:"), InvalidUrl::NoPath(_)));
        assert!(matches!(
            refused("embedded:?durability=os"),
            InvalidUrl::NoPath(_)
        ));
        assert!(matches!(
            refused("embedded:x?durability=yes"),
            InvalidUrl::Parameter(_)
        ));
        assert!(matches!(refused("memory:x"), InvalidUrl::Parameter(_)));
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn the_url_of_a_database_reads_back_without_its_password() {
        let url: StoreUrl = "postgresql://a:secret@h:1/d?schema=s".parse().unwrap();
        assert_eq!(url.to_string(), "postgresql://a@h:1/d?schema=s");
        assert!(!format!("{url:?}").contains("secret"));
        let wrong = "postgres://a:secret@h/d?x=1"
            .parse::<StoreUrl>()
            .unwrap_err();
        assert!(matches!(wrong, InvalidUrl::Postgres(_)));
    }

    #[cfg(feature = "redis")]
    #[test]
    fn the_url_of_a_redis_server_reads_back_without_its_password() {
        for scheme in ["redis", "rediss", "redis+cluster"] {
            let url: StoreUrl = format!("{scheme}://a:secret@h:1?prefix=p").parse().unwrap();
            assert_eq!(url.to_string(), format!("{scheme}://a@h:1?prefix=p"));
            assert!(!format!("{url:?}").contains("secret"));
        }
        let wrong = "redis://a:secret@h?x=1".parse::<StoreUrl>().unwrap_err();
        assert!(matches!(wrong, InvalidUrl::Redis(_)));
    }

    #[test]
    fn syncing_is_the_default() {
        let url: StoreUrl = "embedded:data".parse().unwrap();
        assert!(matches!(url, StoreUrl::Embedded { sync: true, .. }));
    }
}
