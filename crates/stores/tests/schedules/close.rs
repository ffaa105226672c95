//! Closing while calls are under way: each is answered, one way or the other.

use futures_util::StreamExt as _;
use onceward::Store as _;
use onceward::store::{Error, Insert};
use onceward::testing::records;
use shuttle::future::{block_on, spawn};
use shuttle::rand::Rng as _;

use crate::explore::explore;
use crate::world::{World, open, scratch, warm};

#[test]
fn closing_answers_everybody() {
    let folder = scratch();
    let path = folder.path().join("store");
    warm(&path);
    explore(
        "schedules: closing answers everybody",
        8,
        &["acknowledged", "refused", "failed too", "hint"],
        move |marks| {
            let world = World::new(&path);
            let mut rng = shuttle::rand::thread_rng();
            let fails = rng.gen_ratio(1, 4);
            if fails {
                // The store may be closed while it is being opened again.
                world.disk.fail_soon(1, rng.gen_bool(0.5));
                marks.hit("failed too");
            }
            let callers = ["a", "b", "c"].map(|name| {
                let (world, slot) = (world.clone(), world.slot(name));
                spawn(async move {
                    let record = records::completed(records::LONG);
                    let answer = world.insert(slot, &record).await;
                    let seen = world.get(slot).await;
                    let recalled = world.store.recall(slot);
                    if let (Ok(Insert::Done), Ok(None)) = (&answer, &seen) {
                        panic!("what was acknowledged is not there");
                    }
                    let same = recalled.is_none_or(|it| it.value.fence == record.fence);
                    assert!(same, "another record is at hand");
                    (slot, answer, record)
                })
            });
            // Whoever watches is told that there is nothing more to come.
            let watcher = {
                let (world, marks) = (world.clone(), marks.clone());
                spawn(async move {
                    let mut hints = world.store.watch();
                    while hints.next().await.is_some() {
                        marks.hit("hint");
                    }
                })
            };
            let closing = {
                let world = world.clone();
                shuttle::thread::spawn(move || world.store.close())
            };
            let answers = callers.map(|caller| block_on(caller).expect("nobody is cancelled"));
            closing.join().expect("closing does not panic");
            block_on(watcher).expect("nobody is cancelled");
            let store = open(&path, &world.disk);
            for (slot, answer, record) in answers {
                let found = block_on(store.get(slot)).expect("the store answers");
                match answer {
                    Ok(Insert::Done) => {
                        let found = found.value.expect("what was acknowledged is there");
                        assert_eq!(found.fence, record.fence);
                        marks.hit("acknowledged");
                    }
                    Ok(other) => panic!("{other:?}"),
                    Err(Error::Unavailable { .. }) => {
                        assert!(fails || found.value.is_none(), "refused, and there");
                        marks.hit("refused");
                    }
                    Err(error) => panic!("{error:?}"),
                }
            }
        },
    );
}
