//! What the doctor looks at in a store, or in the place where one is to be made.

use std::io;
use std::path::Path;
use std::sync::Arc;

use onceward::clock::{Clock as _, SystemClock};
use onceward::{Durability, Engine, SlotId, Store};
use onceward_gateway::config::Config;
use onceward_stores::{OpenError, StoreUrl};

use super::Finding;
use super::checks::compared;
use crate::{secret, store, trouble};

/// What was found about a store.
#[derive(Debug)]
pub(super) struct Examined {
    pub(super) findings: Vec<Finding>,
    /// Whether another process has it open, most likely a gateway.
    pub(super) is_in_use: bool,
}

/// The store, its clock, and what it survives.
pub(super) async fn examine(config: &Config) -> Examined {
    let free = |findings| Examined {
        findings,
        is_in_use: false,
    };
    if let StoreUrl::Embedded { path, .. } = &config.store
        && !store::exists(path)
    {
        let place = to_be_made(path, &config.store);
        return free(vec![place, survives(config, config.durability())]);
    }
    let url = match config.store_with_password() {
        Ok(url) => url,
        Err(error) => {
            let found = Finding::bad("store", error.to_string(), error.hint());
            return free(vec![found]);
        }
    };
    match &url {
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(settings) => {
            return free(super::database::examine(config, &url, settings).await);
        }
        #[cfg(feature = "redis")]
        StoreUrl::Redis(settings) => {
            return free(super::redis::examine(config, &url, settings).await);
        }
        _ => {}
    }
    match store::open_as_it_is(&url, None).await {
        Ok(opened) => {
            let durability = survives(config, opened.durability());
            let mut findings = look(config, opened).await;
            findings.push(durability);
            free(findings)
        }
        Err(error) => {
            let found = trouble::in_one_line(&error);
            Examined {
                findings: vec![
                    Finding::bad("store", found, error.hint()),
                    survives(config, config.durability()),
                ],
                is_in_use: matches!(error, OpenError::InUse { .. }),
            }
        }
    }
}

/// Whether a store that is not there yet can be made.
fn to_be_made(path: &Path, url: &StoreUrl) -> Finding {
    // An empty folder is as good as none, and then it is the one to write to.
    let folder = match path.parent() {
        _ if path.is_dir() => path,
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    };
    if !folder.is_dir() {
        return Finding::bad(
            "store",
            format!(
                "{url} cannot be made: there is no folder {}",
                folder.display()
            ),
            "create it, mount it, or name another place with --store",
        );
    }
    match is_writable(folder) {
        Ok(()) => Finding::note(
            "store",
            format!("{url} does not exist yet"),
            "serve makes it",
        ),
        Err(error) => Finding::bad(
            "store",
            format!(
                "{url} cannot be made: {} cannot be written to: {error}",
                folder.display()
            ),
            "let the gateway's user write there, or name another place with --store",
        ),
    }
}

/// Whether an open store answers and its secret fits, and its clock.
pub(super) async fn look(config: &Config, opened: Arc<dyn Store>) -> Vec<Finding> {
    let engine = match secret::given() {
        Ok(Some(secret)) => Engine::builder(opened).secret(secret).build(),
        _ => Engine::builder(opened).build(),
    };
    vec![answers(&engine, config).await, clock(&engine).await]
}

async fn answers(engine: &Engine, config: &Config) -> Finding {
    let Ok(used) = store::is_used(engine).await else {
        let hint = "look at the disk and the system's log";
        return Finding::bad("store", format!("{} does not answer", config.store), hint);
    };
    if !used {
        return Finding::good("store", format!("{} answers, and is empty", config.store));
    }
    match engine.secret().await {
        Ok(_) => Finding::good(
            "store",
            format!("{} answers, and its secret fits", config.store),
        ),
        Err(error) => Finding::bad(
            "store",
            trouble::in_one_line(&error),
            "set ONCEWARD_SECRET, or ONCEWARD_SECRET_FILE, to what the service runs with",
        ),
    }
}

async fn clock(engine: &Engine) -> Finding {
    match engine.store().get(SlotId::RESERVED).await {
        Ok(reply) => compared("store clock", "the store's", reply.now, SystemClock.wall()),
        Err(_) => Finding::bad("store clock", "cannot be read", "see the store"),
    }
}

/// What an acknowledged write survives, and whether that is enough.
pub(super) fn survives(config: &Config, durability: Durability) -> Finding {
    let found = format!("{durability:?}");
    if let Some(refusal) = config.refuses(durability) {
        return Finding::bad("durability", refusal, "serve would not start");
    }
    match durability {
        Durability::D0 | Durability::D1 => Finding::note(
            "durability",
            format!("{found}: acknowledged records can be lost"),
            "use a store that syncs for opaque work; strict = true insists on it",
        ),
        Durability::D2 | Durability::D3 => Finding::good("durability", found),
    }
}

/// Makes a file in a folder, and removes it.
fn is_writable(folder: &Path) -> io::Result<()> {
    tempfile::NamedTempFile::new_in(folder)?.close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    fn made_at(path: &Path) -> Finding {
        let url = format!("embedded:{}", path.display()).parse().unwrap();
        to_be_made(path, &url)
    }

    #[test]
    fn store_can_be_made_where_files_can_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(made_at(&folder.path().join("store")).state, State::Note);
        assert_eq!(made_at(folder.path()).state, State::Note);
        assert_eq!(made_at(Path::new("store")).state, State::Note);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn store_cannot_be_made_in_no_folder_and_in_one_that_takes_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let missing = made_at(&folder.path().join("missing/store"));
        assert_eq!(missing.state, State::Bad);
        assert!(missing.found.contains("there is no folder"));
        // Nobody can make a file here, root included.
        let closed = made_at(Path::new("/proc/store"));
        assert_eq!(closed.state, State::Bad);
        assert!(closed.found.contains("cannot be written to"));
    }
}
