//! The layer of real processes: a victim on a disk that fails, and what it asks of its disk.

use std::ffi::OsStr;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::Command;

use onceward::bugs::{self, Bug};
use onceward_rig::bank::Layer;

use crate::victim::{Said, Victim, shim};

/// Real processes on a real disk.
pub(crate) const LAYER: Layer = Layer {
    name: "real processes",
    trial,
    round: || 2,
};

/// How many keys the victim pays for. It has eight callers, and each waits for two batches, so it
/// takes a quarter as many syncs at the least.
const KEYS: u64 = 400;
/// The sync that fails: well after the store is open, and well before the end.
const FAILS_AT: u64 = 60;

fn trial(number: u64) -> Option<String> {
    match number % 2 {
        0 => fail_a_sync(),
        _ => watch_renames(),
    }
}

/// Lets one sync fail. It has to be asked for, and whatever is acknowledged has to be there.
fn fail_a_sync() -> Option<String> {
    let temporary = tempfile::tempdir().expect("a folder for the store");
    let library = shim(temporary.path());
    let folder = temporary.path().join("store");
    let note = temporary.path().join("note");
    let orders = format!("sync:EIO:{FAILS_AT}:1");
    // Making a store takes many syncs, and one that fails there is a start that is refused.
    pay(&folder, (0, 1), []);
    let said = pay(
        &folder,
        (1, KEYS),
        [
            ("LD_PRELOAD", library.as_os_str()),
            ("FAULTS", orders.as_ref()),
            ("FAULTS_BELOW", folder.as_os_str()),
            ("FAULTS_NOTE", note.as_os_str()),
        ],
    );
    if !note.exists() {
        return Some(format!(
            "{} keys are acknowledged though nothing is synced",
            said.done.len()
        ));
    }
    let checked = panic::catch_unwind(AssertUnwindSafe(|| said.check(&folder)));
    let panicked = checked.err()?;
    let words = panicked.downcast_ref::<String>();
    Some(format!("after a failed sync: {words:?}"))
}

/// Watches what is renamed within the folder: each new name has to be made durable.
fn watch_renames() -> Option<String> {
    let temporary = tempfile::tempdir().expect("a folder for the store");
    let library = watcher(temporary.path());
    let folder = temporary.path().join("store");
    let log = temporary.path().join("log");
    pay(
        &folder,
        (0, KEYS),
        [
            ("LD_PRELOAD", library.as_os_str()),
            ("RENAMES_LOG", log.as_os_str()),
        ],
    );
    let log = std::fs::read_to_string(&log).expect("the watcher wrote its log");
    let lines: Vec<(&str, &Path)> = { log.lines() }
        .filter_map(|line| line.split_once(' '))
        .map(|(deed, path)| (deed, Path::new(path)))
        .collect();
    let renamed = |(_, (deed, path)): &(usize, &(&str, &Path))| {
        *deed == "rename" && path.parent() == Some(&folder)
    };
    let renames: Vec<_> = lines.iter().enumerate().filter(renamed).collect();
    assert!(!renames.is_empty(), "a store renames something");
    let lost = renames.into_iter().find(|(at, _)| {
        let mut later = lines[*at..].iter();
        !later.any(|(deed, path)| *deed == "sync" && *path == folder)
    })?;
    let name = lost.1.1.file_name().unwrap_or_default().display();
    Some(format!("{name} is never made durable in its folder"))
}

/// Lets a victim pay until it ends, with the mistake that this process is to make.
fn pay<const N: usize>(folder: &Path, keys: (u64, u64), environment: [(&str, &OsStr); N]) -> Said {
    let bug = bugs::chosen().map(Bug::name);
    let bug = bug.iter().map(|name| (Bug::VARIABLE, OsStr::new(name)));
    let url = format!("embedded:{}", folder.display());
    let victim = Victim::start(&url, keys, environment.into_iter().chain(bug));
    let (status, said) = victim.end();
    assert!(
        said.ready && status.success(),
        "the victim ended with {status}: {said:?}"
    );
    said
}

/// Compiles the library that watches renames.
fn watcher(folder: &Path) -> PathBuf {
    let library = folder.join("renames.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bugs/renames.c");
    let compiled = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status()
        .expect("a C compiler is there");
    assert!(compiled.success(), "the watcher compiles");
    library
}
