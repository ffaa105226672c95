//! A disk that is nearly full.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onceward::store::{Error, Insert, Swap};
use onceward::testing::{ManualClock, records};
use onceward::{Record, Store, Timestamp};
use onceward_stores::embedded::{Disk, EmbeddedStore, Room};

use crate::image::scratch;

/// A disk with as much room as a test says.
#[derive(Debug)]
struct SmallDisk {
    free: AtomicU64,
}

impl Disk for SmallDisk {
    fn room(&self, _: &Path) -> io::Result<Room> {
        let free = self.free.load(Ordering::Relaxed);
        Ok(Room { free, all: 1 << 30 })
    }
}

#[tokio::test]
async fn a_disk_that_is_nearly_full_takes_no_new_claims_but_ends_old_ones() {
    let folder = scratch();
    let clock = Arc::new(ManualClock::new());
    let free = AtomicU64::new(1 << 30);
    let disk = Arc::new(SmallDisk { free });
    let store = EmbeddedStore::at(folder.path())
        .clock(clock.clone())
        .disk(disk.clone())
        .open()
        .unwrap();
    let [held, next] = ["held", "next"].map(records::slot);
    let claim = records::claimed(records::LONG);
    store.insert(held, &claim, Timestamp::NEVER).await.unwrap();

    // The default for a disk of this size is 128 MiB. It is looked at once a second.
    disk.free.store((128 << 20) - 1, Ordering::Relaxed);
    clock.advance(Duration::from_secs(1));
    let new = records::claimed(records::LONG);
    let refused = store
        .insert(next, &new, Timestamp::NEVER)
        .await
        .unwrap_err();
    assert!(matches!(refused, Error::Full { .. }), "{refused:?}");
    assert!(store.get(next).await.unwrap().value.is_none());
    let taken = store.insert(held, &new, Timestamp::NEVER).await.unwrap();
    assert!(
        matches!(taken.value, Insert::Taken(_)),
        "a duplicate is still told"
    );

    let renewed = records::rewritten(&claim);
    let reply = store
        .replace(held, claim.fence, &renewed, Timestamp::NEVER)
        .await
        .unwrap();
    assert_eq!(reply.value, Swap::Done, "a holder may renew");
    let done = Record {
        mark: claim.mark,
        ..records::rewritten(&records::completed(records::LONG))
    };
    let reply = store
        .replace(held, renewed.fence, &done, Timestamp::NEVER)
        .await
        .unwrap();
    assert_eq!(reply.value, Swap::Done, "and complete");
    let again = records::claimed(records::LONG);
    let refused = store
        .replace(held, done.fence, &again, Timestamp::NEVER)
        .await
        .unwrap_err();
    assert!(
        matches!(refused, Error::Full { .. }),
        "a claim over an old record is a new one"
    );

    disk.free.store(128 << 20, Ordering::Relaxed);
    let reply = store.insert(next, &new, Timestamp::NEVER).await.unwrap();
    assert_eq!(reply.value, Insert::Done, "it recovers by itself");
}

#[tokio::test]
async fn the_reserve_can_be_set() {
    let folder = scratch();
    let store = EmbeddedStore::at(folder.path())
        .reserve(u64::MAX)
        .open()
        .unwrap();
    let claim = records::claimed(records::LONG);
    let refused = store
        .insert(records::slot("new"), &claim, Timestamp::NEVER)
        .await;
    assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
}
