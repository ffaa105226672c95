//! The store that operators' commands work on: named, found and opened, and never made.

use std::{fs, io::ErrorKind, path::Path, sync::Arc};

use onceward::{Engine, SlotId, Store};
#[cfg(feature = "postgres")]
use onceward_stores::postgres;
use onceward_stores::{CacheUrl, OpenError, StoreUrl};
use tokio::task::spawn_blocking;

use onceward_gateway::config::{cache_url, store_url};

use crate::{exit::Failure, secret, trouble};

/// Which store.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub(crate) struct Args {
    /// The store to work on
    ///
    /// `embedded:PATH` is a folder of this machine, which only one process can have open: stop
    /// the service first. `postgres://USER@HOST/DATABASE` is a database, in which this works beside
    /// the service; its password is taken from PGPASSWORD. So is `redis://HOST`, with
    /// ONCEWARD_REDIS_PASSWORD. A store that was given its secret from outside needs it again: set
    /// ONCEWARD_SECRET, or ONCEWARD_SECRET_FILE to the name of a file that holds it.
    #[arg(
        long,
        value_name = "URL",
        env = "ONCEWARD_STORE",
        hide_env_values = true
    )]
    #[arg(default_value = "embedded:./onceward-data", value_parser = store_url)]
    store: StoreUrl,

    /// The cache in front of the store, if the service has one: redis://HOST:PORT
    ///
    /// What is settled here changes what retries get, so the cache is told before the database
    /// is. If it cannot be told, nothing is changed. Its password is taken from
    /// ONCEWARD_REDIS_PASSWORD.
    #[arg(
        long,
        value_name = "URL",
        env = "ONCEWARD_CACHE",
        hide_env_values = true
    )]
    #[arg(value_parser = cache_url)]
    cache: Option<CacheUrl>,
}

/// The names of which a folder that holds a store has at least one.
const SIGNS: [&str; 3] = ["FORMAT", "HEAD", "data"];

// === impl Args ===

impl Args {
    /// Opens the store, and checks the secret if one is given.
    pub(crate) async fn open(&self) -> Result<Engine, Failure> {
        self.refuse_absent()?;
        let given = secret::given()?;
        let is_given = given.is_some();
        let store = open_as_it_is(&self.store, self.cache.as_ref())
            .await
            .map_err(|error| Failure::new(trouble::in_one_line(&error), error.hint()))?;
        let engine = Engine::builder(store);
        let engine = match given {
            Some(secret) => engine.secret(secret).build(),
            None => engine.build(),
        };
        // A wrong secret mostly means a wrong store, so it is refused even where none is needed.
        if is_given && is_used(&engine).await? {
            engine.secret().await.map_err(|e| trouble::of(&e))?;
        }
        Ok(engine)
    }

    /// Returns the folder of the store, if it is in one.
    pub(crate) fn folder(&self) -> Result<&Path, Failure> {
        self.refuse_absent()?;
        match &self.store {
            StoreUrl::Embedded { path, .. } => Ok(path),
            _ => Err(Failure::new(
                "only an embedded store can be repaired: what is in a database is the database's",
                "restore the database from a backup, or repair an embedded store, for example \
                 --store embedded:./onceward-data",
            )),
        }
    }

    /// Returns how to reach the database, if the store is in one.
    #[cfg(feature = "postgres")]
    pub(crate) fn database(&self) -> Result<&postgres::Settings, Failure> {
        match &self.store {
            StoreUrl::Postgres(settings) => Ok(settings),
            other => Err(Failure::new(
                format!("{other} has no tables: it brings itself up to date"),
                "name a database, for example --store postgres://onceward@db.internal/app",
            )),
        }
    }

    /// Refuses a store that opening would make.
    fn refuse_absent(&self) -> Result<(), Failure> {
        match &self.store {
            StoreUrl::Embedded { path, .. } => refuse_absent(path),
            StoreUrl::Memory => Err(Failure::new(
                "a memory: store cannot be opened from outside: it lives in the process that \
                 made it, and ends with it",
                "name a store that lasts, for example --store embedded:./onceward-data",
            )),
            _ => Ok(()),
        }
    }
}

/// Opens a store, away from the threads that tasks run in, and makes nothing in it: tables that are
/// not there are refused.
pub(crate) async fn open_as_it_is(
    url: &StoreUrl,
    cache: Option<&CacheUrl>,
) -> Result<Arc<dyn Store>, OpenError> {
    let (url, cache) = (as_it_is(url.clone()), cache.cloned());
    let open = move || onceward_stores::open_with(&url, cache.as_ref());
    let opened = spawn_blocking(open).await;
    let opened = opened.expect("opening a store does not panic")?;
    Ok(opened.store)
}

#[cfg(feature = "postgres")]
fn as_it_is(url: StoreUrl) -> StoreUrl {
    match url {
        StoreUrl::Postgres(settings) => StoreUrl::Postgres(Box::new(settings.migrate(false))),
        other => other,
    }
}

#[cfg(not(feature = "postgres"))]
fn as_it_is(url: StoreUrl) -> StoreUrl {
    url
}

/// Whether anybody has used the store: the first to do so leaves the secret, or its check value.
///
/// Asking the engine for its secret would make one, and an operator's look must not.
pub(crate) async fn is_used(engine: &Engine) -> Result<bool, Failure> {
    let found = engine.store().get(SlotId::RESERVED).await;
    let found = found.map_err(|error| trouble::of(&error.into()))?;
    Ok(found.value.is_some())
}

/// Whether there is a store in a folder.
pub(crate) fn exists(path: &Path) -> bool {
    SIGNS.iter().any(|name| path.join(name).exists())
}

/// Refuses a folder in which opening would make a new store.
///
/// All other trouble with it is left to the store, which explains it better.
fn refuse_absent(path: &Path) -> Result<(), Failure> {
    let absent = match fs::metadata(path) {
        Err(error) => error.kind() == ErrorKind::NotFound,
        Ok(found) if !found.is_dir() => {
            return Err(Failure::new(
                format!("{} is not a folder", path.display()),
                "name the folder that the service uses, with --store embedded:PATH",
            ));
        }
        Ok(_) => !SIGNS
            .iter()
            .any(|name| path.join(name).try_exists().unwrap_or(true)),
    };
    if !absent {
        return Ok(());
    }
    Err(Failure::new(
        format!("there is no store in {}", path.display()),
        "name the folder that the service uses, with --store embedded:PATH or in ONCEWARD_STORE",
    ))
}

#[cfg(test)]
mod tests {
    use onceward::testing::World;

    use super::*;

    #[test]
    fn folder_without_a_store_is_refused_and_stays_empty() {
        let folder = tempfile::tempdir().unwrap();
        assert!(refuse_absent(folder.path()).is_err());
        assert!(refuse_absent(&folder.path().join("deeper")).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

        fs::write(folder.path().join("HEAD"), "").unwrap();
        assert!(refuse_absent(folder.path()).is_ok());
    }

    #[tokio::test]
    async fn looking_at_an_unused_store_makes_no_secret() {
        let world = World::new();
        assert!(!is_used(&world.engine).await.unwrap());
        assert!(!is_used(&world.engine).await.unwrap());
        world.engine.secret().await.unwrap();
        assert!(is_used(&world.engine).await.unwrap());
    }
}
