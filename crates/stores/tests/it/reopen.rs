//! What a store holds when it is opened again.

use std::sync::Arc;
use std::time::Duration;

use onceward::record::Reason;
use onceward::store::{Filter, Insert, Swap};
use onceward::testing::{ManualClock, records};
use onceward::{Fence, Outcome, Record, State, Store, Timestamp};
use onceward_stores::embedded::EmbeddedStore;

use crate::image::{all, scratch};

#[tokio::test]
async fn everything_is_there_after_a_clean_close() {
    let folder = scratch();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    for (n, record) in records::of_every_state().iter().enumerate() {
        let slot = records::slot(&n.to_string());
        store.insert(slot, record, Timestamp::NEVER).await.unwrap();
    }
    let mut before = all(&store).await;
    store.close();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    let mut after = all(&store).await;
    let claimed = records::slot("0");
    assert!(matches!(
        before.remove(&claimed).unwrap().state,
        State::Claimed(_)
    ));
    assert!(matches!(
        after.remove(&claimed).unwrap().state,
        State::Unknown(_)
    ));
    assert_eq!(before, after);
}

#[tokio::test]
async fn a_claim_of_an_earlier_run_is_unknown_and_its_holder_may_still_complete_it() {
    let folder = scratch();
    let slot = records::slot("work");
    let claim = records::claimed(records::LONG);
    let store = EmbeddedStore::open(folder.path()).unwrap();
    store.insert(slot, &claim, Timestamp::NEVER).await.unwrap();
    drop(store);

    let store = EmbeddedStore::open(folder.path()).unwrap();
    let found = store.get(slot).await.unwrap().value.unwrap();
    assert_eq!(found.state, State::Unknown(Reason::RESTARTED));
    assert_eq!(
        (found.mark, found.generation),
        (claim.mark, claim.generation)
    );
    assert!(found.fence > claim.fence);

    let done = Record {
        state: State::Completed(Outcome::success("late")),
        fence: Fence::mint(Some(found.fence), found.written),
        ..(*found).clone()
    };
    let stale = store
        .replace(slot, claim.fence, &done, Timestamp::NEVER)
        .await
        .unwrap();
    assert!(matches!(stale.value, Swap::Moved(Some(_))));
    let healed = store
        .replace(slot, found.fence, &done, Timestamp::NEVER)
        .await
        .unwrap();
    assert_eq!(healed.value, Swap::Done);
}

#[tokio::test]
async fn claims_are_found_among_many_records_that_are_not() {
    let folder = scratch();
    let store = EmbeddedStore::at(folder.path())
        .sync(false)
        .journal(64 << 10)
        .open()
        .unwrap();
    let mut held = Vec::new();
    for n in 0..2000 {
        let slot = records::slot(&n.to_string());
        let claim = records::claimed(records::LONG);
        store.insert(slot, &claim, Timestamp::NEVER).await.unwrap();
        if n % 100 == 0 {
            held.push(slot);
            continue;
        }
        let done = records::rewritten(&records::completed(records::LONG));
        store
            .replace(slot, claim.fence, &done, Timestamp::NEVER)
            .await
            .unwrap();
    }
    // Renewed, so that its entry moves.
    let found = store.get(held[0]).await.unwrap().value.unwrap();
    let renewed = records::rewritten(&found);
    store
        .replace(held[0], found.fence, &renewed, Timestamp::NEVER)
        .await
        .unwrap();
    drop(store);

    let store = EmbeddedStore::open(folder.path()).unwrap();
    let unknown = Filter {
        state: Some(onceward::record::StateName::Unknown),
        ..Filter::default()
    };
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = store.list(&unknown, after, 1000).await.unwrap().value;
        found.extend(page.records.into_iter().map(|(slot, _)| slot));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    held.sort_unstable();
    assert_eq!(found, held);
}

/// More than are dealt with in one batch, and many on one list. Their callers are so many that a
/// courier answers them.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn claims_that_were_made_together_are_found_again_but_for_those_that_ended() {
    let folder = scratch();
    let store = Arc::new(EmbeddedStore::at(folder.path()).sync(false).open().unwrap());
    let callers = (0..1_500).map(|n| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let slot = records::slot(&n.to_string());
            let claim = records::claimed(records::LONG);
            let inserted = store.insert(slot, &claim, Timestamp::NEVER).await.unwrap();
            assert_eq!(inserted.value, Insert::Done);
            let next = match n % 10 {
                0 => records::rewritten(&records::completed(records::LONG)),
                1 => records::rewritten(&claim),
                _ => return Some(slot),
            };
            let replaced = store.replace(slot, claim.fence, &next, Timestamp::NEVER);
            assert_eq!(replaced.await.unwrap().value, Swap::Done);
            (n % 10 == 1).then_some(slot)
        })
    });
    let mut held = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        held.extend(caller.await.unwrap());
    }
    store.close();

    for run in 1..=2 {
        let store = EmbeddedStore::open(folder.path()).unwrap();
        let records = all(&store).await;
        let states = records
            .iter()
            .filter_map(|(slot, record)| match record.state {
                State::Unknown(_) => Some(*slot),
                _ => None,
            });
        let mut found: Vec<_> = states.collect();
        found.sort_unstable();
        held.sort_unstable();
        assert_eq!(found, held, "in run {run}");
        store.close();
    }
}

#[tokio::test]
async fn the_clock_goes_on_where_it_was_even_if_the_machine_s_was_set_back() {
    let folder = scratch();
    let slot = records::slot("work");
    let clock = Arc::new(ManualClock::new());
    let store = EmbeddedStore::at(folder.path())
        .clock(clock.clone())
        .open()
        .unwrap();
    let first = records::unknown(None);
    let written = store
        .insert(slot, &first, Timestamp::NEVER)
        .await
        .unwrap()
        .now;
    drop(store);

    clock.step_back(Duration::from_secs(86_400));
    let store = EmbeddedStore::at(folder.path())
        .clock(clock)
        .open()
        .unwrap();
    let now = store.get(slot).await.unwrap().now;
    assert!(now >= written, "{now:?} is before {written:?}");
}

#[tokio::test]
async fn what_expired_meanwhile_is_swept_and_what_did_not_stays() {
    let folder = scratch();
    let clock = Arc::new(ManualClock::new());
    let open = || {
        EmbeddedStore::at(folder.path())
            .clock(clock.clone())
            .open()
            .unwrap()
    };
    let (short, long) = (records::slot("short"), records::slot("long"));
    let store = open();
    let minute = records::completed(Duration::from_secs(60));
    store
        .insert(short, &minute, Timestamp::NEVER)
        .await
        .unwrap();
    let hour = records::completed(records::LONG);
    store.insert(long, &hour, Timestamp::NEVER).await.unwrap();
    assert_eq!(
        store
            .sweep(Timestamp::NEVER, 10)
            .await
            .unwrap()
            .value
            .removed,
        0
    );
    drop(store);

    clock.advance(Duration::from_secs(61));
    let store = open();
    assert_eq!(
        store
            .sweep(Timestamp::NEVER, 10)
            .await
            .unwrap()
            .value
            .removed,
        1
    );
    assert!(store.get(short).await.unwrap().value.is_none());
    assert!(store.get(long).await.unwrap().value.is_some());
    drop(store);

    // The cursor is kept, and is no further than it should be.
    clock.advance(records::LONG);
    let store = open();
    assert_eq!(
        store
            .sweep(Timestamp::NEVER, 10)
            .await
            .unwrap()
            .value
            .removed,
        1
    );
    assert!(store.get(long).await.unwrap().value.is_none());
}

#[tokio::test]
async fn a_record_larger_than_a_batch_may_be_is_written_all_the_same() {
    let folder = scratch();
    let slot = records::slot("large");
    let large = Record {
        state: State::Completed(Outcome::success(records::bytes(9 << 20))),
        ..records::completed(records::LONG)
    };
    let store = EmbeddedStore::open(folder.path()).unwrap();
    let reply = store.insert(slot, &large, Timestamp::NEVER).await.unwrap();
    assert_eq!(reply.value, Insert::Done);
    drop(store);
    let store = EmbeddedStore::open(folder.path()).unwrap();
    let found = store.get(slot).await.unwrap().value.unwrap();
    assert_eq!(*found, large.stamped(reply.now));
}

#[tokio::test]
async fn a_closed_store_answers_with_errors_and_frees_its_folder() {
    let folder = scratch();
    let slot = records::slot("work");
    let store = EmbeddedStore::open(folder.path()).unwrap();
    let done = records::completed(records::LONG);
    store.insert(slot, &done, Timestamp::NEVER).await.unwrap();
    store.close();
    assert!(store.get(slot).await.is_err());
    assert!(store.insert(slot, &done, Timestamp::NEVER).await.is_err());
    assert!(store.sweep(Timestamp::NEVER, 1).await.is_err());
    assert!(store.recall(slot).is_none());
    EmbeddedStore::open(folder.path()).unwrap();
}
