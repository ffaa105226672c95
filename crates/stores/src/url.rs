//! Store URLs: how a store is named on the command line and in a configuration.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

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
        }
    }
}

// === impl InvalidUrl ===

impl InvalidUrl {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Scheme(_) => "use memory: or embedded:PATH, for example embedded:./onceward-data",
            Self::NoPath(_) => "name a folder, for example embedded:./onceward-data",
            Self::Parameter(_) => {
                "an embedded store takes ?durability=disk (the default) or ?durability=os"
            }
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

    #[test]
    fn syncing_is_the_default() {
        let url: StoreUrl = "embedded:data".parse().unwrap();
        assert!(matches!(url, StoreUrl::Embedded { sync: true, .. }));
    }
}
