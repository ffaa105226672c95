//! Asking the store under test: its verbs, with the answers that a case takes for granted.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;

use crate::store::{Filter, Insert, Swap, Swept};
use crate::testing::records;
use crate::{Fence, Record, SlotId, Store, Timestamp};

/// How often a case looks whether something has come about that has to, a millisecond apart.
const LOOKS: usize = 20_000;

/// How many pages or steps are too many for the few hundred records of a case.
const STEPS: usize = 10_000;

/// How many tasks race in a case about races.
pub(super) const RACERS: usize = 64;

/// Why a case may take an answer for granted: the suite makes no store fail.
pub(super) const ANSWERS: &str = "the store answers";

/// Puts `record` into an empty slot, and returns its stamp.
pub(super) async fn put(store: &Arc<dyn Store>, slot: SlotId, record: &Record) -> Timestamp {
    let insert = store.insert(slot, record, Timestamp::NEVER);
    let reply = insert.await.expect(ANSWERS);
    assert_eq!(reply.value, Insert::Done, "the slot is empty");
    reply.now
}

/// Replaces the record with the fence `seen`, which may be an answer, and returns the new one's
/// stamp.
pub(super) async fn swap(
    store: &Arc<dyn Store>,
    slot: SlotId,
    seen: Fence,
    record: &Record,
) -> Timestamp {
    forget(store, slot, seen.max(record.fence)).await;
    let replace = store.replace(slot, seen, record, Timestamp::NEVER);
    let reply = replace.await.expect(ANSWERS);
    assert_eq!(reply.value, Swap::Done, "the fence is the one in the slot");
    reply.now
}

/// Removes the record with the fence `seen`, which may be an answer.
pub(super) async fn clear(store: &Arc<dyn Store>, slot: SlotId, seen: Fence) {
    forget(store, slot, seen).await;
    let remove = store.remove(slot, seen, Timestamp::NEVER);
    let reply = remove.await.expect(ANSWERS);
    assert_eq!(reply.value, Swap::Done, "the fence is the one in the slot");
}

/// Has answers up to this fence forgotten: a case takes them away as operators do.
async fn forget(store: &Arc<dyn Store>, slot: SlotId, last: Fence) {
    let before = Fence::from_bits(last.bits().saturating_add(1));
    store.forget(slot, before).await.expect(ANSWERS);
}

/// Returns what is in the slot.
pub(super) async fn look(store: &Arc<dyn Store>, slot: SlotId) -> Option<Arc<Record>> {
    store.get(slot).await.expect(ANSWERS).value
}

/// Returns the record in a slot that has to hold one.
pub(super) async fn found(store: &Arc<dyn Store>, slot: SlotId) -> Arc<Record> {
    let found = look(store, slot).await;
    found.expect("the slot holds a record")
}

/// Asserts that the slot holds `record`, as it was written.
pub(super) async fn holds(store: &Arc<dyn Store>, slot: SlotId, record: &Record) {
    let found = found(store, slot).await;
    assert_same(&found, record);
}

/// Returns the store's time.
pub(super) async fn now(store: &Arc<dyn Store>) -> Timestamp {
    let nowhere = records::slot("nothing is ever put here");
    store.get(nowhere).await.expect(ANSWERS).now
}

/// Waits until the store's clock is past `moment`, and returns its time.
pub(super) async fn past(store: &Arc<dyn Store>, moment: Timestamp) -> Timestamp {
    for _ in 0..LOOKS {
        let now = now(store).await;
        if now > moment {
            return now;
        }
        // Only to spare the store: what counts is its clock.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("the store's clock did not come past {moment:?}");
}

/// Waits until the record in `slot` is past due, and returns it.
pub(super) async fn past_due(store: &Arc<dyn Store>, slot: SlotId) -> Arc<Record> {
    let record = found(store, slot).await;
    past(store, record.due()).await;
    record
}

/// Lists everything that passes, page by page, and checks each page on the way.
pub(super) async fn list(
    store: &Arc<dyn Store>,
    filter: &Filter,
    limit: usize,
) -> Vec<(SlotId, Arc<Record>)> {
    let mut all = Vec::new();
    let mut after = None;
    for _ in 0..STEPS {
        let page = store.list(filter, after, limit).await.expect(ANSWERS).value;
        assert!(page.records.len() <= limit, "a page keeps to its limit");
        for (slot, record) in page.records {
            assert!(after < Some(slot), "a list goes by the order of slots");
            after = Some(slot);
            all.push((slot, record));
        }
        let Some(next) = page.next else {
            return all;
        };
        assert!(after <= Some(next), "the next page goes on, not back");
        after = Some(next);
    }
    panic!("the list has no end");
}

/// Sweeps up to now, once.
pub(super) async fn sweep(store: &Arc<dyn Store>, limit: usize) -> Swept {
    let reply = store.sweep(Timestamp::NEVER, limit).await.expect(ANSWERS);
    let swept = reply.value;
    let looked_at = swept.removed + swept.lapsed.len();
    assert!(looked_at <= limit, "a sweep keeps to its limit");
    swept
}

/// Sweeps until nothing more is due, and returns how many records were removed.
pub(super) async fn sweep_all(store: &Arc<dyn Store>, limit: usize) -> usize {
    let mut removed = 0;
    for _ in 0..STEPS {
        let swept = sweep(store, limit).await;
        removed += swept.removed;
        if !swept.more {
            return removed;
        }
        tokio::task::yield_now().await;
    }
    panic!("there is more to sweep for ever");
}

/// Asserts that a record came back as it was written, but for the stamp, which is the store's.
#[track_caller]
pub(super) fn assert_same(found: &Record, put: &Record) {
    let mut put = put.clone();
    put.written = found.written;
    // Not `assert_eq`: a body that came back changed would fill the screen.
    assert!(*found == put, "put {put:?}, found {found:?}");
}

/// Runs the same in many tasks that start together, and returns what each gave.
pub(super) async fn together<T, F>(each: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let gate = Arc::new(Barrier::new(RACERS));
    let race = |racer| {
        let (gate, run) = (Arc::clone(&gate), each(racer));
        tokio::spawn(async move {
            gate.wait().await;
            run.await
        })
    };
    let tasks: Vec<_> = (0..RACERS).map(race).collect();
    let mut results = Vec::with_capacity(RACERS);
    for task in tasks {
        results.push(task.await.expect("the racer ends"));
    }
    results
}
