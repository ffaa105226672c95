//! Waiters: one executes, the others hear of it, and nobody is left behind.
//!
//! Time stands still in most of these: whoever misses a wake-up waits for ever, which the
//! scheduler reports as a deadlock.

use std::time::Duration;

use onceward::sync::{Waiting, point};
use onceward::{Answer, Done, Effect, Limits, RunError, Verdict};
use shuttle::future::{block_on, spawn};

use crate::explore::{Marks, explore};
use crate::world::{Work, World};

#[test]
fn duplicates_meet_one_execution() {
    explore(
        "schedules: duplicates meet one execution",
        6,
        &["waited", "recalled"],
        |marks| {
            let (world, work) = (World::new(), Work::default());
            let callers: Vec<_> = (0..3)
                .map(|_| {
                    let (world, work) = (world.clone(), work.clone());
                    spawn(async move { run(&world, &work).await.expect("an answer") })
                })
                .collect();
            let mut waited = false;
            let answers: Vec<Answer> = callers
                .into_iter()
                .map(|caller| {
                    waited |= world.waiting().total > 0;
                    block_on(caller).expect("nobody is cancelled")
                })
                .collect();
            assert_eq!(work.times(), 1);
            let first = answers.iter().filter(|answer| !answer.replayed);
            assert_eq!(first.count(), 1);
            let same = answers.iter().all(|it| it.outcome == answers[0].outcome);
            assert!(same, "{answers:?}");
            world.nobody_waits();
            marks.hit(if waited { "waited" } else { "recalled" });
        },
    );
}

/// Does `work` once under the key `k`.
async fn run(world: &World, work: &Work) -> Result<Answer, RunError> {
    let work = work.clone();
    world
        .engine
        .run(&world.slot("k"), world.fingerprint(), |_| async move {
            let time = work.begin();
            point();
            work.end();
            Done::outcome(format!("done {time}"))
        })
        .await
}

#[test]
fn a_release_wakes_one_waiter_after_the_other() {
    explore(
        "schedules: releases hand the key on",
        7,
        &["executed after a release", "replayed", "gave up"],
        |marks| {
            let (world, work) = (World::new(), Work::default());
            let holder = block_on(world.begin("k"));
            let Verdict::Execute(claim) = holder else {
                panic!("the first claims: {holder:?}");
            };
            work.begin();
            let waiters: Vec<_> = (0..4)
                .map(|_| {
                    let (world, work, marks) = (world.clone(), work.clone(), marks.clone());
                    spawn(async move { try_and_release(&world, &work, &marks).await })
                })
                .collect();
            work.end();
            block_on(claim.release()).expect("the store answers");
            for waiter in waiters {
                block_on(waiter).expect("nobody is cancelled");
            }
            world.nobody_waits();
        },
    );
}

/// Claims and releases until the fourth time, which does the work.
async fn try_and_release(world: &World, work: &Work, marks: &Marks) {
    match world.begin("k").await {
        Verdict::Execute(claim) => {
            let time = work.begin();
            marks.hit("executed after a release");
            work.end();
            match time < 4 {
                true => claim.release().await.expect("the store answers"),
                false => drop(claim.complete("done").await.expect("the store answers")),
            }
        }
        Verdict::Replay(_) => marks.hit("replayed"),
        Verdict::Busy(busy) => {
            assert!(busy.crowded, "time stands still");
            marks.hit("gave up");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn bounds_of_waiters_hold() {
    explore(
        "schedules: waiters stay within their bounds",
        6,
        &["refused", "full"],
        |marks| {
            let limits = Limits {
                waiters_per_slot: 2,
                waiters_per_tenant: 3,
                waiters: 3,
                ..Limits::default()
            };
            let world = World::with(limits, Effect::Opaque);
            let claims = ["a", "b"].map(|key| {
                let Verdict::Execute(claim) = block_on(world.begin(key)) else {
                    panic!("the first of a key claims");
                };
                claim
            });
            let waiters: Vec<_> = ["a", "a", "a", "b", "b"]
                .map(|key| {
                    let (world, marks) = (world.clone(), marks.clone());
                    spawn(async move {
                        match world.begin(key).await {
                            Verdict::Replay(_) => {}
                            Verdict::Busy(busy) if busy.crowded => marks.hit("refused"),
                            other => panic!("{other:?}"),
                        }
                    })
                })
                .into_iter()
                .collect();
            for claim in claims {
                within_bounds(world.waiting(), marks);
                block_on(claim.complete("done")).expect("the store answers");
            }
            for waiter in waiters {
                within_bounds(world.waiting(), marks);
                block_on(waiter).expect("nobody is cancelled");
            }
            world.nobody_waits();
        },
    );
}

fn within_bounds(waiting: Waiting, marks: &Marks) {
    let Waiting {
        total,
        of_slot,
        of_tenant,
        ..
    } = waiting;
    assert!(of_slot <= 2 && of_tenant <= 3 && total <= 3, "{waiting:?}");
    assert_eq!(total, of_tenant, "counts differ: {waiting:?}");
    marks.hit_if("full", total == 3);
}

#[test]
fn waiters_on_two_nodes_are_all_answered() {
    explore(
        "schedules: waiters on two nodes",
        6,
        &["waited", "recalled"],
        |marks| {
            let (world, work) = (World::patient(), Work::default());
            let nodes = [world.clone(), world.node()];
            let callers: Vec<_> = [0, 1, 0, 1]
                .map(|at| {
                    let (node, work) = (nodes[at].clone(), work.clone());
                    spawn(async move { run(&node, &work).await.expect("an answer") })
                })
                .into_iter()
                .collect();
            // A node that begins to listen hears no hint of the past: then its watcher has to
            // look again by itself.
            let passing = world.passing();
            let mut waited = false;
            for caller in callers {
                waited |= nodes.iter().any(|node| node.waiting().total > 0);
                let answer = block_on(caller).expect("nobody is cancelled");
                assert_eq!(
                    answer.outcome.body().map(|it| &it[..]),
                    Some(&b"done 1"[..])
                );
            }
            drop(passing);
            assert_eq!(work.times(), 1);
            nodes.iter().for_each(World::nobody_waits);
            marks.hit(if waited { "waited" } else { "recalled" });
        },
    );
}

#[test]
fn waiters_give_up_in_time() {
    explore(
        "schedules: waiters give up in time",
        5,
        &["gave up", "replayed", "told that nobody knows"],
        |marks| {
            let world = World::new();
            let Verdict::Execute(claim) = block_on(world.begin("k")) else {
                panic!("the first claims");
            };
            let waiters = [(); 2].map(|()| {
                let (world, marks) = (world.clone(), marks.clone());
                spawn(async move {
                    match world.begin("k").await {
                        Verdict::Replay(_) => marks.hit("replayed"),
                        Verdict::Busy(busy) => {
                            assert!(!busy.crowded, "there is room");
                            marks.hit("gave up");
                        }
                        Verdict::Unknown(_) => marks.hit("told that nobody knows"),
                        other => panic!("{other:?}"),
                    }
                })
            });
            let ending = spawn(claim.complete("done"));
            // Longer than anybody waits, and than a lease that nobody had the time to renew.
            world.pass(Duration::from_secs(601));
            for waiter in waiters {
                block_on(waiter).expect("nobody is cancelled");
            }
            // A late holder heals its own record: nobody else had the right to execute.
            let ended = block_on(ending).expect("nobody is cancelled");
            ended.expect("the store answers");
            world.nobody_waits();
        },
    );
}
