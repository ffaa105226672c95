//! Writes: compared and swapped one after the other, and acknowledged once they are durable.

use onceward::store::{Insert, Swap};
use onceward::testing::records;
use shuttle::future::{block_on, spawn};

use crate::explore::explore;
use crate::world::{World, after, scratch, warm};

#[test]
fn swaps_of_one_slot_go_one_after_the_other() {
    let folder = scratch();
    let path = folder.path().join("store");
    warm(&path);
    explore(
        "schedules: swaps in the embedded store",
        8,
        &["moved", "swapped", "taken"],
        move |marks| {
            let world = World::new(&path);
            let slot = world.slot("s");
            let first = records::completed(records::LONG);
            let callers: Vec<_> = (0..3)
                .map(|_| {
                    let (world, first, marks) = (world.clone(), first.clone(), marks.clone());
                    spawn(async move {
                        let mut swapped = 0;
                        let inserted = world.insert(slot, &first).await;
                        match inserted.expect("the store answers") {
                            Insert::Done => {}
                            Insert::Taken(_) => marks.hit("taken"),
                            Insert::Late => panic!("nothing is late"),
                        }
                        let found = world.get(slot).await.expect("the store answers");
                        let mut found = found.expect("what was acknowledged is there");
                        for _ in 0..2 {
                            let next = after(&found);
                            let swap = world.swap(slot, &found, Some(&next)).await;
                            match swap.expect("the store answers") {
                                Swap::Done => {
                                    swapped += 1;
                                    marks.hit("swapped");
                                    let now = world.get(slot).await.expect("the store answers");
                                    let now = now.expect("what was acknowledged is there");
                                    assert!(now.attempt >= next.attempt, "it was forgotten");
                                    found = now;
                                }
                                Swap::Moved(Some(moved)) => {
                                    assert!(moved.attempt > found.attempt, "nobody was quicker");
                                    marks.hit("moved");
                                    found = moved;
                                }
                                other => panic!("{other:?}"),
                            }
                        }
                        swapped
                    })
                })
                .collect();
            let mut swapped = 0;
            for caller in callers {
                swapped += block_on(caller).expect("nobody is cancelled");
            }
            let found = block_on(world.get(slot)).expect("the store answers");
            let found = found.expect("what was acknowledged is there");
            assert_eq!(found.attempt, first.attempt + swapped);
        },
    );
}

#[test]
fn a_crowd_shares_its_syncs() {
    let folder = scratch();
    let path = folder.path().join("store");
    warm(&path);
    explore(
        "schedules: a crowd of callers",
        6,
        &["one batch for all", "several batches"],
        move |marks| {
            let world = World::new(&path);
            // Enough for the writer to wait a moment for more of them.
            let callers: Vec<_> = (0..14)
                .map(|n| {
                    let (world, slot) = (world.clone(), world.slot(&n.to_string()));
                    spawn(async move {
                        let record = records::claimed(records::LONG);
                        let inserted = world.insert(slot, &record).await;
                        assert_eq!(inserted.expect("the store answers"), Insert::Done);
                        (slot, record.fence)
                    })
                })
                .collect();
            for caller in callers {
                let (slot, fence) = block_on(caller).expect("nobody is cancelled");
                let found = block_on(world.get(slot)).expect("the store answers");
                let found = found.expect("what was acknowledged is there");
                assert_eq!(found.fence, fence);
            }
            let is_one = world.disk.begun() == 1;
            marks.hit(if is_one {
                "one batch for all"
            } else {
                "several batches"
            });
        },
    );
}
