//! Tables and blobs with holes: what is still read, and what a repair saves.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use onceward::clock::{Clock as _, SystemClock};
use onceward::store::{Error, Filter};
use onceward::testing::records;
use onceward::{SlotId, Store as _, Timestamp};
use onceward_stores::embedded::{EmbeddedStore, Loss, repair, repair_dry_run};

use crate::image::{Image, each, present, scratch};

/// How many places of each table are tried.
const PLACES: u64 = 16;
/// Far more than a repair of so few records takes, and far less than one that looks everywhere.
const PATIENCE: Duration = Duration::from_secs(20);

fn flip(file: &Path, at: u64) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at as usize] ^= 0x10;
    fs::write(file, bytes).unwrap();
}

#[tokio::test]
async fn a_store_with_a_flipped_bit_in_any_table_is_repaired_soon() {
    let image = Arc::new(Image::new().await);
    let files = image.files().into_iter();
    let tables = files.filter(|it| it.parent().is_some_and(|it| it.ends_with("tables")));
    let cases = tables.flat_map(|table| {
        let len = fs::metadata(image.path().join(&table)).unwrap().len();
        (0..PLACES).map(move |place| (table.clone(), place * (len - 1) / (PLACES - 1)))
    });
    let cases = Vec::from_iter(cases);
    assert!(!cases.is_empty());
    each(cases, move |(table, at)| {
        let image = Arc::clone(&image);
        async move {
            let damage = format!("byte {at} of {}", table.display());
            let copy = image.copy();
            flip(&copy.path().join(&table), at);
            let begun = SystemClock.monotonic();
            let repaired = repair(copy.path()).unwrap_or_else(|it| panic!("{damage}: {it:?}"));
            let took = SystemClock.monotonic() - begun;
            assert!(took < PATIENCE, "{damage}: {repaired:?}");
            let store = EmbeddedStore::open(copy.path()).unwrap();
            if present(&store, &image.acknowledged).await < image.acknowledged.len() {
                assert_ne!(repaired.loss(), Loss::Nothing, "{damage}: {repaired:?}");
            }
            fs::remove_dir_all(repaired.original.unwrap()).unwrap();
        }
    });
}

#[tokio::test]
async fn bad_blocks_cost_little_more_than_what_is_in_them() {
    const RECORDS: usize = 4000;
    let folder = scratch();
    let options = EmbeddedStore::at(folder.path()).sync(false);
    let store = options.journal(256 << 10).open().unwrap();
    for n in 0..RECORDS {
        let slot = records::slot(&n.to_string());
        let done = records::completed(records::LONG);
        store.insert(slot, &done, Timestamp::NEVER).await.unwrap();
    }
    drop(store);
    let tables = fs::read_dir(folder.path().join("data/keyspaces/1/tables")).unwrap();
    let tables = tables.map(|it| it.unwrap().path());
    let table = tables
        .max_by_key(|it| it.metadata().unwrap().len())
        .unwrap();
    let len = table.metadata().unwrap().len();
    // Two of them, with sound ones between.
    flip(&table, len / 5);
    flip(&table, len / 2);
    let repaired = repair(folder.path()).unwrap();
    assert_eq!(repaired.loss(), Loss::Certain, "{repaired:?}");
    assert!(repaired.unreadable > 0, "{repaired:?}");
    assert!(repaired.records as usize > RECORDS * 3 / 4, "{repaired:?}");
    fs::remove_dir_all(repaired.original.unwrap()).unwrap();
}

#[tokio::test]
async fn a_list_goes_on_behind_a_record_that_cannot_be_read() {
    let image = Image::new().await;
    let copy = image.copy();
    let blobs = fs::read_dir(copy.path().join("data/keyspaces/1/blobs")).unwrap();
    let blob = blobs.map(|it| it.unwrap().path()).min().unwrap();
    flip(&blob, 300);
    let store = EmbeddedStore::open(copy.path()).unwrap();
    let (mut listed, mut rotten, mut after) = (0, Vec::new(), None);
    loop {
        match store.list(&Filter::default(), after, 1000).await {
            Ok(page) => {
                listed += page.value.records.len();
                match page.value.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
            Err(Error::Unreadable { slot, .. }) => {
                assert!(Some(slot) > after, "a list that stands still");
                rotten.push(slot);
                after = Some(slot);
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(rotten.len(), 1);
    assert_eq!(listed + 1, image.acknowledged.len());
}

#[tokio::test]
async fn a_record_that_the_database_panics_over_does_not_end_a_repair() {
    /// Where the first blob says how long it would be if it were not compressed. No sum covers
    /// that, and a database with its own assertions on panics.
    const PLAIN_LENGTH: u64 = 4 + 16 + 8 + 2;

    let image = Image::new().await;
    let copy = image.copy();
    let blobs = fs::read_dir(copy.path().join("data/keyspaces/1/blobs")).unwrap();
    let blob = blobs.map(|it| it.unwrap().path()).min().unwrap();
    flip(&blob, PLAIN_LENGTH);
    let repaired = repair(copy.path()).unwrap();
    let found = repaired.records as usize + repaired.dropped.len();
    assert_eq!(found, image.acknowledged.len(), "{repaired:?}");
    fs::remove_dir_all(repaired.original.unwrap()).unwrap();
}

#[tokio::test]
async fn a_page_without_room_has_one_record() {
    let folder = scratch();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    let done = records::completed(records::LONG);
    for name in ["a", "b"] {
        let slot = records::slot(name);
        store.insert(slot, &done, Timestamp::NEVER).await.unwrap();
    }
    let page = store.list(&Filter::default(), None, 0).await.unwrap().value;
    assert_eq!((page.records.len(), page.next.is_some()), (1, true));
}

#[tokio::test]
async fn a_repair_says_whether_the_secret_was_kept() {
    let folder = scratch();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    let secret = records::completed(records::LONG);
    let kept = store.insert(SlotId::RESERVED, &secret, Timestamp::NEVER);
    kept.await.unwrap();
    drop(store);
    let found = repair_dry_run(folder.path()).unwrap();
    assert!(found.secret_kept, "{found:?}");
}
