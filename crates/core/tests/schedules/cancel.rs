//! Callers that go away: at any point, and nothing of them is left.

use onceward::Verdict;
use onceward::sync::point;
use shuttle::future::{block_on, spawn};
use shuttle::rand::Rng as _;

use crate::explore::{Marks, explore};
use crate::world::{Work, World};

#[test]
fn callers_that_go_away_leave_nothing_behind() {
    explore(
        "schedules: callers that go away",
        6,
        &["went away", "executed", "released", "replayed"],
        |marks| go_away(marks, 0),
    );
}

#[test]
fn callers_that_go_away_from_a_store_that_fails_leave_nothing_behind() {
    // One that waits to ask again does not know whether it was granted the claim; the keeper has
    // to find out and take it back, for this lease would last longer than any schedule.
    explore(
        "schedules: callers that go away in trouble",
        6,
        &["went away", "executed", "released", "replayed"],
        |marks| go_away(marks, 3),
    );
}

/// Three callers, one of whom goes away, on a store that fails `failures` times at the most.
fn go_away(marks: &Marks, failures: usize) {
    let (world, work) = (World::patient(), Work::default());
    world.store.fail_some(failures);
    let callers: Vec<_> = (0..3)
        .map(|_| {
            let (world, work, marks) = (world.clone(), work.clone(), marks.clone());
            spawn(async move { work_once(&world, &work, &marks).await })
        })
        .collect();
    let passing = world.passing();
    (0..shuttle::rand::thread_rng().gen_range(0..32)).for_each(|_| point());
    // Wherever it waits, it goes no further.
    callers[0].abort();
    for caller in callers {
        marks.hit_if("went away", block_on(caller).is_err());
    }
    assert!(work.times() <= 1, "executed twice");
    // One that went away with the claim in its hands said how it ended, or nothing.
    let last = {
        let (world, work, marks) = (world.clone(), work.clone(), marks.clone());
        spawn(async move { work_once(&world, &work, &marks).await })
    };
    block_on(last).expect("nobody is cancelled");
    drop(passing);
    assert_eq!(work.times(), 1);
    world.nobody_waits();
}

/// Does the work unless it is done; now and then it changes its mind before that.
async fn work_once(world: &World, work: &Work, marks: &Marks) {
    loop {
        match world.begin("k").await {
            Verdict::Execute(claim) if shuttle::rand::thread_rng().gen_ratio(1, 3) => {
                // Where the reply was lost, somebody else may have the key by now.
                let _ = claim.release().await;
                marks.hit("released");
            }
            Verdict::Execute(claim) => {
                work.begin();
                work.end();
                marks.hit("executed");
                claim.complete("done").await.expect("the store answers");
                return;
            }
            Verdict::Replay(_) => {
                marks.hit("replayed");
                return;
            }
            Verdict::Busy(busy) => assert!(busy.crowded, "nobody gives up"),
            other => panic!("{other:?}"),
        }
    }
}
