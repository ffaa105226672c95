//! Damaged folders of the embedded store: what was acknowledged is there, or somebody says that
//! it is not.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use fastrand::Rng;
use onceward::store::{Error, Filter};
use onceward::testing::records;
use onceward::{Outcome, Record, SlotId, State, Store, Timestamp};
use onceward_stores::embedded::EmbeddedStore;
use tempfile::TempDir;

use super::scratch;

/// A folder, and what has to be in there.
struct Image {
    /// Every file, by its path within the folder, with its bytes.
    files: BTreeMap<PathBuf, Vec<u8>>,
    acknowledged: BTreeMap<SlotId, Arc<Record>>,
}

/// What a file is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Journal,
    /// Outcomes that are too long for a table.
    Blob,
    Other,
}

/// How many bytes of a journal are lost at the most: a batch or two.
const LOST_MAX: usize = 600;

static IMAGE: LazyLock<Image> = LazyLock::new(|| runtime().block_on(Image::new()));

pub(super) fn round() -> u64 {
    12
}

pub(super) fn trial(number: u64) -> Option<String> {
    let copy = IMAGE.copy();
    let damage = IMAGE.damage(copy.path(), number);
    runtime().block_on(async {
        // One that refuses says it.
        let store = EmbeddedStore::open(copy.path()).ok()?;
        for (slot, expected) in &IMAGE.acknowledged {
            let silent = match store.get(*slot).await {
                Ok(reply) => reply.value.as_ref() != Some(expected),
                Err(Error::Unreadable { .. } | Error::Unavailable { .. }) => false,
                Err(_) => true,
            };
            if silent {
                return Some(format!("{damage}: the record in {slot:?} is silently gone"));
            }
        }
        None
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts")
}

// === impl Image ===

impl Image {
    /// A store with records in tables, in blobs and in the journal.
    async fn new() -> Self {
        let folder = scratch();
        let options = EmbeddedStore::at(folder.path()).journal(8 << 10);
        let store = options.open().expect("a new store opens");
        let has = |name: &str| {
            let folder = folder.path().join("data/keyspaces/1").join(name);
            fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some())
        };
        let mut number = 0;
        while number < 60 || !has("tables") || !has("blobs") {
            let slot = records::slot(&number.to_string());
            let outcome = Outcome::success(records::bytes(number % 2 * 400 + 10));
            let record = Record {
                state: State::Completed(outcome),
                ..records::completed(records::LONG)
            };
            let inserted = store.insert(slot, &record, Timestamp::NEVER).await;
            inserted.expect("the store answers");
            number += 1;
        }
        let page = store.list(&Filter::default(), None, 100_000).await;
        let records = page.expect("the store answers").value.records;
        // Closed, so that HEAD knows of everything.
        store.close();
        let mut files = BTreeMap::new();
        walk(folder.path(), &mut |file| {
            let within = file.strip_prefix(folder.path());
            let within = within.expect("it is within").to_owned();
            files.insert(within, written(file));
        });
        Self {
            files,
            acknowledged: records.into_iter().collect(),
        }
    }

    fn copy(&self) -> TempDir {
        let to = scratch();
        for (file, bytes) in &self.files {
            let target = to.path().join(file);
            let parent = target.parent().expect("it is within a folder");
            fs::create_dir_all(parent).expect("a folder can be made");
            fs::write(target, bytes).expect("a file can be written");
        }
        to
    }

    /// Does something to a folder, and says what: the newest journal loses its end, or a bit of
    /// some other file is flipped.
    fn damage(&self, folder: &Path, number: u64) -> String {
        let mut random = Rng::with_seed(number);
        let kind = match number % 3 {
            0 => Kind::Journal,
            1 => Kind::Blob,
            _ => Kind::Other,
        };
        let is_one =
            |(file, bytes): &(&PathBuf, &Vec<u8>)| Kind::of(file) == kind && !bytes.is_empty();
        let mut files: Vec<_> = self.files.iter().filter(is_one).collect();
        // Journals are named by their numbers.
        files.sort_by_key(|(file, _)| (file.as_os_str().len(), *file));
        let (file, bytes) = match kind {
            Kind::Journal => files[files.len() - 1],
            Kind::Blob | Kind::Other => files[random.usize(..files.len())],
        };
        let mut bytes = bytes.clone();
        let at = match kind {
            Kind::Journal => {
                let at = bytes.len() - random.usize(1..bytes.len().min(LOST_MAX));
                bytes.truncate(at);
                at
            }
            Kind::Blob | Kind::Other => {
                let at = random.usize(..bytes.len());
                bytes[at] ^= 1 << random.u8(..8);
                at
            }
        };
        fs::write(folder.join(file), bytes).expect("a file can be written");
        format!("{} is damaged at byte {at}", file.display())
    }
}

// === impl Kind ===

impl Kind {
    fn of(file: &Path) -> Self {
        match file.extension().is_some_and(|it| it == "jnl") {
            true => Self::Journal,
            false if file.iter().any(|part| part == "blobs") => Self::Blob,
            false => Self::Other,
        }
    }
}

/// The bytes of a file; those of a journal only as far as anything was written.
fn written(file: &Path) -> Vec<u8> {
    let mut bytes = fs::read(file).expect("a file can be read");
    if Kind::of(file) == Kind::Journal {
        let end = bytes.iter().rposition(|byte| *byte != 0);
        bytes.truncate(end.map_or(0, |last| last + 1));
    }
    bytes
}

fn walk(folder: &Path, each: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(folder).expect("a folder can be read") {
        let path = entry.expect("a folder can be read").path();
        match path.is_dir() {
            true => walk(&path, each),
            false => each(&path),
        }
    }
}
