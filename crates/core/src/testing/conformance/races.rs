//! Cases about races: of many writers that saw the same, one wins, and nobody's write is lost.

use std::sync::Arc;

use super::ask::{self, ANSWERS, RACERS, assert_same, together};
use crate::store::{Insert, Swap};
use crate::testing::records::{self, LONG};
use crate::{Record, SlotId, Store, Timestamp};

/// How often the shorter races are run.
const ROUNDS: usize = 8;

/// Of many that claim one slot at once, one gets it, and the others see its record.
pub async fn one_of_many_inserts_wins(store: &Arc<dyn Store>) {
    for round in 0..ROUNDS {
        let slot = records::slot(&format!("raced for {round}"));
        let replies = together(|_| {
            let (store, record) = (Arc::clone(store), records::claimed(LONG));
            async move {
                let insert = store.insert(slot, &record, Timestamp::NEVER);
                let reply = insert.await.expect(ANSWERS).value;
                (record, reply)
            }
        });
        let replies = replies.await;

        let mut winners = replies.iter().filter(|(_, it)| *it == Insert::Done);
        let (winner, _) = winners.next().expect("one gets the slot");
        assert!(winners.next().is_none(), "only one gets the slot");
        let found = ask::found(store, slot).await;
        assert_same(&found, winner);
        for (loser, reply) in &replies {
            let lost = *reply == Insert::Taken(found.clone());
            assert!(lost || loser == winner, "{reply:?}");
        }
    }
}

/// Of many that replace what they saw, one does, and the others see its record.
pub async fn one_of_many_replacements_wins(store: &Arc<dyn Store>) {
    let (slot, mut last) = (records::slot("raced for"), records::claimed(LONG));
    ask::put(store, slot, &last).await;
    for _ in 0..ROUNDS {
        let seen = last.fence;
        let replies = together(|_| {
            let (store, record) = (Arc::clone(store), records::rewritten(&last));
            async move {
                let replace = store.replace(slot, seen, &record, Timestamp::NEVER);
                let reply = replace.await.expect(ANSWERS).value;
                (record, reply)
            }
        });
        let replies = replies.await;

        let mut winners = replies.iter().filter(|(_, it)| *it == Swap::Done);
        let (winner, _) = winners.next().expect("one replaces the record");
        assert!(winners.next().is_none(), "only one replaces the record");
        let found = ask::found(store, slot).await;
        assert_same(&found, winner);
        for (loser, reply) in &replies {
            let lost = *reply == Swap::Moved(Some(found.clone()));
            assert!(lost || loser == winner, "{reply:?}");
        }
        last = winner.clone();
    }
}

/// A record is completed or removed, never both: whoever comes second is told.
pub async fn a_record_is_replaced_or_removed_and_not_both(store: &Arc<dyn Store>) {
    for round in 0..ROUNDS {
        let slot = records::slot(&format!("fought over {round}"));
        let claim = records::claimed(LONG);
        ask::put(store, slot, &claim).await;
        let replies = together(|racer| {
            let (store, seen) = (Arc::clone(store), claim.fence);
            async move {
                let removes = racer % 2 == 0;
                let reply = match removes {
                    true => store.remove(slot, seen, Timestamp::NEVER).await,
                    false => {
                        let outcome = records::completed(LONG);
                        let replace = store.replace(slot, seen, &outcome, Timestamp::NEVER);
                        replace.await
                    }
                };
                (removes, reply.expect(ANSWERS).value)
            }
        });
        let replies = replies.await;

        let mut winners = replies.iter().filter(|(_, it)| *it == Swap::Done);
        let (removes, _) = winners.next().expect("one write happens");
        assert!(winners.next().is_none(), "only one write happens");
        let left = ask::look(store, slot).await;
        assert_eq!(left.is_none(), *removes);
        let lost = replies.iter().filter(|(_, it)| *it != Swap::Done);
        for (_, reply) in lost {
            assert_eq!(*reply, Swap::Moved(left.clone()));
        }
    }
}

/// Writers that read, add one and write back until they succeed count every one of them.
pub async fn no_write_is_lost(store: &Arc<dyn Store>) {
    const EACH: u32 = 16;
    let slot = records::slot("counted");
    ask::put(store, slot, &records::claimed(LONG)).await;
    let counted = together(|racer| {
        let store = Arc::clone(store);
        // A quarter of them: a failed try of each for every write of another is a lot.
        let writes = if racer % 4 == 0 { EACH } else { 0 };
        async move {
            for _ in 0..writes {
                count_one(&store, slot).await;
            }
        }
    });
    counted.await;
    let found = ask::found(store, slot).await;
    assert_eq!(found.attempt, 1 + EACH * RACERS as u32 / 4);
}

/// Whoever reads a slot again sees what it saw, or something later.
pub async fn a_reader_never_sees_a_slot_go_back(store: &Arc<dyn Store>) {
    let slot = records::slot("counted");
    ask::put(store, slot, &records::claimed(LONG)).await;
    let read = together(|racer| {
        let store = Arc::clone(store);
        async move {
            let mut last = ask::found(&store, slot).await;
            for _ in 0..20 {
                if racer % 8 == 0 {
                    count_one(&store, slot).await;
                }
                let next = ask::found(&store, slot).await;
                assert!(last.attempt <= next.attempt && last.written <= next.written);
                last = next;
            }
        }
    });
    read.await;
}

/// Adds one to the attempts of a record, however often others come in between.
async fn count_one(store: &Arc<dyn Store>, slot: SlotId) {
    let mut seen = ask::found(store, slot).await;
    loop {
        let next = Record {
            attempt: seen.attempt + 1,
            ..records::rewritten(&seen)
        };
        let replace = store.replace(slot, seen.fence, &next, Timestamp::NEVER);
        match replace.await.expect(ANSWERS).value {
            Swap::Done => return,
            Swap::Moved(Some(moved)) => seen = moved,
            other => panic!("{other:?}"),
        }
    }
}
