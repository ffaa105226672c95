//! Waiting: many duplicates, one watcher, and an end to it.

use std::time::Duration;

use onceward::testing::{Call, ExpectVerdict, Fault, World};
use onceward::{Effect, Limits, OnBusy, Reason, Verdict};

const SECOND: Duration = Duration::from_secs(1);

// --- the outcome reaches everybody ----------------------------------------------------------

async fn all_get_the_outcome(waiters: usize) {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    let waiting: Vec<_> = (0..waiters).map(|_| world.arrive("k1")).collect();
    world.settle().await;
    assert_eq!(
        world.store.count_of(Call::Insert),
        2 + waiters,
        "one look each"
    );
    let looked = world.store.count_of(Call::Get);

    claim.complete("paid").await.expect("the store answers");
    for waiter in waiting {
        let verdict = waiter.await.expect("a waiter does not panic");
        assert_eq!(verdict.expect_replay(), "paid");
    }
    let looks = world.store.count_of(Call::Get) - looked;
    assert!(looks <= 3, "{looks} looks for {waiters} waiters");
    assert_eq!(world.store.count_of(Call::Insert), 2 + waiters);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waiters_get_the_outcome_by_one_look() {
    all_get_the_outcome(1_000).await;
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_waiters_get_the_outcome_by_one_look() {
    all_get_the_outcome(10_000).await;
}

#[tokio::test(start_paused = true)]
async fn waiters_ask_the_store_no_more_often_the_longer_they_wait() {
    let world = World::new().policy(|policy| policy.on_busy(OnBusy::Wait(60 * SECOND)));
    let claim = world.begin("k1").await.expect_claim();
    let waiting: Vec<_> = (0..100).map(|_| world.arrive("k1")).collect();
    world.pass(30 * SECOND).await;
    // One watcher that looks two to four times a second.
    assert!(world.store.count_of(Call::Get) <= 1 + 30 * 4 + 10);
    claim.complete("paid").await.unwrap();
    for waiter in waiting {
        waiter.await.unwrap().expect_replay();
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_in_another_process_are_woken_by_the_stores_hint() {
    let world = World::new();
    let node = world.node();
    let claim = world.begin("k1").await.expect_claim();
    let waiter = node.arrive("k1");
    world.settle().await;
    claim.complete("paid").await.unwrap();
    // No timer runs while tasks can: what is answered by now needed no poll.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(waiter.is_finished());
    assert_eq!(waiter.await.unwrap().expect_replay(), "paid");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_comes_after_the_outcome_was_told_gets_it_too() {
    let world = World::new();
    world.store.set_far(true);
    let claim = world.begin("k1").await.expect_claim();
    let early = world.arrive("k1");
    world.settle().await;
    // The late one has looked, and found the claim, when the outcome is stored.
    world.store.fail_next(Fault::Held);
    let late = world.arrive("k1");
    world.store.until_held().await;
    claim.complete("paid").await.unwrap();
    early.await.unwrap().expect_replay();
    world.store.release();
    assert_eq!(late.await.unwrap().expect_replay(), "paid");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_whose_store_is_away_asks_again() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    let waiter = world.arrive("k1");
    world.settle().await;
    claim.complete("paid").await.unwrap();
    world.store.set_down(true);
    world.pass(3 * SECOND).await;
    assert!(!waiter.is_finished());
    world.store.set_down(false);
    assert_eq!(waiter.await.unwrap().expect_replay(), "paid");
}

// --- limits ---------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn over_each_limit_a_waiter_is_told_busy_at_once() {
    let limits: [fn(&mut Limits); 3] = [
        |limits| limits.waiters_per_slot = 2,
        |limits| limits.waiters_per_tenant = 2,
        |limits| limits.waiters = 2,
    ];
    for limit in limits {
        let world = World::new().limits(limit);
        let claim = world.begin("k1").await.expect_claim();
        let seated = [world.arrive("k1"), world.arrive("k1")];
        world.settle().await;
        assert!(world.begin("k1").await.expect_busy().crowded);
        claim.complete("paid").await.unwrap();
        for waiter in seated {
            waiter.await.unwrap().expect_replay();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_limit_counts_what_it_says() {
    let world = World::new().limits(|limits| {
        limits.waiters_per_slot = 1;
        limits.waiters_per_tenant = 2;
        limits.waiters = 3;
    });
    let (alice, bob) = (world.clone(), world.tenant("bob"));
    let mut claims = Vec::new();
    for (who, key) in [
        (&alice, "k1"),
        (&alice, "k2"),
        (&alice, "k3"),
        (&bob, "k1"),
        (&bob, "k2"),
    ] {
        claims.push(who.begin(key).await.expect_claim());
    }
    let mut seated = vec![alice.arrive("k1"), alice.arrive("k2"), bob.arrive("k1")];
    world.settle().await;
    for (who, key) in [(&alice, "k1"), (&alice, "k3"), (&bob, "k2")] {
        assert!(who.begin(key).await.expect_busy().crowded, "{key}");
    }
    // A waiter that leaves frees its seat, in all three counts.
    let left = seated.remove(0);
    left.abort();
    assert!(left.await.unwrap_err().is_cancelled());
    seated.push(alice.arrive("k3"));
    world.settle().await;
    assert!(bob.begin("k2").await.expect_busy().crowded);
    for claim in claims {
        claim.complete("paid").await.unwrap();
    }
    for waiter in seated {
        waiter.await.unwrap().expect_replay();
    }
}

#[tokio::test(start_paused = true)]
async fn seats_are_free_again_after_each_way_to_leave() {
    let world = World::new().limits(|limits| limits.waiters = 1);
    for way in ["outcome", "timeout", "dropped"] {
        let claim = world.begin(way).await.expect_claim();
        let waiter = world.arrive(way);
        world.settle().await;
        match way {
            "outcome" => drop(claim.complete("paid").await.unwrap()),
            "timeout" => world.pass(11 * SECOND).await,
            _ => waiter.abort(),
        }
        let _ = waiter.await;
    }
    let _claim = world.begin("last").await.expect_claim();
    let waiter = world.arrive("last");
    world.settle().await;
    assert!(!waiter.is_finished());
    assert!(!waiter.await.unwrap().expect_busy().crowded);
}

// --- time is up -----------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_waiter_is_told_busy_when_its_time_is_up() {
    let world = World::new().policy(|policy| policy.on_busy(OnBusy::Wait(2 * SECOND)));
    let _claim = world.begin("k1").await.expect_claim();
    let waiter = world.arrive("k1");
    world.pass(SECOND).await;
    assert!(!waiter.is_finished());
    world.pass(2 * SECOND).await;
    assert!(waiter.is_finished());
    assert!(!waiter.await.unwrap().expect_busy().crowded);
}

#[tokio::test]
async fn who_is_not_to_wait_is_refused_at_once() {
    for on_busy in [OnBusy::Refuse, OnBusy::Wait(Duration::ZERO)] {
        let world = World::new().policy(|policy| policy.on_busy(on_busy));
        let _claim = world.begin("k1").await.expect_claim();
        world.clock.advance(SECOND);
        let busy = world.begin("k1").await.expect_busy();
        assert_eq!(busy.retry_after, world.policy.lease - SECOND);
        assert!(!busy.crowded);
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_wait_ends_with_the_outcome() {
    let world = World::new().policy(|policy| policy.on_busy(OnBusy::Wait(Duration::MAX)));
    let claim = world.begin("k1").await.expect_claim();
    let waiter = world.arrive("k1");
    world.pass(3 * world.policy.lease).await;
    claim.complete("paid").await.unwrap();
    assert_eq!(waiter.await.unwrap().expect_replay(), "paid");
}

// --- the owner goes -------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn waiters_of_a_dead_owner_learn_that_nobody_knows() {
    let world = World::new().policy(|policy| policy.lease(2 * SECOND));
    drop(world.begin("k1").await.expect_claim());
    let waiting: Vec<_> = (0..50).map(|_| world.arrive("k1")).collect();
    world.pass(3 * SECOND).await;
    for waiter in waiting {
        assert!(waiter.is_finished());
        assert_eq!(
            waiter.await.unwrap().expect_unknown().reason,
            Reason::LAPSED
        );
    }
    assert_eq!(world.store.count_of(Call::Replace), 1, "marked once");
}

#[tokio::test(start_paused = true)]
async fn one_waiter_takes_over_from_a_dead_owner_and_the_others_wait_on() {
    let world = World::new()
        .effect(Effect::Keyed)
        .policy(|policy| policy.lease(2 * SECOND));
    drop(world.begin("k1").await.expect_claim());
    let mut waiting: Vec<_> = (0..50).map(|_| world.arrive("k1")).collect();
    world.pass(3 * SECOND).await;
    let ready = waiting.extract_if(.., |waiter| waiter.is_finished());
    let ready: Vec<_> = ready.collect();
    assert_eq!(ready.len(), 1);
    for winner in ready {
        let claim = winner.await.unwrap().expect_claim();
        assert_eq!(claim.attempt(), 2);
        claim.complete("paid").await.unwrap();
    }
    for waiter in waiting {
        assert_eq!(waiter.await.unwrap().expect_replay(), "paid");
    }
}

// --- releases -------------------------------------------------------------------------------

/// Takes out the waiters that are done by now.
fn done(
    waiting: &mut Vec<tokio::task::JoinHandle<Verdict>>,
) -> Vec<tokio::task::JoinHandle<Verdict>> {
    waiting
        .extract_if(.., |waiter| waiter.is_finished())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_waiter_sees_three_releases_and_is_then_told_busy() {
    let world = World::new();
    let mut claim = world.begin("k1").await.expect_claim();
    let mut waiting: Vec<_> = (0..20).map(|_| world.arrive("k1")).collect();
    world.settle().await;
    for release in 1..=3 {
        claim.release().await.unwrap();
        world.settle().await;
        let mut claims = Vec::new();
        let mut refused = 0;
        for waiter in done(&mut waiting) {
            match waiter.await.unwrap() {
                Verdict::Execute(claim) => claims.push(claim),
                verdict => refused += usize::from(verdict.expect_busy().crowded),
            }
        }
        assert_eq!(claims.len(), 1, "after release {release}");
        assert_eq!(refused, if release < 3 { 0 } else { 17 });
        claim = claims.remove(0);
    }
    assert!(waiting.is_empty());
}

#[tokio::test(start_paused = true)]
async fn releases_too_quick_to_be_seen_count_as_well() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let world = world.clone();
            tokio::spawn(async move {
                match world.begin("k1").await {
                    Verdict::Execute(claim) => claim.release().await.is_ok(),
                    verdict => !verdict.expect_busy().crowded,
                }
            })
        })
        .collect();
    world.settle().await;
    claim.release().await.unwrap();
    let mut executed = 0;
    for waiter in waiting {
        executed += usize::from(waiter.await.unwrap());
    }
    assert_eq!(executed, 3);
}

#[tokio::test(start_paused = true)]
async fn one_vacancy_is_one_release_however_often_it_is_seen() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    let mut waiting: Vec<_> = (0..20).map(|_| world.arrive("k1")).collect();
    world.settle().await;
    // Whoever is elected asks the store, which does not answer for a while.
    world.store.fail_next_of(Call::Insert, 100, Fault::Held);
    claim.release().await.unwrap();
    tokio::time::sleep(3 * SECOND).await;
    assert!(done(&mut waiting).is_empty(), "nobody was turned away");
    world.store.mend();
    world.store.release();
    world.settle().await;
    let mut claims = 0;
    for waiter in done(&mut waiting) {
        let claim = waiter.await.unwrap().expect_claim();
        claim.complete("paid").await.unwrap();
        claims += 1;
    }
    assert_eq!(claims, 1);
    for waiter in waiting {
        assert_eq!(waiter.await.unwrap().expect_replay(), "paid");
    }
}

#[tokio::test(start_paused = true)]
async fn an_elected_waiter_that_leaves_is_replaced() {
    // Either of the two may be the one that is elected.
    for _ in 0..20 {
        let world = World::new();
        let claim = world.begin("k1").await.expect_claim();
        let (leaving, staying) = (world.arrive("k1"), world.arrive("k1"));
        world.settle().await;
        world.store.fail_next_of(Call::Insert, 1, Fault::Held);
        claim.release().await.unwrap();
        world.store.until_held().await;
        leaving.abort();
        let _ = leaving.await;
        world.store.release();
        world.pass(2 * SECOND).await;
        let claim = staying.await.unwrap().expect_claim();
        claim.complete("paid").await.unwrap();
    }
}

// --- coming and going -----------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_waiter_that_enters_as_the_last_one_leaves_is_watched_for() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    for _ in 0..100 {
        let last = world.arrive("k1");
        world.settle().await;
        last.abort();
    }
    let waiter = world.arrive("k1");
    world.settle().await;
    claim.complete("paid").await.unwrap();
    assert_eq!(waiter.await.unwrap().expect_replay(), "paid");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_every_waiter_is_answered() {
    for round in 0..200 {
        let world = World::new();
        let claim = world.begin("k1").await.expect_claim();
        let waiting: Vec<_> = (0..8).map(|_| world.arrive("k1")).collect();
        if round % 2 == 0 {
            tokio::task::yield_now().await;
        }
        claim.complete("paid").await.unwrap();
        for waiter in waiting {
            assert_eq!(waiter.await.unwrap().expect_replay(), "paid");
        }
    }
}

#[tokio::test]
async fn an_arrival_may_refuse_to_wait_where_its_policy_would() {
    let world = World::new();
    let _claim = world.begin("k1").await.expect_claim();
    let slot = world.slot("k1");
    let arrival = world
        .engine
        .prepare(&slot, &world.fingerprint())
        .await
        .unwrap();
    let verdict = world.engine.admit(&arrival.on_busy(OnBusy::Refuse)).await;
    assert!(matches!(verdict, Ok(Verdict::Busy(_))));
}
