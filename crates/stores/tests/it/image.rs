//! Images: what a crash leaves of a store's folder, and what the store had acknowledged by then.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use onceward::store::{Error, Filter};
use onceward::testing::records;
use onceward::{Record, SlotId, State, Store, Timestamp};
use onceward_stores::OpenError;
use onceward_stores::embedded::EmbeddedStore;
use tempfile::TempDir;

/// Every record that was acknowledged, by slot.
pub(crate) type Acknowledged = BTreeMap<SlotId, Record>;

/// A folder as a crash leaves it.
pub(crate) struct Image {
    folder: TempDir,
    /// What has to be in there.
    pub(crate) acknowledged: Acknowledged,
    /// HEAD as it was before the last writes: it may be that old.
    pub(crate) older_head: Vec<u8>,
    /// Where the last two batches begin and end in the newest journal.
    pub(crate) last_batches: [u64; 3],
}

// === impl Image ===

impl Image {
    /// A store with records in tables, in blobs and in the journal, of every state.
    pub(crate) async fn new() -> Self {
        let folder = scratch();
        let options = EmbeddedStore::at(folder.path()).journal(8 << 10);
        let store = options.open().unwrap();
        let has = |name: &str| {
            let folder = folder.path().join("data/keyspaces/1").join(name);
            fs::read_dir(folder).unwrap().next().is_some()
        };
        let mut acknowledged = Acknowledged::new();
        let mut n = 0;
        while n < 60 || !has("tables") || !has("blobs") {
            put(&store, &mut acknowledged, n).await;
            n += 1;
        }
        // Opened again, so that the journal holds what is not in tables yet, and nothing else
        // happens in the background.
        store.close();
        let store = EmbeddedStore::open(folder.path()).unwrap();
        acknowledged = all(&store).await;
        for more in n..n + 6 {
            put(&store, &mut acknowledged, more).await;
        }
        let older_head = fs::read(folder.path().join("HEAD")).unwrap();
        let mut last_batches = [0; 3];
        for (more, end) in (n + 6..).zip(&mut last_batches) {
            put(&store, &mut acknowledged, more).await;
            *end = written(&newest_journal(folder.path())).len() as u64;
        }
        let image = copy(folder.path());
        drop(store);
        Self {
            folder: image,
            acknowledged,
            older_head,
            last_batches,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Every file in it, by its path within.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        walk(self.path(), &mut |file| {
            files.push(file.strip_prefix(self.path()).unwrap().to_owned());
        });
        files.sort();
        files
    }

    /// A copy to do something to.
    pub(crate) fn copy(&self) -> TempDir {
        copy(self.path())
    }
}

/// Puts a record of some state into a slot of its own, in a batch of its own.
pub(crate) async fn put(store: &EmbeddedStore, acknowledged: &mut Acknowledged, n: usize) {
    let slot = records::slot(&n.to_string());
    let record = match n % 5 {
        0 => records::completed(records::LONG),
        1 => records::unknown(None),
        2 => records::open(records::LONG),
        3 => records::claimed(records::LONG),
        _ => Record {
            state: State::Completed(onceward::Outcome::success(records::bytes(400 + n))),
            ..records::completed(records::LONG)
        },
    };
    let reply = store.insert(slot, &record, Timestamp::NEVER).await.unwrap();
    acknowledged.insert(slot, record.stamped(reply.now));
}

/// Every record in a store.
pub(crate) async fn all(store: &EmbeddedStore) -> Acknowledged {
    let mut found = Acknowledged::new();
    let mut after = None;
    loop {
        let page = store
            .list(&Filter::default(), after, 1000)
            .await
            .unwrap()
            .value;
        found.extend(
            page.records
                .into_iter()
                .map(|(slot, it)| (slot, (*it).clone())),
        );
        match page.next {
            Some(next) => after = Some(next),
            None => return found,
        }
    }
}

/// What an open of a damaged folder came to.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Everything is there, or says that it cannot be read.
    Whole,
    /// It says so.
    Refused(OpenError),
    /// These are missing or differ, and nobody said so.
    Silently(Vec<SlotId>),
}

/// Opens a folder and looks for everything that was acknowledged.
pub(crate) async fn open(folder: &Path, acknowledged: &Acknowledged) -> Opened {
    let store = match EmbeddedStore::open(folder) {
        Ok(store) => store,
        Err(refused) => return Opened::Refused(refused),
    };
    let mut wrong = Vec::new();
    for (slot, expected) in acknowledged {
        match store.get(*slot).await {
            Ok(reply)
                if reply
                    .value
                    .as_deref()
                    .is_some_and(|it| is_same(expected, it)) => {}
            Err(Error::Unreadable { .. }) => {}
            Ok(_) | Err(_) => wrong.push(*slot),
        }
    }
    match wrong.is_empty() {
        true => Opened::Whole,
        false => Opened::Silently(wrong),
    }
}

/// How many of the acknowledged records are in a store.
pub(crate) async fn present(store: &EmbeddedStore, acknowledged: &Acknowledged) -> usize {
    let found = all(store).await;
    let same = |(slot, it): &(&SlotId, &Record)| found.get(slot).is_some_and(|f| is_same(it, f));
    acknowledged.iter().filter(same).count()
}

/// Whether a record is the one that was acknowledged. A claim is unknown after a restart.
pub(crate) fn is_same(acknowledged: &Record, found: &Record) -> bool {
    match (&acknowledged.state, &found.state) {
        (State::Claimed(_), State::Unknown(_)) => acknowledged.mark == found.mark,
        _ => acknowledged == found,
    }
}

/// A folder in memory, where there is room: what is damaged on purpose need not be on a disk, and
/// hundreds of them are.
pub(crate) fn scratch() -> TempDir {
    const ROOM: u64 = 256 << 20;

    let memory = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).map_or(0, |it| it.f_bavail * it.f_frsize);
    match room >= ROOM {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

/// Copies a folder, without the emptiness behind what was written to a journal.
pub(crate) fn copy(folder: &Path) -> TempDir {
    let to = scratch();
    walk(folder, &mut |file| {
        let target = to.path().join(file.strip_prefix(folder).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        match file.extension().is_some_and(|it| it == "jnl") {
            true => fs::write(target, written(file)).unwrap(),
            false => drop(fs::copy(file, target).unwrap()),
        }
    });
    to
}

/// The newest journal in a store's folder.
pub(crate) fn newest_journal(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder.join("data")).unwrap();
    let journals = entries.filter_map(|entry| {
        let path = entry.unwrap().path();
        let id: u64 = path
            .file_name()?
            .to_str()?
            .strip_suffix(".jnl")?
            .parse()
            .ok()?;
        Some((id, path))
    });
    journals.max().unwrap().1
}

/// The bytes of a journal as far as anything was written.
pub(crate) fn written(journal: &Path) -> Vec<u8> {
    let mut bytes = fs::read(journal).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0);
    bytes.truncate(end.map_or(0, |last| last + 1));
    bytes
}

fn walk(folder: &Path, each: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => walk(&path, each),
            false => each(&path),
        }
    }
}

/// Runs every case, several at a time: they mostly wait for the disk.
pub(crate) fn each<T: Send + 'static, F>(
    cases: impl IntoIterator<Item = T>,
    run: impl Fn(T) -> F + Clone + Send + 'static,
) where
    F: Future<Output = ()> + Send,
{
    const AT_ONCE: usize = 8;
    let cases = Arc::new(std::sync::Mutex::new(Vec::from_iter(cases)));
    let workers: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (cases, run) = (cases.clone(), run.clone());
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .build()
                    .unwrap();
                loop {
                    let case = cases.lock().unwrap().pop();
                    let Some(case) = case else { break };
                    runtime.block_on(run(case));
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
}
