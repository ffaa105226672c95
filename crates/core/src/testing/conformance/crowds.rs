//! Cases about crowds: many at work in one store at once do not get in each other's way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ask::{self, ANSWERS, RACERS, assert_same, together};
use crate::store::{Filter, Swap};
use crate::testing::records::{self, LONG, SHORT};
use crate::{Fence, Record, SlotId, Store, Timestamp};

/// How many slots each of a crowd works on.
const EACH: usize = 8;

/// Of this many one sweeps, where others write: about as many records are then kept as are gone.
const SWEEPERS: usize = 16;

/// A record that expires soon, as it was put.
struct ShortLived {
    slot: SlotId,
    fence: Fence,
    due: Timestamp,
}

/// Those who share a store see each other's writes at once.
pub async fn clones_share_their_records(store: &Arc<dyn Store>) {
    let (other, slot) = (Arc::clone(store), records::slot("k"));
    let record = records::claimed(LONG);
    ask::put(store, slot, &record).await;
    let reader = tokio::spawn(async move { ask::found(&other, slot).await });
    let found = reader.await.expect("the reader ends");
    assert_same(&found, &record);
}

/// Writes to many slots at once all land, each in its own.
pub async fn many_slots_at_once_all_land(store: &Arc<dyn Store>) {
    let name = |racer: usize, at: usize| records::slot(&format!("parallel {racer} {at}"));
    let put = together(|racer| {
        let store = Arc::clone(store);
        async move {
            let mut put = Vec::new();
            for at in 0..EACH {
                let (slot, claim) = (name(racer, at), records::claimed(LONG));
                let outcome = records::completed(LONG);
                ask::put(&store, slot, &claim).await;
                ask::swap(&store, slot, claim.fence, &outcome).await;
                put.push((slot, outcome));
            }
            put
        }
    });
    let mut put: Vec<_> = put.await.into_iter().flatten().collect();
    put.sort_unstable_by_key(|(slot, _)| *slot);

    let listed = ask::list(store, &Filter::default(), 100).await;
    assert_eq!(listed.len(), put.len());
    for ((slot, record), (its_slot, found)) in put.iter().zip(&listed) {
        assert_eq!(slot, its_slot);
        assert_same(found, record);
    }
}

/// A record that stays is listed once, whatever comes and goes around it.
pub async fn what_stays_is_listed_once_while_others_come_and_go(store: &Arc<dyn Store>) {
    let stays = |at: usize| records::slot(&format!("stays {at}"));
    for at in 0..30 {
        ask::put(store, stays(at), &records::completed(LONG)).await;
    }
    let run = together(|racer| {
        let store = Arc::clone(store);
        async move {
            if racer % 8 != 0 {
                for at in 0..20 {
                    let slot = records::slot(&format!("comes and goes {racer} {at}"));
                    let claim = records::claimed(LONG);
                    ask::put(&store, slot, &claim).await;
                    ask::clear(&store, slot, claim.fence).await;
                }
                return;
            }
            // The order of the list, which `ask::list` checks, rules out that one comes twice.
            let listed = ask::list(&store, &Filter::default(), 7).await;
            for at in 0..30 {
                let listed = listed.iter().any(|(slot, _)| *slot == stays(at));
                assert!(listed, "a record that stays is listed");
            }
        }
    });
    run.await;
}

/// No reply tells a time before that of a reply which somebody else had already got.
pub async fn all_see_one_clock(store: &Arc<dyn Store>) {
    let latest = Arc::new(AtomicU64::new(0));
    let asked = together(|racer| {
        let (store, latest) = (Arc::clone(store), Arc::clone(&latest));
        async move {
            let slot = records::slot(&format!("timed {racer}"));
            let mut last = records::claimed(LONG);
            ask::put(&store, slot, &last).await;
            for _ in 0..20 {
                let floor = latest.load(Ordering::SeqCst);
                let next = records::rewritten(&last);
                let now = ask::swap(&store, slot, last.fence, &next).await;
                assert!(floor <= now.as_micros(), "{now:?}");
                latest.fetch_max(now.as_micros(), Ordering::SeqCst);
                last = next;
            }
        }
    });
    asked.await;
}

/// A record that is given more time while it is being swept is kept, or was gone before.
pub async fn a_sweep_never_removes_what_was_just_kept(store: &Arc<dyn Store>) {
    for round in 0..EACH {
        let put = together(|racer| {
            let store = Arc::clone(store);
            async move { put_short_lived(&store, round * RACERS + racer).await }
        });
        let put = Arc::new(put.await);
        let last = put.iter().flatten().map(|it| it.due).max();
        ask::past(store, last.expect("records were put")).await;
        fight_over(store, &put).await;
    }
}

/// Lets sweepers and writers loose on records that are all due, so that each goes to whoever
/// comes first.
async fn fight_over(store: &Arc<dyn Store>, due: &Arc<Vec<Vec<ShortLived>>>) {
    let ends = together(|racer| {
        let (store, due) = (Arc::clone(store), Arc::clone(due));
        async move {
            match racer % SWEEPERS {
                0 => (ask::sweep_all(&store, 5).await, Vec::new()),
                _ => (0, extend(&store, &due[racer]).await),
            }
        }
    });
    let ends = ends.await;

    let mut removed = ask::sweep_all(store, 100).await;
    let mut gone: usize = due.iter().step_by(SWEEPERS).map(Vec::len).sum();
    for (swept, extended) in ends {
        removed += swept;
        for (slot, kept) in extended {
            match kept {
                Some(record) => ask::holds(store, slot, &record).await,
                None => {
                    assert_eq!(ask::look(store, slot).await, None);
                    gone += 1;
                }
            }
        }
    }
    assert_eq!(removed, gone, "as many are gone as were removed");
}

/// Puts records that expire soon.
async fn put_short_lived(store: &Arc<dyn Store>, name: usize) -> Vec<ShortLived> {
    let mut put = Vec::new();
    for at in 0..EACH {
        let slot = records::slot(&format!("fought over {name} {at}"));
        let record = records::completed(SHORT);
        let stamp = ask::put(store, slot, &record).await;
        put.push(ShortLived {
            slot,
            fence: record.fence,
            due: stamp + SHORT,
        });
    }
    put
}

/// Gives each record more time, and returns the records that were kept, `None` for the others.
async fn extend(store: &Arc<dyn Store>, expired: &[ShortLived]) -> Vec<(SlotId, Option<Record>)> {
    let mut slots = Vec::new();
    for ShortLived { slot, fence, .. } in expired {
        // Between any two writes others get their turn, even where a store never waits.
        tokio::task::yield_now().await;
        let kept = records::completed(LONG);
        let replace = store.replace(*slot, *fence, &kept, Timestamp::NEVER);
        match replace.await.expect(ANSWERS).value {
            Swap::Done => slots.push((*slot, Some(kept))),
            Swap::Moved(None) => slots.push((*slot, None)),
            other => panic!("{other:?}"),
        }
    }
    slots
}
