//! Cases about watching: changes are hinted at, sooner or later, to everybody who listens.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::ask;
use crate::testing::records::{self, LONG};
use crate::{SlotId, Store};

/// How often a change is made until one has to be hinted at: single hints may be missing.
const CHANGES: usize = 60;

/// How long a hint may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// Somebody who listens to hints.
struct Watcher {
    hints: mpsc::UnboundedReceiver<SlotId>,
    _task: AbortOnDropHandle<()>,
}

/// A record that is put into a slot is hinted at.
pub async fn an_insert_is_hinted_at(store: &Arc<dyn Store>) {
    let mut watcher = Watcher::new(store);
    for change in 0..CHANGES {
        let slot = records::slot(&format!("inserted {change}"));
        ask::put(store, slot, &records::claimed(LONG)).await;
        if watcher.sees(slot).await {
            return;
        }
    }
    panic!("none of {CHANGES} inserts was hinted at");
}

/// A record that is replaced is hinted at: the one who waits for the outcome wakes up.
pub async fn a_replacement_is_hinted_at(store: &Arc<dyn Store>) {
    let mut changes = Vec::new();
    for change in 0..CHANGES {
        let slot = records::slot(&format!("replaced {change}"));
        let claim = records::claimed(LONG);
        ask::put(store, slot, &claim).await;
        changes.push((slot, claim.fence));
    }
    let mut watcher = Watcher::new(store);
    for (slot, seen) in changes {
        watcher.forget();
        ask::swap(store, slot, seen, &records::completed(LONG)).await;
        if watcher.sees(slot).await {
            return;
        }
    }
    panic!("none of {CHANGES} replacements was hinted at");
}

/// A record that is removed is hinted at: the next one in line claims.
pub async fn a_removal_is_hinted_at(store: &Arc<dyn Store>) {
    let mut changes = Vec::new();
    for change in 0..CHANGES {
        let slot = records::slot(&format!("removed {change}"));
        let claim = records::claimed(LONG);
        ask::put(store, slot, &claim).await;
        changes.push((slot, claim.fence));
    }
    let mut watcher = Watcher::new(store);
    for (slot, seen) in changes {
        watcher.forget();
        ask::clear(store, slot, seen).await;
        if watcher.sees(slot).await {
            return;
        }
    }
    panic!("none of {CHANGES} removals was hinted at");
}

/// Two who listen are both told, and one that stops listening does not take the hints along.
pub async fn every_watcher_is_told(store: &Arc<dyn Store>) {
    let (mut one, mut two) = (Watcher::new(store), Watcher::new(store));
    let mut told = (false, false);
    for change in 0..CHANGES {
        let slot = records::slot(&format!("told {change}"));
        ask::put(store, slot, &records::claimed(LONG)).await;
        told.0 |= one.sees(slot).await;
        told.1 |= two.sees(slot).await;
        if told == (true, true) {
            break;
        }
    }
    assert_eq!(told, (true, true), "both are told");

    drop(one);
    for change in 0..CHANGES {
        let slot = records::slot(&format!("told after {change}"));
        ask::put(store, slot, &records::claimed(LONG)).await;
        if two.sees(slot).await {
            return;
        }
    }
    panic!("the last watcher hears nothing any more");
}

/// A watcher that never looks at its hints neither blocks writers nor loses the stream.
pub async fn a_watcher_that_does_not_listen_blocks_nobody(store: &Arc<dyn Store>) {
    let changes = store.watch();
    let slot = records::slot("k");
    let mut last = records::claimed(LONG);
    ask::put(store, slot, &last).await;
    for _ in 0..2000 {
        let next = records::rewritten(&last);
        ask::swap(store, slot, last.fence, &next).await;
        last = next;
    }
    let mut watcher = Watcher::of(changes);
    for change in 0..CHANGES {
        let slot = records::slot(&format!("late {change}"));
        ask::put(store, slot, &records::claimed(LONG)).await;
        if watcher.sees(slot).await {
            return;
        }
    }
    panic!("a watcher that fell behind hears nothing any more");
}

// === impl Watcher ===

impl Watcher {
    fn new(store: &Arc<dyn Store>) -> Self {
        Self::of(store.watch())
    }

    /// Listens in a task of its own: a stream is read on, whether or not a case looks at hints.
    fn of(mut changes: BoxStream<'static, SlotId>) -> Self {
        let (tell, hints) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while let Some(slot) = changes.next().await {
                if tell.send(slot).is_err() {
                    return;
                }
            }
        });
        Self {
            hints,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Whether a hint at `slot` comes in time.
    async fn sees(&mut self, slot: SlotId) -> bool {
        let seen = async {
            while let Some(hint) = self.hints.recv().await {
                if hint == slot {
                    return;
                }
            }
            panic!("the stream ended though the store is open");
        };
        tokio::time::timeout(PATIENCE, seen).await.is_ok()
    }

    /// Drops the hints that came so far.
    fn forget(&mut self) {
        while self.hints.try_recv().is_ok() {}
    }
}
