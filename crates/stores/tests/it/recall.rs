//! Recent answers under everybody's feet.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use onceward::store::{Insert, Swap};
use onceward::testing::{ManualClock, records};
use onceward::{Outcome, Record, State, Store, Timestamp};
use onceward_stores::embedded::{Disk, EmbeddedStore, Room};

use crate::image::scratch;

const ROUNDS: u64 = 3_000;

fn numbered(number: u64) -> Record {
    Record {
        state: State::Completed(Outcome::success(number.to_string())),
        ..records::rewritten(&records::completed(records::LONG))
    }
}

fn number(record: &Record) -> u64 {
    let body = record.outcome().unwrap().body().unwrap();
    str::from_utf8(body).unwrap().parse().unwrap()
}

/// Readers fill the layer from the database while the writer replaces: whoever has seen a number,
/// by whatever way, never sees a smaller one afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_that_was_replaced_is_never_recalled() {
    let folder = scratch();
    let store = EmbeddedStore::at(folder.path()).sync(false).open().unwrap();
    let store = Arc::new(store);
    let slot = records::slot("work");
    let first = numbered(0);
    let inserted = store.insert(slot, &first, Timestamp::NEVER).await.unwrap();
    assert_eq!(inserted.value, Insert::Done);
    let acknowledged = Arc::new(AtomicU64::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let recalled = Arc::new(AtomicU64::new(0));
    let readers: Vec<_> = (0..4)
        .map(|n| {
            let (store, acknowledged) = (store.clone(), acknowledged.clone());
            let (is_over, recalled) = (is_over.clone(), recalled.clone());
            tokio::spawn(async move {
                let mut seen = 0;
                while !is_over.load(Ordering::SeqCst) {
                    let floor = acknowledged.load(Ordering::SeqCst).max(seen);
                    if let Some(reply) = store.recall(slot) {
                        recalled.fetch_add(1, Ordering::SeqCst);
                        seen = number(&reply.value);
                        assert!(seen >= floor, "recalled {seen} after {floor}");
                    }
                    let floor = acknowledged.load(Ordering::SeqCst).max(seen);
                    // By reading and by being refused: both fill the layer.
                    let found = match n % 2 {
                        0 => store.get(slot).await.unwrap().value.unwrap(),
                        _ => match store.insert(slot, &numbered(0), Timestamp::NEVER).await {
                            Ok(reply) => match reply.value {
                                Insert::Taken(found) => found,
                                other => panic!("{other:?}"),
                            },
                            Err(error) => panic!("{error:?}"),
                        },
                    };
                    seen = number(&found);
                    assert!(seen >= floor, "read {seen} after {floor}");
                }
            })
        })
        .collect();
    let mut fence = first.fence;
    for round in 1..=ROUNDS {
        let next = numbered(round);
        let reply = store
            .replace(slot, fence, &next, Timestamp::NEVER)
            .await
            .unwrap();
        assert_eq!(reply.value, Swap::Done);
        acknowledged.store(round, Ordering::SeqCst);
        fence = next.fence;
    }
    is_over.store(true, Ordering::SeqCst);
    for reader in readers {
        reader.await.unwrap();
    }
    assert!(recalled.load(Ordering::SeqCst) > 0);
    assert_eq!(number(&store.recall(slot).unwrap().value), ROUNDS);
}

#[tokio::test]
async fn a_removed_answer_is_not_recalled_nor_read() {
    let folder = scratch();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    let slot = records::slot("work");
    let done = numbered(1);
    store.insert(slot, &done, Timestamp::NEVER).await.unwrap();
    assert!(store.recall(slot).is_some());
    store
        .remove(slot, done.fence, Timestamp::NEVER)
        .await
        .unwrap();
    assert!(store.recall(slot).is_none());
    assert!(store.get(slot).await.unwrap().value.is_none());
}

/// A disk on which a batch is not written until the test says so.
#[derive(Debug)]
struct SlowDisk {
    go: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
    waiting: std::sync::mpsc::Sender<()>,
}

impl Disk for SlowDisk {
    fn room(&self, _: &Path) -> io::Result<Room> {
        let all = u64::MAX;
        Ok(Room { free: all, all })
    }

    fn writing(&self) -> io::Result<()> {
        let _ = self.waiting.send(());
        // A test that failed says nothing any more.
        let _ = self.go.lock().unwrap().recv();
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_to_one_slot_follow_each_other_and_nobody_hears_of_what_is_not_durable() {
    let (go, gate) = std::sync::mpsc::channel();
    let (waiting, is_waiting) = std::sync::mpsc::channel();
    let disk = SlowDisk {
        go: std::sync::Mutex::new(gate),
        waiting,
    };
    let folder = scratch();
    let store = EmbeddedStore::at(folder.path())
        .disk(Arc::new(disk))
        .open()
        .unwrap();
    // Dropped before the store, which would wait for it.
    let go = go;
    let slot = records::slot("work");
    let [claim, one] = [records::claimed(records::LONG), numbered(1)];
    let mut inserted = store.insert(slot, &claim, Timestamp::NEVER);
    let mut shown = store.insert(slot, &claim, Timestamp::NEVER);
    let mut completed = store.replace(slot, claim.fence, &one, Timestamp::NEVER);
    assert!(futures_util::poll!(&mut inserted).is_pending());
    is_waiting.recv().unwrap();
    for pending in [&mut inserted, &mut shown] {
        assert!(futures_util::poll!(pending).is_pending());
    }
    assert!(futures_util::poll!(&mut completed).is_pending());
    assert!(store.get(slot).await.unwrap().value.is_none());
    go.send(()).unwrap();
    assert_eq!(inserted.await.unwrap().value, Insert::Done);
    assert!(futures_util::poll!(&mut completed).is_pending());
    is_waiting.recv().unwrap();
    // The claim is there until its end is durable.
    assert!(futures_util::poll!(&mut shown).is_pending());
    assert!(store.recall(slot).is_none());
    let claimed = store.get(slot).await.unwrap().value.unwrap();
    assert_eq!(claimed.fence, claim.fence);
    go.send(()).unwrap();
    assert_eq!(completed.await.unwrap().value, Swap::Done);
    let Insert::Taken(found) = shown.await.unwrap().value else {
        panic!("the slot was taken");
    };
    assert_eq!(number(&found), 1);
    assert_eq!(number(&store.recall(slot).unwrap().value), 1);
    assert!(is_waiting.try_recv().is_err(), "those were two batches");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_waits_for_the_disk_until_it_is_too_late_changes_nothing() {
    let (go, gate) = std::sync::mpsc::channel();
    let (waiting, is_waiting) = std::sync::mpsc::channel();
    let disk = SlowDisk {
        go: std::sync::Mutex::new(gate),
        waiting,
    };
    let folder = scratch();
    let clock = Arc::new(ManualClock::new());
    let store = EmbeddedStore::at(folder.path())
        .disk(Arc::new(disk))
        .clock(clock.clone())
        .open()
        .unwrap();
    let go = go;
    let [first, late] = ["first", "late"].map(records::slot);
    let claim = records::claimed(records::LONG);
    let mut before = store.insert(first, &claim, Timestamp::NEVER);
    assert!(futures_util::poll!(&mut before).is_pending());
    is_waiting.recv().unwrap();
    let not_after = store.clock().now() + Duration::from_secs(5);
    let mut inserted = store.insert(late, &claim, not_after);
    assert!(futures_util::poll!(&mut inserted).is_pending());
    clock.advance(Duration::from_secs(6));
    go.send(()).unwrap();
    assert_eq!(before.await.unwrap().value, Insert::Done);
    assert_eq!(inserted.await.unwrap().value, Insert::Late);
    assert!(store.get(late).await.unwrap().value.is_none());
    // The slot is nobody's, so the next one gets it.
    let mut again = store.insert(late, &claim, Timestamp::NEVER);
    assert!(futures_util::poll!(&mut again).is_pending());
    is_waiting.recv().unwrap();
    go.send(()).unwrap();
    assert_eq!(again.await.unwrap().value, Insert::Done);
}
