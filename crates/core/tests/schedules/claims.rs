//! Claims: renewed while they live, ended once, and never back from the dead.

use std::time::Duration;

use onceward::{Claim, Effect, EndError, Limits, Reason, State, Verdict};
use shuttle::future::{block_on, spawn};
use shuttle::rand::Rng as _;

use crate::explore::{Marks, explore};
use crate::judge::Judge;
use crate::world::{Work, World};

fn claim(world: &World, key: &str) -> Claim {
    match block_on(world.begin(key)) {
        Verdict::Execute(claim) => claim,
        other => panic!("the first of a key claims: {other:?}"),
    }
}

#[test]
fn a_renewal_never_brings_back_a_claim_that_ended() {
    explore(
        "schedules: renewals and ends of a claim",
        6,
        &[
            "renewed",
            "completed",
            "released",
            "released after a point",
            "abandoned",
        ],
        |marks| {
            let world = World::new();
            let id = block_on(world.id("k"));
            let claim = claim(&world, "k");
            // Time to renew: from here on the end and the renewal are on their way together.
            let clock = {
                let world = world.clone();
                spawn(async move {
                    for _ in 0..3 {
                        world.pass(World::LEASE / 3);
                        shuttle::future::yield_now().await;
                    }
                })
            };
            let mut rng = shuttle::rand::thread_rng();
            let (end, point) = (rng.gen_range(0..3), rng.gen_bool(0.5));
            if point {
                block_on(claim.reached("charged", "42")).expect("the store answers");
            }
            let ended = match end {
                0 => block_on(claim.complete("done")).map(drop),
                1 => block_on(claim.release()),
                _ => block_on(claim.abandon(Reason::PANICKED)),
            };
            // Nobody else is there to lose it to.
            ended.expect("the store answers");
            let right_after = world.record(id);
            block_on(clock).expect("nobody is cancelled");
            settle(&world);
            let record = world.record(id);
            assert_eq!(record, right_after, "written after its end");
            let state = record.as_ref().map(|record| &record.state);
            match (end, state) {
                (0, Some(State::Completed(_))) => marks.hit("completed"),
                (1, None) if !point => marks.hit("released"),
                (1, Some(State::Unknown(_))) if point => marks.hit("released after a point"),
                (2, Some(State::Unknown(_))) => marks.hit("abandoned"),
                _ => panic!("ended as {end}, and is {record:?}"),
            }
            marks.hit_if("renewed", world.store.happened().renewed > 0);
        },
    );
}

/// Waits until the engine has nothing under way.
fn settle(world: &World) {
    let passing = world.passing();
    let left = block_on(world.engine.shutdown(World::AGES));
    assert!(left.is_empty(), "left: {left:?}");
    drop(passing);
}

#[test]
fn a_claim_is_renewed_whenever_it_came() {
    explore(
        "schedules: every claim is renewed",
        6,
        &["alone", "beside another"],
        |marks| {
            let world = World::new();
            let others = shuttle::rand::thread_rng().gen_range(0..2);
            let other = (others > 0).then(|| {
                let world = world.clone();
                spawn(async move {
                    let Verdict::Execute(claim) = world.begin("other").await else {
                        panic!("nobody else has this key");
                    };
                    claim.complete("done").await.expect("the store answers");
                })
            });
            let id = block_on(world.id("k"));
            let claim = claim(&world, "k");
            let first = world.record(id).expect("a record").fence;
            // A keeper that missed the claim sleeps until somebody wakes it, which is never.
            let mut looks = 0;
            while world.record(id).expect("a record").fence == first {
                looks += 1;
                assert!(looks < 10_000, "nobody renews");
                world.pass(Duration::from_millis(500));
                block_on(shuttle::future::yield_now());
            }
            other.map(block_on);
            block_on(claim.complete("done")).expect("the store answers");
            settle(&world);
            marks.hit(["alone", "beside another"][others]);
        },
    );
}

#[test]
fn a_late_holder_heals_its_record_or_learns_who_won() {
    explore(
        "schedules: late holders of opaque work",
        6,
        &["healed", "told that nobody knows", "replayed"],
        |marks| {
            late(Effect::Opaque, marks, |store| {
                store.fail_renewals(usize::MAX);
            });
        },
    );
}

#[test]
fn a_holder_that_was_taken_over_answers_from_the_record_that_won() {
    explore(
        "schedules: late holders of keyed work",
        6,
        &["taken over", "lost", "replayed"],
        |marks| {
            late(Effect::Keyed, marks, |store| {
                store.fail_renewals(usize::MAX);
            });
        },
    );
}

#[test]
fn a_store_that_fails_now_and_then_changes_nothing() {
    explore(
        "schedules: claims on a store that fails",
        6,
        &[
            "healed",
            "renewed",
            "told that nobody knows",
            "replayed",
            "told nothing",
        ],
        |marks| late(Effect::Opaque, marks, |store| store.fail_some(3)),
    );
}

/// A holder that is not renewed in time, and somebody on another node who comes meanwhile.
fn late(effect: Effect, marks: &Marks, trouble: impl FnOnce(&Judge)) {
    let (world, work) = (World::with(Limits::default(), effect), Work::default());
    let other = world.node();
    let id = block_on(world.id("k"));
    let first = claim(&world, "k");
    trouble(&world.store);
    work.begin();
    work.end();
    let newcomer = {
        let (other, work, marks) = (other.clone(), work.clone(), marks.clone());
        spawn(async move {
            let slot = other.slot("k");
            let begun = other.engine.begin(&slot, other.fingerprint()).await;
            let Ok(verdict) = begun else {
                marks.hit("told nothing");
                return None;
            };
            match verdict {
                Verdict::Execute(claim) => {
                    work.begin();
                    work.end();
                    marks.hit("taken over");
                    answer(claim.complete("second").await, "second", &marks)
                }
                Verdict::Replay(replay) => {
                    marks.hit("replayed");
                    replay.outcome.body().cloned()
                }
                Verdict::Unknown(_) => {
                    marks.hit("told that nobody knows");
                    None
                }
                // It waited for as long as it may, and the claim was renewed all the while.
                Verdict::Busy(_) => None,
                Verdict::Mismatch => panic!("the payload is the same"),
                Verdict::Elsewhere(_) => panic!("it bears no identity"),
            }
        })
    };
    let completing = {
        let (world, marks) = (world.clone(), marks.clone());
        spawn(async move {
            // Every other holder is away for longer than its lease.
            if shuttle::rand::thread_rng().gen_bool(0.5) {
                world.pass(World::LEASE + Duration::from_secs(1));
            }
            answer(first.complete("first").await, "first", &marks)
        })
    };
    let passing = world.passing();
    let answers = [newcomer, completing].map(|it| block_on(it).expect("nobody is cancelled"));
    drop(passing);
    let record = world.record(id).expect("somebody completed");
    let kept = record.outcome().and_then(|it| it.body()).cloned();
    assert!(kept.is_some(), "{record:?}");
    for answer in answers.into_iter().flatten() {
        assert_eq!(Some(answer), kept, "two answers");
    }
    let once = effect == Effect::Opaque;
    assert!(!once || work.times() == 1, "executed twice");
    let happened = world.store.happened();
    marks.hit_if("healed", happened.healed > 0);
    marks.hit_if("renewed", happened.renewed > 0);
    [world, other].iter().for_each(World::nobody_waits);
}

/// What the caller of a holder gets to see.
fn answer(
    ended: Result<onceward::Kept, EndError>,
    own: &'static str,
    marks: &Marks,
) -> Option<bytes::Bytes> {
    match ended {
        Ok(_) => Some(own.into()),
        Err(EndError::Lost { verdict }) => {
            marks.hit("lost");
            match *verdict {
                Verdict::Replay(replay) => replay.outcome.body().cloned(),
                // Whoever won is at it still, or fell silent as well.
                Verdict::Busy(_) | Verdict::Unknown(_) => None,
                other => panic!("{other:?}"),
            }
        }
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn a_shutdown_out_of_patience_takes_nothing_away() {
    explore(
        "schedules: shutdown without patience",
        6,
        &["left", "healed", "drained"],
        |marks| {
            let world = World::new();
            let id = block_on(world.id("k"));
            let claim = claim(&world, "k");
            // From the call on the end is on its way, and nobody marks the claim any more.
            let completing = spawn(async move { claim.complete("done").await });
            let passing = world.passing();
            let left = block_on(world.engine.shutdown(Duration::from_millis(1)));
            let ended = block_on(completing).expect("nobody is cancelled");
            drop(passing);
            ended.expect("nobody else was there to lose it to");
            let record = world.record(id).expect("it was completed");
            assert!(record.outcome().is_some(), "{record:?}");
            marks.hit(if left.is_empty() { "drained" } else { "left" });
            marks.hit_if("healed", world.store.happened().healed > 0);
        },
    );
}

#[test]
fn a_shutdown_answers_everybody() {
    explore(
        "schedules: shutdown with callers under way",
        6,
        &["completed", "refused", "replayed"],
        |marks| {
            let world = World::patient();
            let callers = [(); 3].map(|()| {
                let (world, marks) = (world.clone(), marks.clone());
                spawn(async move {
                    let slot = world.slot("k");
                    match world.engine.begin(&slot, world.fingerprint()).await {
                        Ok(Verdict::Execute(claim)) => {
                            claim.complete("done").await.expect("the store answers");
                            marks.hit("completed");
                        }
                        Ok(Verdict::Replay(_)) => marks.hit("replayed"),
                        Err(onceward::Error::Closing) => marks.hit("refused"),
                        other => panic!("{other:?}"),
                    }
                })
            });
            settle(&world);
            // Whoever was let in has ended by now, and nobody is let in any more.
            let closed = block_on(world.engine.begin(&world.slot("z"), world.fingerprint()));
            assert!(
                matches!(closed, Err(onceward::Error::Closing)),
                "{closed:?}"
            );
            for caller in callers {
                block_on(caller).expect("nobody is cancelled");
            }
            world.nobody_waits();
        },
    );
}
