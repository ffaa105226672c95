//! A rolling upgrade: records of two versions side by side.

use std::time::Duration;

use onceward::store::{Error, Filter, Insert, Swap};
use onceward::testing::records;
use onceward::{SlotId, Store as _, Timestamp, codec};
use onceward_rig::postgres::{Scratch, scratch};
use onceward_stores::postgres::PostgresStore;

use crate::shared::open;

const HOUR: Duration = Duration::from_secs(3600);

/// Writes a record as a newer version would, over the one in the slot.
async fn renew(scratch: &Scratch, slot: SlotId, store: &PostgresStore) {
    let record = records::completed(HOUR);
    store.insert(slot, &record, Timestamp::NEVER).await.unwrap();
    let mut bytes = codec::encode(&record);
    bytes[0] = 99;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!(
        "UPDATE {}.records SET record = '\\x{hex}' WHERE fence = '{:032x}'",
        scratch.schema(),
        record.fence.bits()
    );
    scratch.sql(&text).await;
}

#[tokio::test]
async fn a_record_of_a_newer_version_is_unreadable_and_never_absent() {
    let (url, scratch) = scratch().await;
    let store = open(&url);
    let newer = records::slot("newer");
    renew(&scratch, newer, &store).await;
    let unreadable = |error: Error| match error {
        Error::Unreadable { slot, .. } => assert_eq!(slot, newer),
        other => panic!("{other}"),
    };
    unreadable(store.get(newer).await.unwrap_err());
    let mine = records::claimed(HOUR);
    let insert = store.insert(newer, &mine, Timestamp::NEVER).await;
    unreadable(insert.unwrap_err());
    let replace = store
        .replace(newer, records::fence(), &mine, Timestamp::NEVER)
        .await;
    unreadable(replace.unwrap_err());
    let remove = store
        .remove(newer, records::fence(), Timestamp::NEVER)
        .await;
    unreadable(remove.unwrap_err());
    let kept = format!("SELECT count(*) FROM {}.records", scratch.schema());
    assert_eq!(scratch.value(&kept).await, "1");
}

#[tokio::test]
async fn the_rest_of_a_batch_goes_on_beside_it() {
    let (url, scratch) = scratch().await;
    let store = open(&format!("{url}&connections=1"));
    let newer = records::slot("newer");
    renew(&scratch, newer, &store).await;
    let asked = (0..40).map(|number| {
        let (store, number) = (&store, number);
        async move {
            let id = match number {
                20 => newer,
                _ => records::slot(&format!("k{number}")),
            };
            let record = records::claimed(HOUR);
            let inserted = store.insert(id, &record, Timestamp::NEVER).await;
            let read = store.get(id).await;
            (number, inserted, read)
        }
    });
    for (number, inserted, read) in futures_util::future::join_all(asked).await {
        match number {
            20 => assert!(inserted.is_err() && read.is_err(), "{inserted:?}"),
            _ => {
                assert_eq!(inserted.unwrap().value, Insert::Done);
                assert!(read.unwrap().value.is_some());
            }
        }
    }
}

#[tokio::test]
async fn a_newer_version_can_take_over_what_an_older_one_wrote() {
    let (url, scratch) = scratch().await;
    let (old, new) = (open(&url), open(&url));
    let (slot, first) = (records::slot("rolling"), records::claimed(HOUR));
    old.insert(slot, &first, Timestamp::NEVER).await.unwrap();
    let done = records::completed(HOUR);
    let replaced = new
        .replace(slot, first.fence, &done, Timestamp::NEVER)
        .await;
    assert_eq!(replaced.unwrap().value, Swap::Done);
    let read = old.get(slot).await.unwrap().value.unwrap();
    assert_eq!(read.fence, done.fence);
    drop(scratch);
}

#[tokio::test]
async fn a_list_does_not_pass_over_what_it_cannot_read() {
    let (url, scratch) = scratch().await;
    let store = open(&url);
    renew(&scratch, records::slot("newer"), &store).await;
    let listed = store.list(&Filter::default(), None, 10).await;
    assert!(
        matches!(listed, Err(Error::Unreadable { .. })),
        "{listed:?}"
    );
}
