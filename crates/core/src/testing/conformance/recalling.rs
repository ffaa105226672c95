//! Cases about recalling: what a store has at hand is what it would have read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::ask::{self, together};
use crate::testing::records::{self, LONG, SHORT};
use crate::{Record, SlotId, Store};

/// Only answers are recalled: every other record is for the protocol to look at.
pub async fn only_a_completed_record_is_recalled(store: &Arc<dyn Store>) {
    let (slot, mut last) = (records::slot("k"), records::completed(LONG));
    ask::put(store, slot, &last).await;
    for next in records::of_every_state() {
        recall_is_current(store, slot).await;
        ask::swap(store, slot, last.fence, &next).await;
        recall_is_current(store, slot).await;
        last = next;
    }
}

/// An answer that was replaced is not recalled: its successor is, or nothing.
pub async fn a_replaced_answer_is_not_recalled(store: &Arc<dyn Store>) {
    let (slot, mut last) = (records::slot("k"), records::completed(LONG));
    ask::put(store, slot, &last).await;
    for _ in 0..20 {
        recall_is_current(store, slot).await;
        let next = records::rewritten(&last);
        ask::swap(store, slot, last.fence, &next).await;
        recall_is_current(store, slot).await;
        last = next;
    }
}

/// An answer that was removed or swept is not recalled.
pub async fn an_answer_that_is_gone_is_not_recalled(store: &Arc<dyn Store>) {
    assert_eq!(store.recall(records::slot("unused")), None);

    let (removed, answer) = (records::slot("removed"), records::completed(LONG));
    ask::put(store, removed, &answer).await;
    recall_is_current(store, removed).await;
    ask::clear(store, removed, answer.fence).await;
    assert_eq!(store.recall(removed), None);

    let swept = records::slot("swept");
    ask::put(store, swept, &records::completed(SHORT)).await;
    ask::past_due(store, swept).await;
    recall_is_current(store, swept).await;
    assert_eq!(ask::sweep_all(store, 100).await, 1);
    assert_eq!(store.recall(swept), None);
}

/// Nothing is recalled that somebody else already knows to be replaced.
pub async fn no_recall_is_behind_a_write(store: &Arc<dyn Store>) {
    let slot = records::slot("rewritten");
    ask::put(store, slot, &records::completed(LONG)).await;
    let written = Arc::new(AtomicU32::new(1));
    let recalled = together(|racer| {
        let (store, written) = (Arc::clone(store), Arc::clone(&written));
        async move {
            for _ in 0..50 {
                if racer == 0 {
                    let last = ask::found(&store, slot).await;
                    let next = Record {
                        attempt: last.attempt + 1,
                        ..records::rewritten(&last)
                    };
                    ask::swap(&store, slot, last.fence, &next).await;
                    written.store(next.attempt, Ordering::SeqCst);
                }
                let floor = written.load(Ordering::SeqCst);
                if let Some(recalled) = store.recall(slot) {
                    assert!(floor <= recalled.value.attempt, "an old answer");
                }
                // A read may be what a store fills its memory from.
                ask::found(&store, slot).await;
            }
        }
    });
    recalled.await;
}

/// Asserts that nothing is recalled, or the answer that is read.
async fn recall_is_current(store: &Arc<dyn Store>, slot: SlotId) {
    let before = store.recall(slot);
    let read = ask::found(store, slot).await;
    for recalled in [before, store.recall(slot)].into_iter().flatten() {
        assert!(
            recalled.value.outcome().is_some(),
            "no answer: {recalled:?}"
        );
        assert_eq!(recalled.value, read);
    }
}
