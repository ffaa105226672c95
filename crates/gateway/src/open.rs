//! Opening the store: found, held to what strictness wants, and told about.

use std::sync::Arc;

use onceward::Store;
use onceward_stores::{Fact, Regressed, StoreUrl};

use crate::StartError;
use crate::config::Config;
use crate::strict::StrictStore;

/// A store that is open.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    /// What its class follows from, where that was looked up: a line for each.
    pub(crate) reasons: Vec<String>,
    /// How many acknowledged answers it was found to lack, where somebody can tell.
    pub(crate) regressed: Option<Regressed>,
}

/// Opens the store, away from the threads that tasks run in: it takes what a disk or a database
/// takes.
pub(crate) async fn open(config: &Config) -> Result<Opened, StartError> {
    let url = config.store_with_password()?;
    let cache = config.cache.clone();
    let open = move || {
        refuse_lost(&url)?;
        let opened = onceward_stores::open_with(&url, cache.as_ref());
        let opened = opened.map_err(|error| StartError::new(&error, error.hint()))?;
        Ok(Opened {
            store: opened.store,
            reasons: reasons(&url),
            regressed: opened.regressed,
        })
    };
    let opened = tokio::task::spawn_blocking(open).await;
    opened.expect("opening a store does not panic")
}

/// Returns the store as far as strictness lets it serve, or refuses it, naming the settings of its
/// server that are in the way.
pub(crate) fn hold_to(
    config: &Config,
    store: Arc<dyn Store>,
    reasons: &[String],
) -> Result<Arc<dyn Store>, StartError> {
    match config.refuses(store.durability()) {
        Some(what) => Err(StartError::says(
            [&[what], reasons].concat().join("; "),
            "use a store that survives, or set strict = false if you can live with it",
        )),
        // The class of a folder is what its URL says, and stays so.
        None if config.strict && store.kind() != "embedded" => {
            Ok(Arc::new(StrictStore::new(store)))
        }
        None => Ok(store),
    }
}

/// Refuses a store whose folder has no place to be: a disk that is not mounted must not look like
/// a store that never was.
fn refuse_lost(url: &StoreUrl) -> Result<(), StartError> {
    let StoreUrl::Embedded { path, .. } = url else {
        return Ok(());
    };
    if path.exists() {
        return Ok(());
    }
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
        return Err(StartError::says(
            format!(
                "there is no store in {}, and no folder {} to make it in",
                path.display(),
                parent.display()
            ),
            "mount the disk or make the folder, or name another store with --store",
        ));
    }
    tracing::warn!(store = %url, "there was no store: a new and empty one is made");
    Ok(())
}

/// Returns what the class of a store on a server follows from: what is not as it should be, or if
/// all is well what makes it so.
fn reasons(url: &StoreUrl) -> Vec<String> {
    const DECISIVE: [&str; 3] = [
        "synchronous_commit",
        "synchronous_standby_names",
        "appendfsync",
    ];
    let Some(facts) = facts(url) else {
        return Vec::new();
    };
    let is_well = facts.iter().all(|fact| fact.is_good);
    let told = facts.iter().filter(|fact| match is_well {
        true => DECISIVE.contains(&fact.name) && !fact.value.is_empty(),
        false => !fact.is_good,
    });
    told.map(|fact| format!("{} = {}: {}", fact.name, fact.value, fact.verdict))
        .collect()
}

/// The settings of the server, if the store is on one. The store is open; if the server is gone by
/// now, the log will tell soon enough.
fn facts(url: &StoreUrl) -> Option<Vec<Fact>> {
    match url {
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(settings) => {
            let found = onceward_stores::postgres::inspect(settings).ok()?;
            Some(found.durability.facts)
        }
        #[cfg(feature = "redis")]
        StoreUrl::Redis(settings) => {
            let found = onceward_stores::redis::inspect(settings).ok()?;
            Some(found.durability.facts)
        }
        _ => None,
    }
}

// === impl Opened ===

impl From<Arc<dyn Store>> for Opened {
    fn from(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            reasons: Vec::new(),
            regressed: None,
        }
    }
}
