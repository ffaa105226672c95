//! A batch that fails: everybody is answered, what was acknowledged is there, and the store goes
//! on.

use std::sync::atomic::Ordering;

use onceward::Store as _;
use onceward::Timestamp;
use onceward::store::{Error, Insert};
use onceward::testing::records;
use shuttle::future::{block_on, spawn};
use shuttle::rand::Rng as _;

use crate::explore::explore;
use crate::world::{World, scratch, warm};

#[test]
fn a_failed_batch_answers_everybody() {
    let folder = scratch();
    let path = folder.path().join("store");
    warm(&path);
    explore(
        "schedules: a failed batch answers everybody",
        8,
        &["acknowledged", "refused", "there all the same", "swept"],
        move |marks| {
            let world = World::new(&path);
            let mut rng = shuttle::rand::thread_rng();
            world.disk.fail_soon(rng.gen_range(1..3), rng.gen_bool(0.5));
            let callers = ["a", "b", "c", "a"].map(|name| {
                let (world, slot) = (world.clone(), world.slot(name));
                spawn(async move {
                    let record = records::completed(records::LONG);
                    (slot, world.insert(slot, &record).await, record)
                })
            });
            let sweeping = {
                let (world, marks) = (world.clone(), marks.clone());
                spawn(async move {
                    match world.store.sweep(Timestamp::NEVER, 10).await {
                        Ok(_) => marks.hit("swept"),
                        Err(Error::Unavailable { .. }) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                })
            };
            let answers = callers.map(|caller| block_on(caller).expect("nobody is cancelled"));
            block_on(sweeping).expect("nobody is cancelled");
            for (slot, answer, record) in answers {
                let found = block_on(until_open(&world, slot));
                match answer {
                    Ok(Insert::Done) => {
                        let found = found.expect("what was acknowledged is there");
                        assert_eq!(found.fence, record.fence);
                        marks.hit("acknowledged");
                    }
                    Ok(Insert::Taken(taken)) => {
                        let found = found.expect("what was shown is there");
                        assert_eq!(found.fence, taken.fence);
                    }
                    Ok(Insert::Late) => panic!("nothing is late"),
                    Err(Error::Unavailable { .. }) => {
                        marks.hit("refused");
                        let is_there = found.is_some_and(|it| it.fence == record.fence);
                        marks.hit_if("there all the same", is_there);
                    }
                    Err(error) => panic!("{error:?}"),
                }
            }
            assert!(world.disk.failures.load(Ordering::Relaxed) <= 1);
            // It goes on.
            let record = records::completed(records::LONG);
            let slot = world.slot("later");
            let put = block_on(async {
                loop {
                    match world.insert(slot, &record).await {
                        Ok(put) => return put,
                        Err(_) => shuttle::future::yield_now().await,
                    }
                }
            });
            let own = match &put {
                Insert::Done => true,
                // An earlier try of ours was applied by the batch that failed.
                Insert::Taken(taken) => taken.fence == record.fence,
                Insert::Late => false,
            };
            assert!(own, "{put:?}");
        },
    );
}

/// Reads `slot` once the store is open.
async fn until_open(
    world: &World,
    slot: onceward::SlotId,
) -> Option<std::sync::Arc<onceward::Record>> {
    loop {
        match world.get(slot).await {
            Ok(found) => return found,
            Err(Error::Unavailable { .. }) => shuttle::future::yield_now().await,
            Err(error) => panic!("{error:?}"),
        }
    }
}
