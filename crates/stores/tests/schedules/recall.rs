//! Recent answers: what is at hand is never older than what was there before.

use std::sync::Arc;

use onceward::store::Swap;
use onceward::testing::records;
use onceward::{Record, Store as _};
use shuttle::future::{block_on, spawn};

use crate::explore::explore;
use crate::world::{World, after, scratch, warm};

#[test]
fn what_is_at_hand_is_never_outdated() {
    let folder = scratch();
    let path = folder.path().join("store");
    warm(&path);
    explore(
        "schedules: answers at hand are current",
        8,
        &["at hand", "not at hand", "removed"],
        move |marks| {
            let world = World::new(&path);
            let slot = world.slot("s");
            let first = Arc::new(records::completed(records::LONG));
            block_on(world.insert(slot, &first)).expect("the store answers");
            let writer = {
                let (world, first, marks) = (world.clone(), first.clone(), marks.clone());
                spawn(async move {
                    let second = after(&first);
                    swapped(&world, &first, Some(&second)).await;
                    assert!(recalled(&world).is_none_or(|it| it >= second.attempt));
                    swapped(&world, &second, None).await;
                    assert_eq!(recalled(&world), None, "what was removed is at hand");
                    marks.hit("removed");
                })
            };
            let readers = [(); 2].map(|()| {
                let (world, marks) = (world.clone(), marks.clone());
                spawn(async move {
                    let mut highest = 0;
                    for _ in 0..2 {
                        let found = world.get(slot).await.expect("the store answers");
                        let found = found.map_or(u32::MAX, |it| it.attempt);
                        assert!(found >= highest, "read went back");
                        let at_hand = recalled(&world);
                        marks.hit(if at_hand.is_some() {
                            "at hand"
                        } else {
                            "not at hand"
                        });
                        assert!(
                            at_hand.is_none_or(|it| it >= found),
                            "older than what was read"
                        );
                        highest = found.max(at_hand.unwrap_or(0));
                    }
                })
            });
            for reader in readers {
                block_on(reader).expect("nobody is cancelled");
            }
            block_on(writer).expect("nobody is cancelled");
            assert_eq!(recalled(&world), None, "what was removed is at hand");
        },
    );
}

/// The number of the record that is at hand.
fn recalled(world: &World) -> Option<u32> {
    Some(world.store.recall(world.slot("s"))?.value.attempt)
}

async fn swapped(world: &World, seen: &Record, record: Option<&Record>) {
    let swap = world.swap(world.slot("s"), seen, record).await;
    assert_eq!(swap.expect("the store answers"), Swap::Done);
}

#[test]
fn what_its_own_batch_replaced_is_not_at_hand() {
    let folder = scratch();
    let path = folder.path().join("store");
    warm(&path);
    explore(
        "schedules: answers replaced at once",
        6,
        &["replaced", "came too early"],
        move |marks| {
            let world = World::new(&path);
            let slot = world.slot("s");
            let first = records::completed(records::LONG);
            // Whoever removes it has seen it elsewhere and asks at once, so both may be one batch.
            let remover = {
                let (world, first) = (world.clone(), first.clone());
                spawn(async move { world.swap(slot, &first, None).await })
            };
            block_on(world.insert(slot, &first)).expect("the store answers");
            let removed = block_on(remover).expect("nobody is cancelled");
            match removed.expect("the store answers") {
                Swap::Done => {
                    assert_eq!(recalled(&world), None, "what was removed is at hand");
                    marks.hit("replaced");
                }
                Swap::Moved(None) => marks.hit("came too early"),
                other => panic!("{other:?}"),
            }
        },
    );
}
