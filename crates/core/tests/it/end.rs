//! How claims end: completed, released or abandoned, whatever the store and the caller do.

use std::future::Future;
use std::time::Duration;

use onceward::record::StateName;
use onceward::testing::{Call, ExpectLost, ExpectVerdict, Fault, World};
use onceward::{Claim, Effect, EndError, OnBusy, Reason, State, Verdict};

const SECOND: Duration = Duration::from_secs(1);

fn refusing() -> World {
    World::new().policy(|policy| policy.on_busy(OnBusy::Refuse))
}

/// The three ways to end a claim.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Complete,
    Release,
    Abandon,
}

impl Verb {
    const ALL: [Self; 3] = [Self::Complete, Self::Release, Self::Abandon];

    fn of(self, claim: Claim) -> impl Future<Output = Result<(), EndError>> + Send {
        // Called here, not when the future is polled.
        let (mut complete, mut release, mut abandon) = (None, None, None);
        match self {
            Self::Complete => complete = Some(claim.complete("paid")),
            Self::Release => release = Some(claim.release()),
            Self::Abandon => abandon = Some(claim.abandon(Reason::new("timeout"))),
        }
        async {
            match (complete, release, abandon) {
                (Some(complete), ..) => complete.await.map(drop),
                (_, Some(release), _) => release.await,
                (_, _, abandon) => abandon.expect("one of the three").await,
            }
        }
    }

    /// Sees that the store has it.
    async fn expect_stored(self, world: &World, key: &str) {
        let record = world.record(key).await;
        match (self, record.as_ref().map(|record| &record.state)) {
            (Self::Complete, Some(State::Completed(_))) | (Self::Release, None) => {}
            (Self::Abandon, Some(State::Unknown(reason))) => {
                assert_eq!(reason.as_str(), "timeout");
            }
            (verb, state) => panic!("{verb:?} left {state:?}"),
        }
    }
}

/// Lets a future run until it waits for something, then drops it.
async fn poll_and_drop(future: impl Future) {
    let mut future = std::pin::pin!(future);
    let polled = futures_util::future::poll_immediate(future.as_mut()).await;
    assert!(polled.is_none(), "it did not have to wait");
}

// --- cancelled ------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn an_end_whose_future_is_never_polled_is_stored() {
    for verb in Verb::ALL {
        let world = refusing();
        let claim = world.begin("k1").await.expect_claim();
        drop(verb.of(claim));
        world.settle().await;
        verb.expect_stored(&world, "k1").await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_dropped_while_the_store_has_not_answered_is_stored() {
    let faults = [Fault::Held, Fault::NeverApplied, Fault::NeverAnswered];
    for (verb, fault) in Verb::ALL.into_iter().flat_map(|it| faults.map(|f| (it, f))) {
        let world = refusing();
        let claim = world.begin("k1").await.expect_claim();
        world.store.fail_next(fault);
        poll_and_drop(verb.of(claim)).await;
        world.settle().await;
        verb.expect_stored(&world, "k1").await;
        // Landing once more changes nothing.
        world.store.release();
        world.settle().await;
        verb.expect_stored(&world, "k1").await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_dropped_between_two_tries_is_stored() {
    for verb in Verb::ALL {
        let world = refusing();
        let claim = world.begin("k1").await.expect_claim();
        world.store.fail_next(Fault::Error);
        poll_and_drop(verb.of(claim)).await;
        world.settle().await;
        verb.expect_stored(&world, "k1").await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_dropped_while_a_renewal_is_under_way_is_stored() {
    for verb in Verb::ALL {
        let world = refusing();
        let claim = world.begin("k1").await.expect_claim();
        world.store.fail_next(Fault::Held);
        world.pass(world.policy.lease / 2).await;
        world.store.until_held().await;
        poll_and_drop(verb.of(claim)).await;
        world.store.release();
        world.settle().await;
        verb.expect_stored(&world, "k1").await;
    }
}

// --- beside a renewal -----------------------------------------------------------------------

/// Has the keeper look around at once, without any time passing: a shorter lease wakes it.
async fn wake_keeper(world: &World) {
    let hasty = world.clone().policy(|policy| policy.lease(SECOND));
    let claim = hasty.begin("wakes").await.expect_claim();
    claim.release().await.expect("the store answers");
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_waited_for_an_end_does_not_write_over_it() {
    for verb in [Verb::Complete, Verb::Abandon] {
        let world = refusing();
        let claim = world.begin("k1").await.expect_claim();
        world.clock.advance(world.policy.lease / 2);
        world.store.fail_next(Fault::Held);
        let end = tokio::spawn(verb.of(claim));
        world.store.until_held().await;
        // The renewal is due, and waits for the record that the end has.
        wake_keeper(&world).await;
        let writes = world.store.count_of(Call::Replace);
        world.store.release();
        end.await.unwrap().unwrap();
        let ended = world.record("k1").await.unwrap();
        world.clock.advance(SECOND);
        world.settle().await;
        wake_keeper(&world).await;

        let later = world.record("k1").await.unwrap();
        assert_eq!((later.fence, later.written), (ended.fence, ended.written));
        assert_eq!(world.store.count_of(Call::Replace), writes, "{verb:?}");
        verb.expect_stored(&world, "k1").await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_renewal_follows_an_end_that_found_itself_unknown_and_failed() {
    let world = refusing();
    let claim = world.begin("k1").await.expect_claim();
    world.clock.advance(world.policy.lease);
    world.node().begin("k1").await.expect_unknown();
    let told = world.record("k1").await.unwrap();
    // The first try finds what others were told, the second fails.
    world.store.fail_at(world.store.count() + 2, Fault::Error);
    let end = tokio::spawn(claim.complete("paid"));
    world.settle().await;
    wake_keeper(&world).await;

    let later = world.record("k1").await.unwrap();
    assert_eq!(later.state.name(), StateName::Unknown);
    assert_eq!((later.fence, later.written), (told.fence, told.written));
    world.node().begin("k1").await.expect_unknown();
    world.pass(2 * SECOND).await;
    end.await.unwrap().unwrap();
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
}

// --- retried --------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn an_end_survives_every_fault_at_every_call() {
    for verb in Verb::ALL {
        for fault in Fault::ALL {
            // An unreadable record stays unreadable; it is not written over.
            if fault == Fault::Unreadable {
                continue;
            }
            for nth in 1..=3 {
                let world = refusing();
                let claim = world.begin("k1").await.expect_claim();
                let before = world.store.count();
                for call in 1..=nth {
                    world.store.fail_at(before + call, fault);
                }
                let end = tokio::spawn(verb.of(claim));
                world.settle().await;
                world.store.release();
                world.pass(17 * SECOND).await;
                world.store.mend();
                match end.await.unwrap() {
                    Ok(()) | Err(EndError::Pending { .. }) => {}
                    Err(error) => panic!("{verb:?} {fault:?} {nth}: {error:?}"),
                }
                verb.expect_stored(&world, "k1").await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_completion_is_retried_while_the_store_is_away_and_found_afterwards() {
    let world = refusing();
    let claim = world.begin("k1").await.expect_claim();
    world.store.set_down(true);
    claim.complete("paid").await.unwrap_err().expect_pending();
    world.pass(10 * world.policy.lease).await;
    world.store.set_down(false);
    world.pass(2 * SECOND).await;
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_waits_for_the_store_heals_what_others_marked_meanwhile() {
    let world = refusing();
    let claim = world.begin("k1").await.expect_claim();
    let id = claim.id();
    // The holder is cut off until its claim has lapsed and somebody was told so; it learns that
    // from a renewal, and is cut off again before it can complete.
    world.clock.advance(world.policy.lease);
    world.node().begin("k1").await.expect_unknown();
    world.pass(2 * SECOND).await;
    assert!(!claim.is_held());
    world.store.set_down(true);
    claim.complete("paid").await.unwrap_err().expect_pending();
    world.store.set_down(false);
    world.pass(2 * SECOND).await;

    let found = world.engine.inspect(id).await.unwrap().unwrap();
    assert_eq!(found.record.state.name(), StateName::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_second_completion_that_lost_its_reply_is_the_same_completion() {
    let world = refusing();
    let claim = world.begin("k1").await.expect_claim();
    world.store.fail_next(Fault::LostReply);
    let kept = claim.complete("paid").await.unwrap();
    let record = world.record("k1").await.unwrap();
    assert!(kept.body);
    assert_eq!(kept.expires, record.due());
    assert_eq!(world.store.count_of(Call::Replace), 2);
}

#[tokio::test]
async fn an_unreadable_record_is_not_written_over() {
    let world = refusing();
    let claim = world.begin("k1").await.expect_claim();
    world.store.fail_next(Fault::Unreadable);
    let error = claim.complete("paid").await.unwrap_err();
    assert!(matches!(error, EndError::Store(_)), "{error:?}");
}

// --- released -------------------------------------------------------------------------------

#[tokio::test]
async fn a_release_on_the_first_attempt_removes_the_record() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    claim.release().await.unwrap();
    assert_eq!(world.record("k1").await, None);
    // The key is as good as new, for any payload.
    world
        .payload("pay 900")
        .begin("k1")
        .await
        .expect_claim()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_release_on_a_later_attempt_puts_unknown_back() {
    let world = World::new().effect(Effect::Keyed);
    drop(world.begin("k1").await.expect_claim());
    world.clock.advance(world.policy.lease);
    let second = world.begin("k1").await.expect_claim();
    second.release().await.unwrap();

    let record = world.record("k1").await.unwrap();
    assert_eq!(record.state, State::Unknown(Reason::EARLIER_ATTEMPT));
    let third = world.begin("k1").await.expect_claim();
    assert_eq!(third.attempt(), 3);
    assert_eq!(
        world.record("k1").await.unwrap().generation,
        record.generation
    );
}

#[tokio::test]
async fn a_release_past_a_recovery_point_puts_unknown_back() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    claim.reached("reserved", "seat 12").await.unwrap();
    claim.release().await.unwrap();
    let record = world.record("k1").await.unwrap();
    assert_eq!(record.state, State::Unknown(Reason::EARLIER_ATTEMPT));
}

// --- abandoned ------------------------------------------------------------------------------

#[tokio::test]
async fn what_an_abandoned_claim_leads_to_depends_on_the_class() {
    use onceward::Duty::{Probe, Repeat};
    for (effect, duty) in [
        (Effect::Opaque, None),
        (Effect::Probed, Some(Probe)),
        (Effect::Keyed, Some(Repeat)),
        (Effect::Transactional, Some(Repeat)),
        (Effect::Repeatable, Some(Repeat)),
    ] {
        let world = World::new().effect(effect);
        let claim = world.begin("k1").await.expect_claim();
        claim.abandon(Reason::new("timeout")).await.unwrap();
        match (duty, world.begin("k1").await) {
            (Some(duty), Verdict::Execute(claim)) => {
                assert_eq!((claim.duty(), claim.attempt()), (duty, 2), "{effect:?}");
            }
            (None, Verdict::Unknown(unsettled)) => {
                assert_eq!(unsettled.reason.as_str(), "timeout");
            }
            (_, verdict) => panic!("{effect:?}: {verdict:?}"),
        }
    }
}

#[tokio::test]
async fn of_record_and_arrival_the_stricter_class_wins() {
    let keyed = World::new().effect(Effect::Keyed);
    let opaque = keyed.clone().effect(Effect::Opaque);
    let claim = opaque.begin("k1").await.expect_claim();
    claim.abandon(Reason::new("timeout")).await.unwrap();
    keyed.begin("k1").await.expect_unknown();

    let claim = keyed.begin("k2").await.expect_claim();
    claim.abandon(Reason::new("timeout")).await.unwrap();
    opaque.begin("k2").await.expect_unknown();
    keyed.complete("k2", "paid").await;
}

// --- kept -----------------------------------------------------------------------------------

#[tokio::test]
async fn keep_for_overrides_the_retention() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim().keep_for(SECOND);
    let kept = claim.complete("declined").await.unwrap();
    assert_eq!(
        kept.expires,
        world.record("k1").await.unwrap().written + SECOND
    );

    world.clock.advance(SECOND - Duration::from_micros(1));
    assert_eq!(world.begin("k1").await.expect_replay(), "declined");
    world.clock.advance(Duration::from_micros(1));
    world.complete("k1", "paid").await;
}

#[tokio::test]
async fn a_final_refusal_is_an_outcome_too() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    let declined = onceward::Outcome::failure("declined").with_head("402");
    claim.complete(declined.clone()).await.unwrap();
    let Verdict::Replay(replay) = world.begin("k1").await else {
        panic!("a refusal is replayed");
    };
    assert_eq!(replay.outcome, declined);
}

#[tokio::test]
async fn an_empty_answer_is_replayed_as_an_empty_answer() {
    let world = World::new();
    world.complete("k1", "").await;
    assert_eq!(world.begin("k1").await.expect_replay(), "");
}

#[tokio::test(start_paused = true)]
async fn a_released_claim_of_probed_work_leaves_its_fence_to_be_greater_than() {
    let world = refusing().effect(Effect::Probed);
    let claim = world.begin("k1").await.expect_claim();
    let first = claim.fence();
    claim.release().await.unwrap();
    // Without the record another process, whose clock is behind, could mint a lower fence.
    let left = world.record("k1").await.unwrap();
    assert_eq!(left.state, State::Open);
    let next = world.node().begin("k1").await.expect_claim();
    assert!(next.fence() > first && next.attempt() == 1);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_lost_its_reply_is_a_release_though_an_open_record_has_no_mark() {
    let world = refusing().effect(Effect::Probed);
    let claim = world.begin("k1").await.expect_claim();
    world.store.fail_next_of(Call::Replace, 1, Fault::LostReply);
    claim.release().await.unwrap();
    assert_eq!(world.record("k1").await.unwrap().state, State::Open);
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_renewed_between_two_tries_to_end_it() {
    let world = refusing();
    let claim = world.begin("k1").await.expect_claim();
    world.settle().await;
    world.clock.advance(world.policy.lease / 3);
    // Eight tries to complete fail within a second; then the keeper comes by.
    world.store.fail_next_of(Call::Replace, 8, Fault::Error);
    claim.complete("paid").await.unwrap();
    let calls = world.store.calls();
    let replaced = calls.iter().filter(|call| **call == Call::Replace).count();
    assert_eq!(
        replaced,
        8 + 2,
        "the failed tries, one renewal, and the completion"
    );
}
