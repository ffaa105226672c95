//! What a cache may say, and what it must not, with both sides in a test's hands.

use std::sync::Arc;
use std::time::Duration;

use onceward::Store as _;
use onceward::record::Deed;
use onceward::store::{Insert, Swap};
use onceward::testing::records::{self, LONG};
use onceward::testing::{Call, ExpectVerdict as _};
use onceward::{By, Fence, NotSettled, Reason, Record, Resolution, Seal, SlotId, State, Timestamp};

use self::world::{World, claim_over};
use super::chores::CHECKS_MAX;
use super::{Cache as _, Memo};

mod world;

onceward::conformance!(contract, World::new().running());

#[tokio::test(start_paused = true)]
async fn a_retry_is_answered_without_the_truth() {
    let world = World::new();
    world.complete("k", "paid").await;
    let asked = world.truth.count();
    let other = world.node();
    assert_eq!(other.begin("k").await.expect_replay(), "paid");
    assert_eq!(world.truth.count_of(Call::Insert), 2, "the secret, and k");
    // The answer was compared with the truth, in the background.
    world.quiet().await;
    assert_eq!(world.truth.calls()[asked..], [Call::Get, Call::Get]);
}

#[tokio::test(start_paused = true)]
async fn what_the_cache_lacks_says_nothing() {
    let world = World::new();
    world.complete("k", "paid").await;
    world.memory.clear();
    assert_eq!(world.node().begin("k").await.expect_replay(), "paid");
    // And is remembered again.
    world.quiet().await;
    let memo = world.memory.look(world.id("k").await).await.unwrap();
    assert!(memo.is_some());
}

#[tokio::test(start_paused = true)]
async fn another_payload_is_refused_by_the_truth() {
    let world = World::new();
    world.complete("k", "paid").await;
    let gets = world.truth.count_of(Call::Get);
    world.payload("pay 900").begin("k").await.expect_mismatch();
    assert!(world.truth.count_of(Call::Get) > gets);
    assert_eq!(world.store.regressions().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_memo_ends_before_its_record() {
    let world = World::new();
    world.complete("k", "paid").await;
    let day = world.policy.retention;
    world.clock.advance(day - day / 200);
    let inserts = world.truth.count_of(Call::Insert);
    assert_eq!(world.begin("k").await.expect_replay(), "paid");
    assert_eq!(world.truth.count_of(Call::Insert), inserts + 1);
    world.clock.advance(day / 100);
    drop(world.begin("k").await.expect_claim());
}

#[tokio::test(start_paused = true)]
async fn only_answers_are_remembered_and_never_the_secret() {
    let world = World::new();
    let claim = world.begin("k").await.expect_claim();
    world.quiet().await;
    let id = world.id("k").await;
    assert_eq!(world.memory.look(id).await.unwrap(), None);
    claim.abandon(Reason::LAPSED).await.unwrap();
    world.quiet().await;
    assert_eq!(world.memory.look(id).await.unwrap(), None);
    assert_eq!(world.memory.look(SlotId::RESERVED).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_answer_is_not_remembered_again() {
    let world = World::new();
    let slot = records::slot("k");
    let answer = world.put(slot, &records::completed(LONG)).await;
    world.quiet().await;
    assert!(world.memory.look(slot).await.unwrap().is_some());

    let before = Fence::mint(Some(answer.fence), answer.written);
    world.forget(slot, before).await.unwrap();
    assert_eq!(world.memory.look(slot).await.unwrap(), None);
    // Whoever still reads the old record does not bring it back, and a newer one comes in.
    let claim = records::claimed(LONG);
    assert_eq!(
        world.insert(slot, &claim).await,
        Insert::Taken(answer.clone())
    );
    world.quiet().await;
    assert_eq!(world.memory.look(slot).await.unwrap(), None);
    let newer = Record {
        fence: before,
        ..Record::clone(&answer)
    };
    world.replace(slot, answer.fence, &newer).await;
    world.quiet().await;
    let memo = world.memory.look(slot).await.unwrap().unwrap();
    assert_eq!(memo.record.fence, before);
}

#[tokio::test(start_paused = true)]
async fn a_memo_that_was_on_its_way_meets_the_tombstone() {
    let world = World::new();
    let slot = records::slot("k");
    world.cache.hold_notes(true);
    let answer = world.put(slot, &records::completed(LONG)).await;
    world.quiet().await;
    let before = Fence::mint(Some(answer.fence), answer.written);
    world.forget(slot, before).await.unwrap();
    world.cache.hold_notes(false);
    world.quiet().await;
    assert_eq!(world.cache.noted(), 1, "it did arrive");
    assert_eq!(world.memory.look(slot).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_memo_that_waited_for_long_is_not_written() {
    let world = World::asleep();
    let slot = records::slot("k");
    world.put(slot, &records::completed(LONG)).await;
    world.clock.advance(Duration::from_secs(31));
    let world = world.running_late();
    world.quiet().await;
    assert_eq!(world.cache.noted(), 0);
}

#[tokio::test(start_paused = true)]
async fn without_the_cache_the_truth_answers_and_nobody_waits_for_long() {
    let world = World::new();
    world.complete("k", "paid").await;
    world.cache.set_down(true);
    for _ in 0..100 {
        assert_eq!(world.node_beside().begin("k").await.expect_replay(), "paid");
    }
    assert_eq!(world.cache.looks_in_vain(), 3, "then it is left out");
    world.complete("new", "paid").await;
    world.cache.set_down(false);
    world.clock.advance(Duration::from_secs(10));
    assert_eq!(world.begin("k").await.expect_replay(), "paid");
    assert_eq!(world.begin("new").await.expect_replay(), "paid");
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_hangs_costs_a_moment() {
    let world = World::new();
    world.complete("k", "paid").await;
    world.cache.set_hanging(true);
    let replays = async {
        for _ in 0..100 {
            assert_eq!(world.begin("k").await.expect_replay(), "paid");
        }
    };
    let all = tokio::time::timeout(Duration::from_millis(200), replays).await;
    all.expect("nobody waits for it any more");
}

#[tokio::test(start_paused = true)]
async fn retries_are_answered_while_the_truth_is_away() {
    let world = World::new();
    world.complete("k", "paid").await;
    world.truth.set_down(true);
    assert_eq!(world.begin("k").await.expect_replay(), "paid");
    let (id, other) = (world.id("k").await, records::claimed(LONG));
    assert!(!world.can_insert(records::slot("other"), &other).await);
    assert!(!world.can_insert(id, &other).await, "nothing is guessed");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_the_truth_lost_is_evidence() {
    let world = World::new();
    world.complete("k", "paid").await;
    let id = world.id("k").await;
    world.lose(id).await;

    assert_eq!(world.begin("k").await.expect_replay(), "paid");
    world.quiet().await;
    assert_eq!(world.store.regressions().count(), 1);
    assert!(world.memory.look(id).await.unwrap().unwrap().is_evidence);
    assert_eq!(world.node().begin("k").await.expect_replay(), "paid");
    world.payload("pay 900").begin("k").await.expect_mismatch();
    assert_eq!(world.store.regressions().count(), 1, "once per slot");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_there_was_no_room_to_compare_is_compared_when_it_is_given_again() {
    let world = World::asleep();
    let answer = Arc::new(records::completed(LONG).stamped(world.now()));
    let memo = Memo::of(&answer, world.now()).unwrap();
    let mut claim = records::claimed(LONG);
    claim.seal = answer.seal;
    let slots: Vec<_> = (0..=CHECKS_MAX as u64)
        .map(|number| records::slot(&number.to_string()))
        .collect();
    for slot in &slots {
        world.memory.note(*slot, &memo, LONG).await.unwrap();
        world.insert(*slot, &claim).await;
    }
    let world = world.running_late();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let regressions = world.store.regressions();
    assert_eq!(regressions.count(), CHECKS_MAX as u64);

    world.insert(slots[CHECKS_MAX], &claim).await;
    world.quiet().await;
    assert_eq!(regressions.count(), CHECKS_MAX as u64 + 1);
}

#[tokio::test(start_paused = true)]
async fn no_other_payload_is_granted_against_evidence() {
    let world = World::new();
    world.complete("k", "paid").await;
    world.lose(world.id("k").await).await;
    world.payload("pay 900").begin("k").await.expect_mismatch();
    assert_eq!(world.store.regressions().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_silent_claim_is_taken_over_against_evidence() {
    let world = World::new();
    let slot = records::slot("k");
    let claim = world.put(slot, &records::claimed(LONG)).await;
    let answer = Record {
        state: records::completed(LONG).state,
        ..records::rewritten(&claim)
    };
    world.replace(slot, claim.fence, &answer).await;
    world.quiet().await;
    // The truth fell back to the claim.
    world.lose(slot).await;
    world.plant(slot, &claim).await;

    let over = claim_over(&claim);
    let swap = world.try_replace(slot, claim.fence, &over).await;
    let Swap::Moved(Some(shown)) = swap else {
        panic!("granted against evidence: {swap:?}");
    };
    assert!(shown.outcome().is_some());
    assert_eq!(world.store.regressions().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_late_claim_over_something_else_is_late_whatever_the_cache_has() {
    let world = World::new();
    let slot = records::slot("k");
    world.put(slot, &records::completed(LONG)).await;
    world.quiet().await;
    let other = records::claimed(LONG);
    let replace = world
        .store
        .replace(slot, other.fence, &other, Timestamp::ZERO);
    assert_eq!(replace.await.unwrap().value, Swap::Late);
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_takes_away_is_no_loss() {
    let world = World::new();
    let slot = records::slot("k");
    let answer = world.put(slot, &records::completed(LONG)).await;
    world.quiet().await;
    let claim = records::claimed(LONG);
    // Answered from the cache, and taken away before the answer was compared.
    world.insert(slot, &claim).await;
    let before = Fence::mint(Some(answer.fence), answer.written);
    world.forget(slot, before).await.unwrap();
    world.lose(slot).await;
    world.quiet().await;
    assert_eq!(world.store.regressions().count(), 0);
    assert_eq!(world.insert(slot, &claim).await, Insert::Done);
}

#[tokio::test(start_paused = true)]
async fn a_cache_restored_from_before_an_operators_word_is_overruled() {
    let world = World::new();
    let slot = records::slot("k");
    let answer = world.put(slot, &records::completed(LONG)).await;
    world.quiet().await;
    let old = world.memory.snapshot();
    world.lose(slot).await;
    let opened = Record {
        generation: answer.generation,
        ..records::open(LONG)
    };
    world.forget(slot, opened.fence).await.unwrap();
    world.plant(slot, &opened).await;
    world.memory.restore(old);

    let other = Record {
        seal: Seal {
            rules: 3,
            digest: [7; 32],
        },
        ..records::claimed(LONG)
    };
    let Insert::Taken(shown) = world.insert(slot, &other).await else {
        panic!("the slot is taken");
    };
    assert_eq!(shown.state, State::Open);
    assert_eq!(world.store.regressions().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_operator_who_cannot_tell_the_cache_changes_nothing() {
    let world = World::new();
    world.complete("k", "paid").await;
    let id = world.id("k").await;
    let by = By {
        who: "ann".into(),
        why: "an audit".into(),
    };
    let keep = 2 * world.policy.retention;
    world.cache.set_down(true);
    let refused = world.engine.extend(id, keep, &by).await.unwrap_err();
    let NotSettled::Engine(error) = refused else {
        panic!("{refused:?}");
    };
    let told = error_line(&error);
    assert!(told.contains("switch it off on every node"), "{told}");
    let record = world.engine.inspect(id).await.unwrap().unwrap().record;
    assert!(record.audit.is_empty());

    world.cache.set_down(false);
    world.engine.extend(id, keep, &by).await.unwrap();
    let record = world.engine.inspect(id).await.unwrap().unwrap().record;
    assert_eq!(record.audit[0].deed, Deed::Extended);
    world.quiet().await;
    // Its successor is remembered, and counts for longer.
    let memo = world.memory.look(id).await.unwrap().unwrap();
    assert_eq!(memo.record.fence, record.fence);
    assert!(memo.until > world.now() + keep / 2);
}

#[tokio::test(start_paused = true)]
async fn an_operators_answer_is_remembered() {
    let world = World::new();
    let claim = world.begin("k").await.expect_claim();
    claim.abandon(Reason::LAPSED).await.unwrap();
    let by = By {
        who: "ann".into(),
        why: "in the ledger".into(),
    };
    let id = world.id("k").await;
    let paid = Resolution::Completed("paid".into());
    world.engine.resolve(id, paid, &by).await.unwrap();
    world.quiet().await;
    assert!(world.memory.look(id).await.unwrap().is_some());
    assert_eq!(world.begin("k").await.expect_replay(), "paid");
}

#[tokio::test]
async fn a_memo_of_another_state_is_no_answer() {
    let record = Arc::new(records::claimed(LONG));
    let memo = Memo {
        record,
        until: Timestamp::NEVER,
        is_evidence: false,
    };
    assert!(!memo.counts_at(Timestamp::ZERO));
}

fn error_line(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        line = format!("{line}: {cause}");
        source = cause.source();
    }
    line
}
