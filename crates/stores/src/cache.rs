//! Caches: what remembers answers in front of a database, how it is named, and opening both.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use onceward::Store;

use crate::{OpenError, StoreUrl};

/// Which cache, and where: `redis://..` in front of a `postgres://..` store.
///
/// Neither `Display` nor `Debug` shows a password.
#[derive(Clone, PartialEq, Eq)]
pub struct CacheUrl {
    /// The URL without its password.
    shown: String,
    #[cfg(feature = "redis")]
    settings: Box<crate::redis::Settings>,
}

/// Why a text is not the URL of a cache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCache {
    /// It has no scheme that is known here.
    #[error("{0:?} is not a cache URL")]
    Scheme(String),

    /// The rest of it cannot be understood.
    #[error("{0}")]
    Redis(String),

    /// This program was built without that kind of cache.
    #[error("this program was built without Redis")]
    NotBuilt,
}

/// How many acknowledged answers a store was found to lack, as often as it is asked.
pub type Regressed = Arc<dyn Fn() -> u64 + Send + Sync>;

/// A store that is open, perhaps with a cache in front of it.
#[non_exhaustive]
pub struct Opened {
    /// The store.
    pub store: Arc<dyn Store>,
    /// What a cache tells of the store behind it.
    pub regressed: Option<Regressed>,
}

/// Opens the store that `url` names, with a cache in front of it if there is one.
///
/// Blocks until the store can serve. A cache that does not answer is no error: it is left out
/// until it does.
pub fn open_with(url: &StoreUrl, cache: Option<&CacheUrl>) -> Result<Opened, OpenError> {
    match cache {
        None => Ok(Opened {
            store: crate::open(url)?,
            regressed: None,
        }),
        Some(cache) => open_cached(url, cache),
    }
}

#[cfg(all(feature = "postgres", feature = "redis"))]
fn open_cached(url: &StoreUrl, cache: &CacheUrl) -> Result<Opened, OpenError> {
    use crate::hybrid::{HybridStore, RedisCache};
    use crate::postgres::PostgresStore;

    let StoreUrl::Postgres(settings) = url else {
        return Err(OpenError::NothingToCache {
            store: url.to_string(),
        });
    };
    let truth = PostgresStore::open(settings.as_ref().clone())?;
    let memos = RedisCache::open(cache.settings.as_ref().clone())?;
    let started = HybridStore::start(Arc::new(truth), Arc::new(memos));
    let store = started.map_err(|error| OpenError::Server {
        server: crate::open::REDIS,
        place: cache.to_string(),
        why: format!("no thread for it: {error}"),
    })?;
    let regressions = store.regressions().clone();
    Ok(Opened {
        store: Arc::new(store),
        regressed: Some(Arc::new(move || regressions.count())),
    })
}

#[cfg(not(all(feature = "postgres", feature = "redis")))]
fn open_cached(url: &StoreUrl, _: &CacheUrl) -> Result<Opened, OpenError> {
    Err(OpenError::NothingToCache {
        store: url.to_string(),
    })
}

// === impl CacheUrl ===

impl CacheUrl {
    /// How the servers are reached.
    #[cfg(feature = "redis")]
    pub fn settings(&self) -> &crate::redis::Settings {
        &self.settings
    }

    /// Whether a cache can be put in front of this store.
    pub fn goes_before(url: &StoreUrl) -> bool {
        #[cfg(feature = "postgres")]
        return matches!(url, StoreUrl::Postgres(_));
        #[cfg(not(feature = "postgres"))]
        {
            let _ = url;
            false
        }
    }
}

impl FromStr for CacheUrl {
    type Err = InvalidCache;

    #[cfg(feature = "redis")]
    fn from_str(text: &str) -> Result<Self, InvalidCache> {
        if !is_redis(text) {
            return Err(InvalidCache::Scheme(text.to_owned()));
        }
        let parsed = text.parse::<crate::redis::Settings>();
        let settings = parsed.map_err(|wrong| InvalidCache::Redis(wrong.to_string()))?;
        Ok(Self {
            shown: settings.to_string(),
            settings: Box::new(settings),
        })
    }

    #[cfg(not(feature = "redis"))]
    fn from_str(text: &str) -> Result<Self, InvalidCache> {
        match is_redis(text) {
            true => Err(InvalidCache::NotBuilt),
            false => Err(InvalidCache::Scheme(text.to_owned())),
        }
    }
}

fn is_redis(text: &str) -> bool {
    let scheme = text.split(':').next().unwrap_or_default();
    ["redis", "rediss", "redis+sentinel", "redis+cluster"].contains(&scheme)
}

impl fmt::Display for CacheUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for CacheUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CacheUrl({})", self.shown)
    }
}

// === impl InvalidCache ===

impl InvalidCache {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Scheme(_) => "use redis://HOST, for example redis://cache.internal:6379",
            Self::Redis(_) => {
                "write redis://USER@HOST:PORT/DB, rediss://.., redis+sentinel://HOST,HOST/SERVICE \
                 or redis+cluster://HOST,HOST, with prefix, connections and timeout behind the \
                 question mark"
            }
            Self::NotBuilt => "build it with the feature redis",
        }
    }
}

// === impl Opened ===

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "redis"))]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_cache_reads_back_without_its_password() {
        let url: CacheUrl = "redis://app:secret@cache:1?prefix=p".parse().unwrap();
        assert_eq!(url.to_string(), "redis://app@cache:1?prefix=p");
        assert!(!format!("{url:?}").contains("secret"));
    }

    #[test]
    fn what_is_wrong_with_a_cache_is_said() {
        let refused = |text: &str| text.parse::<CacheUrl>().unwrap_err();
        assert!(matches!(refused("postgres://h/d"), InvalidCache::Scheme(_)));
        assert!(matches!(refused("cache"), InvalidCache::Scheme(_)));
        assert!(matches!(refused("redis://h?x=1"), InvalidCache::Redis(_)));
    }

    #[test]
    fn a_cache_goes_in_front_of_a_database_only() {
        let cache = "redis://127.0.0.1:1".parse().unwrap();
        let refused = open_with(&StoreUrl::Memory, Some(&cache)).unwrap_err();
        assert!(matches!(refused, OpenError::NothingToCache { .. }));
        assert!(!CacheUrl::goes_before(&StoreUrl::Memory));
    }
}
