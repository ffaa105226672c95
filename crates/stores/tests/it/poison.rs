//! A disk that fails once, and a store that goes on.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onceward::store::{Error, Insert};
use onceward::testing::{ManualClock, records};
use onceward::{State, Store, Timestamp};
use onceward_stores::embedded::{Disk, EmbeddedStore, Room};

use crate::image::{Acknowledged, all, put, scratch};

/// A disk that fails when it is told to.
#[derive(Debug, Default)]
struct BadDisk {
    before: AtomicBool,
    after: AtomicBool,
}

impl Disk for BadDisk {
    fn room(&self, _: &Path) -> io::Result<Room> {
        let all = u64::MAX;
        Ok(Room { free: all, all })
    }

    fn writing(&self) -> io::Result<()> {
        fail_if(&self.before)
    }

    fn written(&self) -> io::Result<()> {
        fail_if(&self.after)
    }
}

fn fail_if(told: &AtomicBool) -> io::Result<()> {
    match told.swap(false, Ordering::SeqCst) {
        true => Err(io::Error::other("the disk failed")),
        false => Ok(()),
    }
}

/// Asks until the store is open again.
async fn put_again(store: &EmbeddedStore, name: &str) -> Insert {
    let again = tokio::time::timeout(Duration::from_secs(60), put_until_it_is(store, name));
    again.await.expect("the store is open again")
}

async fn put_until_it_is(store: &EmbeddedStore, name: &str) -> Insert {
    let record = records::completed(records::LONG);
    loop {
        match store
            .insert(records::slot(name), &record, Timestamp::NEVER)
            .await
        {
            Ok(reply) => return reply.value,
            Err(Error::Unavailable { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[tokio::test]
async fn a_failed_batch_is_answered_with_an_error_and_everything_acknowledged_stays() {
    let folder = scratch();
    let disk = Arc::new(BadDisk::default());
    let store = EmbeddedStore::at(folder.path())
        .disk(disk.clone())
        .open()
        .unwrap();
    let mut acknowledged = Acknowledged::new();
    for n in 0..20 {
        put(&store, &mut acknowledged, n).await;
    }
    let lost = records::completed(records::LONG);
    for (told, name, was_written) in [(&disk.before, "a", false), (&disk.after, "b", true)] {
        told.store(true, Ordering::SeqCst);
        let slot = records::slot(name);
        let failed = store
            .insert(slot, &lost, Timestamp::NEVER)
            .await
            .unwrap_err();
        assert!(matches!(failed, Error::Unavailable { .. }), "{failed:?}");
        assert_eq!(
            put_again(&store, &format!("after {name}")).await,
            Insert::Done
        );
        let found = store.get(slot).await.unwrap().value;
        assert_eq!(found.is_some(), was_written, "as a whole or not at all");
    }
    let found = all(&store).await;
    for (slot, record) in &acknowledged {
        // Claims stay claims: their holders live in this process.
        assert_eq!(found.get(slot), Some(record));
    }
    store.close();
    EmbeddedStore::open(folder.path()).unwrap();
}

#[tokio::test]
async fn a_claim_is_still_swept_after_the_store_was_opened_again_under_it() {
    let folder = scratch();
    let disk = Arc::new(BadDisk::default());
    let clock = Arc::new(ManualClock::new());
    let store = EmbeddedStore::at(folder.path())
        .clock(clock.clone())
        .disk(disk.clone())
        .open()
        .unwrap();
    let slot = records::slot("held");
    let claim = records::claimed(records::LONG);
    store.insert(slot, &claim, Timestamp::NEVER).await.unwrap();
    disk.before.store(true, Ordering::SeqCst);
    assert_eq!(put_again(&store, "next").await, Insert::Done);
    clock.advance(records::LONG + records::SHORT);
    let lapsed = store
        .sweep(Timestamp::NEVER, 10)
        .await
        .unwrap()
        .value
        .lapsed;
    assert_eq!(lapsed.len(), 1);
    assert_eq!(lapsed[0].0, slot);
    assert!(matches!(lapsed[0].1.state, State::Claimed(_)));
}

/// A disk that takes its time to say that it wrote, and then says that it failed.
#[derive(Debug)]
struct SlowBadDisk {
    clock: Arc<ManualClock>,
    bad: BadDisk,
}

impl Disk for SlowBadDisk {
    fn room(&self, path: &Path) -> io::Result<Room> {
        self.bad.room(path)
    }

    fn written(&self) -> io::Result<()> {
        let failed = self.bad.written();
        if failed.is_err() {
            self.clock.advance(Duration::from_secs(5));
        }
        failed
    }
}

#[tokio::test]
async fn a_lone_claim_of_the_batch_that_failed_is_swept_as_well() {
    let folder = scratch();
    let clock = Arc::new(ManualClock::new());
    let disk = Arc::new(SlowBadDisk {
        clock: Arc::clone(&clock),
        bad: BadDisk::default(),
    });
    let store = EmbeddedStore::at(folder.path())
        .clock(clock.clone())
        .disk(disk.clone())
        .open()
        .unwrap();
    let slot = records::slot("held");
    let claim = records::claimed(records::LONG);
    disk.bad.after.store(true, Ordering::SeqCst);
    let failed = store.insert(slot, &claim, Timestamp::NEVER).await;
    assert!(
        matches!(failed, Err(Error::Unavailable { .. })),
        "{failed:?}"
    );
    assert_eq!(put_again(&store, "next").await, Insert::Done);
    clock.advance(records::LONG + records::SHORT);
    let swept = store.sweep(Timestamp::NEVER, 10).await.unwrap().value;
    let lapsed = Vec::from_iter(swept.lapsed.iter().map(|(slot, _)| *slot));
    assert_eq!(lapsed, [slot]);
    // Nor is it forgotten when the store is opened the next time.
    store.close();
    let store = EmbeddedStore::at(folder.path())
        .clock(clock)
        .open()
        .unwrap();
    let found = store.get(slot).await.unwrap().value.unwrap();
    assert!(matches!(found.state, State::Unknown(_)), "{found:?}");
}

#[tokio::test]
async fn a_database_whose_worker_died_is_opened_again_once_that_is_possible() {
    let folder = scratch();
    let store = EmbeddedStore::at(folder.path())
        .journal(4 << 10)
        .open()
        .unwrap();
    let mut acknowledged = Acknowledged::new();
    put(&store, &mut acknowledged, 0).await;
    // Without this folder the next table cannot be written, and its writer dies.
    let tables = folder.path().join("data/keyspaces/1/tables");
    let away = folder.path().join("data/keyspaces/1/away");
    fs::rename(&tables, &away).unwrap();
    let record = records::completed(records::LONG);
    let mut n = 0;
    let failed = loop {
        n += 1;
        let slot = records::slot(&format!("more {n}"));
        match store.insert(slot, &record, Timestamp::NEVER).await {
            Ok(reply) => drop(acknowledged.insert(slot, record.stamped(reply.now))),
            Err(failed) => break failed,
        }
    };
    assert!(matches!(failed, Error::Unavailable { .. }), "{failed:?}");
    let read = store.get(records::slot("0")).await;
    assert!(
        matches!(read, Ok(_) | Err(Error::Unavailable { .. })),
        "{read:?}"
    );
    // It may have been made anew meanwhile, and be in use: then there is nothing to bring back.
    let _ = fs::rename(&away, &tables);
    assert_eq!(put_again(&store, "back").await, Insert::Done);
    let found = all(&store).await;
    for (slot, record) in &acknowledged {
        assert_eq!(found.get(slot), Some(record));
    }
}
