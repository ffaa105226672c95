//! The memory store under threads: every swap saw what it replaced.

use std::sync::Arc;

use onceward::store::Swap;
use onceward::sync::Fences;
use onceward::testing::{ManualClock, records};
use onceward::{Fence, MemoryStore, Record, Store, Timestamp};
use shuttle::future::block_on;
use shuttle::thread;

use crate::explore::explore;

#[test]
fn swaps_of_one_slot_go_one_after_the_other() {
    explore(
        "schedules: swaps in the memory store",
        3,
        &["moved"],
        |marks| {
            let store = MemoryStore::with_clock(Arc::new(ManualClock::new()));
            let store = Arc::new(store);
            let slot = records::slot("s");
            let first = records::completed(records::LONG);
            block_on(store.insert(slot, &first, Timestamp::NEVER)).expect("memory answers");
            let threads = [(); 3].map(|()| {
                let (store, marks) = (store.clone(), marks.clone());
                thread::spawn(move || {
                    let mut swapped = 0;
                    for _ in 0..2 {
                        let found = block_on(store.get(slot)).expect("memory answers");
                        let found = found.value.expect("a record");
                        let next = Record {
                            attempt: found.attempt + 1,
                            ..records::rewritten(&found)
                        };
                        let swap = store.replace(slot, found.fence, &next, Timestamp::NEVER);
                        match block_on(swap).expect("memory answers").value {
                            Swap::Done => swapped += 1,
                            Swap::Moved(Some(moved)) => {
                                assert!(moved.attempt > found.attempt, "nobody was quicker");
                                marks.hit("moved");
                            }
                            other => panic!("{other:?}"),
                        }
                        // What is at hand is never older than what was read before.
                        let recalled = store.recall(slot).expect("an answer is at hand");
                        assert!(recalled.value.attempt >= found.attempt);
                    }
                    swapped
                })
            });
            let swapped: u32 = threads.map(|it| it.join().expect("no panic")).iter().sum();
            let found = block_on(store.get(slot)).expect("memory answers").value;
            assert_eq!(found.expect("a record").attempt, first.attempt + swapped);
        },
    );
}

#[test]
fn fences_of_threads_are_never_the_same_and_only_grow() {
    explore(
        "schedules: fences minted by threads",
        2,
        &["minted in between"],
        |marks| {
            let fences = Arc::new(Fences::new());
            let threads = [5, 5, 7].map(|time| {
                let fences = fences.clone();
                thread::spawn(move || {
                    let time = Timestamp::from_micros(time);
                    let first = fences.next(None, time);
                    let second = fences.next(None, time);
                    let over = fences.next(Some(second), Timestamp::ZERO);
                    assert!(first < second && second < over);
                    [first, second, over]
                })
            });
            let minted = threads.map(|it| it.join().expect("no panic"));
            let between = |[first, _, over]: &[Fence; 3]| {
                let all = minted.iter().flatten();
                all.filter(|it| (first..=over).contains(it)).count() > 3
            };
            marks.hit_if("minted in between", minted.iter().any(between));
            let minted = minted.concat();
            // Their times differ, not only what is random in them.
            let mut times: Vec<_> = minted.iter().map(|fence| fence.bits() >> 64).collect();
            times.sort_unstable();
            times.dedup();
            assert_eq!(times.len(), minted.len(), "{minted:?}");
        },
    );
}
