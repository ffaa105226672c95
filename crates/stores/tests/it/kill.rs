//! A process that is killed while it writes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use onceward::store::{Insert, Swap};
use onceward::testing::records;
use onceward::{SlotId, Store, Timestamp};
use onceward_stores::OpenError;
use onceward_stores::embedded::EmbeddedStore;

use crate::image::all;

/// Set for the process that is going to be killed: the folder, and whether to sync.
const WRITER: &str = "ONCEWARD_TEST_WRITER";
const ROUNDS: usize = 4;
/// How many acknowledgements to wait for before the kill.
const WRITES: usize = 300;

/// Writes until it is killed, and says what was acknowledged.
async fn write_until_killed(told: &str) {
    let (mode, folder) = told.split_once(' ').unwrap();
    let store = EmbeddedStore::at(folder)
        .sync(mode == "disk")
        // So small that tables are written all the time.
        .journal(32 << 10)
        .open()
        .unwrap();
    let store = Arc::new(store);
    let writers = (0..8).map(|_| tokio::spawn(write_on(store.clone())));
    futures_util::future::join_all(writers).await;
}

async fn write_on(store: Arc<EmbeddedStore>) {
    loop {
        let slot = SlotId::from_bytes(std::array::from_fn(|_| fastrand::u8(..)));
        let claim = records::claimed(records::LONG);
        let claimed = store.insert(slot, &claim, Timestamp::NEVER).await;
        assert_eq!(claimed.unwrap().value, Insert::Done);
        let done = records::rewritten(&records::completed(records::LONG));
        let completed = store
            .replace(slot, claim.fence, &done, Timestamp::NEVER)
            .await;
        assert_eq!(completed.unwrap().value, Swap::Done);
        writeln!(std::io::stdout().lock(), "done {slot}").unwrap();
    }
}

/// Lets a process write, kills it, and returns the slots it said were done.
fn kill_a_writer(test: &str, mode: &str, folder: &Path) -> Vec<SlotId> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(WRITER, format!("{mode} {}", folder.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut done = Vec::new();
    let slot_in = |line: String| {
        let (_, slot) = line.split_once("done ")?;
        SlotId::from_hex(slot)
    };
    while done.len() < WRITES {
        let line = said
            .next()
            .expect("the writer goes on until it is killed")
            .unwrap();
        done.extend(slot_in(line));
        if done.len() == 1 {
            let second = EmbeddedStore::open(folder).unwrap_err();
            assert!(matches!(second, OpenError::InUse { .. }), "{second:?}");
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What it had said before it died counts as well.
    done.extend(said.filter_map(|line| slot_in(line.ok()?)));
    done
}

async fn survives_kills(test: &str, mode: &str) {
    if let Ok(told) = std::env::var(WRITER) {
        return write_until_killed(&told).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        acknowledged.extend(kill_a_writer(test, mode, folder.path()));
        let store = EmbeddedStore::at(folder.path()).open().unwrap();
        let found = all(&store).await;
        for slot in &acknowledged {
            let record = found.get(slot);
            let is_done = record.is_some_and(|record| record.outcome().is_some());
            assert!(is_done, "round {round}: {slot:?} is {record:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_a_kill() {
    survives_kills("kill::what_was_acknowledged_survives_a_kill", "disk").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_handed_to_the_system_survives_a_kill() {
    survives_kills("kill::what_was_handed_to_the_system_survives_a_kill", "os").await;
}
