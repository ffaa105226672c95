//! Twins: work with the same business identity under different keys.

use std::time::Duration;

use onceward::record::{Deed, StateName};
use onceward::store::Filter;
use onceward::testing::{Call, ExpectVerdict, Fault, World};
use onceward::{
    By, Claim, Identity, OnBusy, Outcome, Reason, Resolution, Suspicion, Then, Twin, Verdict,
};

const SECOND: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(30);

fn order(number: &str) -> [Identity; 1] {
    [Identity::unique("paid-order", number, Then::Return)]
}

fn order_or_refuse(number: &str) -> [Identity; 1] {
    [Identity::unique("paid-order", number, Then::Refuse)]
}

fn facts(then: Suspicion) -> [Identity; 1] {
    [Identity::suspect(
        "same-payment",
        "alice 100 EUR",
        WINDOW,
        then,
    )]
}

async fn pays(world: &World, key: &str, identities: &[Identity]) {
    let claim = world.begin_as(key, identities).await.expect_claim();
    claim.complete("paid").await.expect("the store answers");
}

/// How many records there are besides the secret, in this state.
async fn count(world: &World, state: StateName) -> usize {
    let filter = Filter {
        state: Some(state),
        ..Filter::default()
    };
    let page = world.engine.list(&filter, None, 1_000).await;
    page.expect("the store answers").value.records.len()
}

// --- one success per identity ---------------------------------------------------------------

#[tokio::test]
async fn an_order_is_paid_once_however_many_keys_are_made_up_for_it() {
    let world = World::new();
    pays(&world, "k1", &order("1001")).await;
    for key in ["k2", "k3"] {
        let verdict = world.begin_as(key, &order("1001")).await;
        assert_eq!(verdict.expect_replay(), "paid");
        // From then on the key knows by itself, whether or not it comes with its order.
        assert_eq!(world.begin(key).await.expect_replay(), "paid");
    }
}

#[tokio::test]
async fn a_route_may_refuse_instead_and_leaves_the_key_free() {
    let world = World::new();
    pays(&world, "k1", &order("1001")).await;
    let verdict = world.begin_as("k2", &order_or_refuse("1001")).await;
    let elsewhere = verdict.expect_elsewhere();
    assert_eq!(&*elsewhere.rule, "paid-order");
    let Twin::Done(replay) = elsewhere.twin else {
        panic!("{elsewhere:?}");
    };
    assert_eq!(replay.outcome, Outcome::success("paid"));
    assert_eq!(world.record("k2").await, None);
}

#[tokio::test]
async fn other_orders_other_callers_and_other_rules_are_other_work() {
    let world = World::new();
    pays(&world, "k1", &order("1001")).await;
    pays(&world, "k2", &order("1002")).await;
    pays(&world.tenant("bob"), "k1", &order("1001")).await;
    let shipped = [Identity::unique("shipped-order", "1001", Then::Return)];
    pays(&world, "k3", &shipped).await;
    // Two identical orders without a rule are two orders.
    pays(&world, "k4", &[]).await;
    pays(&world, "k5", &[]).await;
}

#[tokio::test]
async fn work_that_failed_was_released_or_is_forgotten_does_not_count() {
    let world = World::new();
    let begin = async |key: &str| world.begin_as(key, &order("1001")).await.expect_claim();
    let refused = Outcome::failure("card declined");
    begin("failed").await.complete(refused).await.unwrap();
    begin("released").await.release().await.unwrap();
    let claim = begin("unknown").await;
    claim.abandon(Reason::new("timeout")).await.unwrap();
    let by = By {
        who: "ops".into(),
        why: "not in the ledger".into(),
    };
    let slot = world.id("unknown").await;
    let settled = world.engine.resolve(slot, Resolution::NotExecuted, &by);
    settled.await.unwrap();
    pays(&world, "paid", &order("1001")).await;
    world.clock.advance(world.policy.retention + SECOND);
    pays(&world, "paid again", &order("1001")).await;
}

#[tokio::test]
async fn a_key_that_stands_for_other_work_by_now_does_not_count() {
    let world = World::new();
    let claim = world.begin_as("k1", &order("1001")).await.expect_claim();
    claim.release().await.unwrap();
    // The same key, used for an order of another number.
    pays(&world, "k1", &order("1002")).await;
    pays(&world, "k2", &order("1001")).await;
}

#[tokio::test]
async fn an_answer_taken_over_from_a_twin_closes_no_other_identity() {
    // Whichever of the two slots comes first.
    for n in 0..16 {
        let world = World::new();
        let order = |number: &str| Identity::unique("order", format!("{number} {n}"), Then::Return);
        let reference =
            |name: &str| Identity::unique("reference", format!("{name} {n}"), Then::Return);
        let claim = world.begin_as("k1", &[order("1"), reference("a")]).await;
        claim.expect_claim().complete("paid 1").await.unwrap();
        let verdict = world.begin_as("k2", &[order("2"), reference("a")]).await;
        assert_eq!(verdict.expect_replay(), "paid 1");
        // The second order itself was never paid.
        let claim = world.begin_as("k3", &[order("2"), reference("b")]).await;
        claim.expect_claim().complete("paid 2").await.unwrap();
        let verdict = world.begin_as("k4", &[order("2")]).await;
        assert_eq!(verdict.expect_replay(), "paid 2");
        assert_eq!(world.begin("k2").await.expect_replay(), "paid 1");
    }
}

// --- while nobody knows yet -----------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn whoever_comes_meanwhile_waits_for_the_answer_and_holds_nothing() {
    let world = World::new();
    let claim = world.begin_as("k1", &order("1001")).await.expect_claim();
    let waiting: Vec<_> = (2..18)
        .map(|n| {
            let world = world.node();
            tokio::spawn(async move { world.begin_as(&format!("k{n}"), &order("1001")).await })
        })
        .collect();
    world.pass(SECOND).await;
    assert_eq!(count(&world, StateName::Claimed).await, 1);
    claim.complete("paid").await.unwrap();
    for waiter in waiting {
        assert_eq!(waiter.await.unwrap().expect_replay(), "paid");
    }
    assert_eq!(count(&world, StateName::Completed).await, 17);
}

#[tokio::test(start_paused = true)]
async fn whoever_waited_for_work_that_failed_does_it() {
    let world = World::new();
    let claim = world.begin_as("k1", &order("1001")).await.expect_claim();
    let other = world.clone();
    let waiting = tokio::spawn(async move { other.begin_as("k2", &order("1001")).await });
    world.pass(SECOND).await;
    claim.complete(Outcome::failure("declined")).await.unwrap();
    let claim: Claim = waiting.await.unwrap().expect_claim();
    claim.complete("paid").await.unwrap();
}

#[tokio::test]
async fn whoever_does_not_want_to_wait_is_bound_by_identities_as_well() {
    let world = World::new();
    let arrival = async |key: &str| {
        let (slot, fingerprint) = (world.slot(key), world.fingerprint());
        let arrival = world.engine.prepare(&slot, &fingerprint).await.unwrap();
        let [identity] = order("1001");
        arrival.under(identity, world.engine.secret().await.unwrap())
    };
    let first = world.engine.admit_at_once(&arrival("k1").await).await;
    let claim = first.unwrap().expect("nobody is at it").expect_claim();
    let second = world.engine.admit_at_once(&arrival("k2").await).await;
    assert!(second.unwrap().is_none(), "the twin is under way");
    claim.complete("paid").await.unwrap();
    let second = world.engine.admit_at_once(&arrival("k2").await).await;
    assert_eq!(second.unwrap().unwrap().expect_replay(), "paid");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_the_rules_say() {
    let world = World::new().policy(|policy| policy.on_busy(OnBusy::Wait(2 * SECOND)));
    let _claim = world.begin_as("k1", &order("1001")).await.expect_claim();
    let other = world.clone();
    let waiting = tokio::spawn(async move { other.begin_as("k2", &order("1001")).await });
    world.pass(3 * SECOND).await;
    waiting.await.unwrap().expect_busy();
    let refusing = world.policy(|policy| policy.on_busy(OnBusy::Refuse));
    let busy = refusing.begin_as("k3", &order("1001")).await.expect_busy();
    assert!(busy.retry_after > SECOND, "{busy:?}");
    assert_eq!(refusing.record("k3").await, None);
}

#[tokio::test]
async fn what_nobody_knows_is_held_until_it_is_settled() {
    let world = World::new().policy(|policy| policy.on_busy(OnBusy::Refuse));
    let claim = world.begin_as("k1", &order("1001")).await.expect_claim();
    claim.abandon(Reason::new("timeout")).await.unwrap();
    let unsettled = world.begin_as("k2", &order("1001")).await.expect_unknown();
    assert_eq!(unsettled.slot, world.id("k1").await);
    assert_eq!(world.record("k2").await, None);

    drop(world.begin_as("k3", &order("1002")).await.expect_claim());
    world.clock.advance(world.policy.lease + SECOND);
    world.begin_as("k4", &order("1002")).await.expect_unknown();
    let lapsed = world.record("k3").await.unwrap();
    assert_eq!(lapsed.state.name(), StateName::Unknown);
}

#[tokio::test]
async fn the_same_key_goes_on_with_what_it_has_taken() {
    let world = World::new().effect(onceward::Effect::Keyed);
    let claim = world.begin_as("k1", &order("1001")).await.expect_claim();
    claim.abandon(Reason::new("timeout")).await.unwrap();
    let claim = world.begin_as("k1", &order("1001")).await.expect_claim();
    assert_eq!(claim.attempt(), 2);
    claim.complete("paid").await.unwrap();
    let verdict = world.begin_as("k2", &order("1001")).await;
    assert_eq!(verdict.expect_replay(), "paid");
}

// --- races, faults and the end of a caller --------------------------------------------------

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_keys_at_once_on_many_nodes_one_executes() {
    for round in 0..20 {
        let world = World::new();
        let number = format!("{round}");
        let arriving: Vec<_> = (0..16)
            .map(|n| {
                let (world, number) = (world.node(), number.clone());
                tokio::spawn(async move {
                    let key = format!("k{n}");
                    match world.begin_as(&key, &order(&number)).await {
                        Verdict::Execute(claim) => {
                            claim.complete("paid").await.unwrap();
                            1
                        }
                        verdict => {
                            assert_eq!(verdict.expect_replay(), "paid");
                            0
                        }
                    }
                })
            })
            .collect();
        let mut executed = 0;
        for arrival in arriving {
            executed += arrival.await.unwrap();
        }
        assert_eq!(executed, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identities_named_in_any_order_never_wait_for_each_other() {
    for _ in 0..20 {
        let world = World::new();
        let [one] = order("1001");
        let two = Identity::unique("invoice", "7", Then::Return);
        let ways = [[one.clone(), two.clone()], [two, one]];
        let arriving: Vec<_> = (0..8)
            .map(|n| {
                let (world, way) = (world.node(), ways[n % 2].clone());
                tokio::spawn(async move { world.begin_as(&format!("k{n}"), &way).await })
            })
            .map(|arrival| async move {
                match arrival.await.unwrap() {
                    Verdict::Execute(claim) => claim.complete("paid").await.map(|_| 1).unwrap(),
                    verdict => {
                        verdict.expect_replay();
                        0
                    }
                }
            })
            .collect();
        let executed = futures_util::future::join_all(arriving).await;
        assert_eq!(executed.iter().sum::<u32>(), 1);
    }
}

/// Two arrivals one after the other, the first of which completes if it may. Returns how often the
/// work was executed.
async fn pays_twice(world: &World) -> u32 {
    let mut executed = 0;
    for key in ["k1", "k2"] {
        if let Ok(Verdict::Execute(claim)) = world.try_begin_as(key, &order("1001")).await {
            executed += 1;
            // A caller is told that it is not stored yet, and it is stored later.
            let _ = claim.complete("paid").await;
        }
    }
    executed
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_any_call_gives_no_second_execution() {
    let world = World::new();
    assert_eq!(pays_twice(&world).await, 1);
    let calls = world.store.count();
    for fault in [
        Fault::Error,
        Fault::LostReply,
        Fault::NeverApplied,
        Fault::NeverAnswered,
    ] {
        for at in 1..=calls {
            let world = World::new().policy(|policy| policy.on_busy(OnBusy::Refuse));
            world.store.fail_at(at, fault);
            let other = world.clone();
            let paying = tokio::spawn(async move { pays_twice(&other).await });
            world.pass(60 * SECOND).await;
            let mut executed = paying.await.unwrap();
            // With the store back, whoever comes next is told what there is, or does it.
            match world.begin_as("k3", &order("1001")).await {
                Verdict::Execute(claim) => {
                    claim.complete("paid").await.unwrap();
                    executed += 1;
                }
                Verdict::Unknown(_) => {}
                verdict => assert_eq!(verdict.expect_replay(), "paid"),
            }
            assert_eq!(executed, 1, "{fault:?} at call {at}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_a_twin_is_told_once_the_own_key_has_it() {
    let world = World::new();
    pays(&world, "k1", &order("1001")).await;
    world.store.fail_next_of(Call::Replace, 100, Fault::Error);
    let other = world.clone();
    let asking = tokio::spawn(async move { other.try_begin_as("k2", &order("1001")).await });
    world.pass(15 * SECOND).await;
    asking.await.unwrap().unwrap_err();
    world.store.mend();
    world.pass(15 * SECOND).await;
    assert_eq!(world.begin("k2").await.expect_replay(), "paid");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_halfway_leaves_the_key_free() {
    let world = World::new();
    world.engine.secret().await.unwrap();
    let before = world.store.count();
    // The second insert is the reservation.
    world.store.fail_at(before + 2, Fault::Held);
    let other = world.clone();
    let arriving = tokio::spawn(async move { other.begin_as("k1", &order("1001")).await });
    world.store.until_held().await;
    arriving.abort();
    assert!(arriving.await.unwrap_err().is_cancelled());
    world.store.release();
    world.pass(SECOND).await;
    assert_eq!(world.record("k1").await, None);
    pays(&world, "k2", &order("1001")).await;
}

// --- suspicion ------------------------------------------------------------------------------

#[tokio::test]
async fn a_suspected_duplicate_passes_and_its_record_says_so() {
    let world = World::new();
    pays(&world, "k1", &facts(Suspicion::Flag)).await;
    pays(&world, "k2", &facts(Suspicion::Flag)).await;
    let notes =
        |record: &onceward::Record| record.audit.iter().map(|it| it.deed).collect::<Vec<_>>();
    assert_eq!(notes(&world.record("k1").await.unwrap()), []);
    assert_eq!(notes(&world.record("k2").await.unwrap()), [Deed::Suspected]);
}

#[tokio::test(start_paused = true)]
async fn a_suspected_duplicate_is_refused_or_answered_until_the_window_is_over() {
    let world = World::new().policy(|policy| policy.on_busy(OnBusy::Refuse));
    pays(&world, "k1", &facts(Suspicion::Refuse)).await;
    let elsewhere = world.begin_as("k2", &facts(Suspicion::Refuse)).await;
    assert_eq!(elsewhere.expect_elsewhere().twin, Twin::Suspected);
    assert_eq!(world.record("k2").await, None);
    let verdict = world.begin_as("k3", &facts(Suspicion::Return)).await;
    assert_eq!(verdict.expect_replay(), "paid");
    world.clock.advance(WINDOW + SECOND);
    // What is under way is compared with, however long ago it began.
    let claim = world.begin_as("k4", &facts(Suspicion::Refuse)).await;
    let claim = claim.expect_claim();
    world.pass(WINDOW + SECOND).await;
    let elsewhere = world.begin_as("k5", &facts(Suspicion::Refuse)).await;
    assert_eq!(elsewhere.expect_elsewhere().twin, Twin::Suspected);
    claim.complete("paid").await.unwrap();
    pays(&world, "k5", &facts(Suspicion::Refuse)).await;
}

#[tokio::test]
async fn work_that_is_confirmed_passes_and_the_next_is_compared_with_it() {
    let world = World::new().policy(|policy| policy.on_busy(OnBusy::Refuse));
    pays(&world, "k1", &facts(Suspicion::Refuse)).await;
    let meant = facts(Suspicion::Refuse).map(Identity::confirmed);
    let claim = world.begin_as("k2", &meant).await.expect_claim();
    claim.complete("paid again").await.unwrap();
    assert_eq!(world.record("k2").await.unwrap().audit, []);
    let verdict = world.begin_as("k3", &facts(Suspicion::Return)).await;
    assert_eq!(verdict.expect_replay(), "paid again");
    // What succeeds once does so whatever is confirmed.
    pays(&world, "k4", &order("1001")).await;
    let order = order("1001").map(Identity::confirmed);
    assert_eq!(world.begin_as("k5", &order).await.expect_replay(), "paid");
}

#[tokio::test]
async fn nobody_is_suspected_for_work_that_failed() {
    let world = World::new();
    let claim = world.begin_as("k1", &facts(Suspicion::Refuse)).await;
    let refused = Outcome::failure("declined");
    claim.expect_claim().complete(refused).await.unwrap();
    pays(&world, "k2", &facts(Suspicion::Refuse)).await;
}

// --- sweeping -------------------------------------------------------------------------------

#[tokio::test]
async fn reservations_last_as_long_as_the_work_they_stand_for() {
    let world = World::new();
    pays(&world, "k1", &order("1001")).await;
    let claim = world.begin_as("k2", &order("1002")).await.expect_claim();
    claim.abandon(Reason::new("timeout")).await.unwrap();
    let claim = world.begin_as("k3", &order("1003")).await.expect_claim();
    claim.release().await.unwrap();
    pays(&world, "k4", &facts(Suspicion::Flag)).await;
    assert_eq!(count(&world, StateName::Reserved).await, 4);
    let by = By {
        who: "ops".into(),
        why: "under dispute".into(),
    };
    let slot = world.id("k1").await;
    let keep = 3 * world.policy.retention;
    world.engine.extend(slot, keep, &by).await.unwrap();
    world.clock.advance(world.policy.retention + SECOND);
    world.engine.sweep(100).await.unwrap();
    // What was released is forgotten, and so is the window; what is kept, or unknown, is not.
    assert_eq!(count(&world, StateName::Reserved).await, 2);
    assert_eq!(
        world.begin_as("k5", &order("1001")).await.expect_replay(),
        "paid"
    );
    world.begin_as("k6", &order("1002")).await.expect_unknown();
    world.clock.advance(keep);
    for _ in 0..3 {
        world.engine.sweep(100).await.unwrap();
        world.clock.advance(2 * SECOND);
    }
    assert_eq!(count(&world, StateName::Reserved).await, 1);
}

#[tokio::test]
async fn what_has_expired_is_not_kept_longer_by_a_write_that_comes_late() {
    let world = World::new();
    pays(&world, "k1", &order("1001")).await;
    let slot = world.id("k1").await;
    world.store.fail_next_of(Call::Replace, 1, Fault::Held);
    let engine = world.engine.clone();
    let extending = tokio::spawn(async move {
        let by = By {
            who: "ops".into(),
            why: "under dispute".into(),
        };
        engine.extend(slot, 365 * 86_400 * SECOND, &by).await
    });
    world.store.until_held().await;
    world.clock.advance(world.policy.retention);
    // The order counts as open again, and is paid under another key.
    pays(&world, "k2", &order("1001")).await;
    world.store.release();
    assert!(extending.await.unwrap().is_err());
    let kept = world.record("k1").await;
    assert!(kept.is_none_or(|it| it.audit.is_empty()));
}

#[tokio::test]
async fn a_reservation_costs_one_more_write() {
    let world = World::new();
    world.engine.secret().await.unwrap();
    let before = world.store.count();
    pays(&world, "k1", &order("1001")).await;
    let calls = world.store.calls();
    let expected = [Call::Insert, Call::Insert, Call::Replace];
    assert_eq!(calls[before..], expected);
}
