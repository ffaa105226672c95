//! What operators do: look, settle, keep longer.

use std::sync::LazyLock;
use std::time::Duration;

use onceward::record::{Deed, Note, StateName};
use onceward::store::Filter;
use onceward::testing::{ExpectLost, ExpectVerdict, Fault, World};
use onceward::{By, Duty, NotSettled, OnBusy, Outcome, Reason, Resolution, SlotId, State};

const HOUR: Duration = Duration::from_secs(3600);

fn refusing() -> World {
    World::new().policy(|policy| policy.on_busy(OnBusy::Refuse))
}

fn by() -> &'static By {
    static BY: LazyLock<By> = LazyLock::new(|| By {
        who: "op@example".into(),
        why: "not in the ledger, ticket 12".into(),
    });
    &BY
}

/// Leaves the outcome of `key` unknown, and returns its slot.
async fn unknown(world: &World, key: &str) -> SlotId {
    let claim = world.begin(key).await.expect_claim();
    let id = claim.id();
    let abandoned = claim.abandon(Reason::new("timeout")).await;
    abandoned.expect("the store answers");
    id
}

// --- looking --------------------------------------------------------------------------------

#[tokio::test]
async fn a_list_shows_every_record_once_and_never_the_secret() {
    let world = World::new();
    let mut expected = Vec::new();
    for key in ["k1", "k2", "k3", "k4", "k5"] {
        expected.push(unknown(&world, key).await);
    }
    expected.sort_unstable();
    for limit in [1, 2, 3, 100] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = world.engine.list(&Filter::default(), after, limit).await;
            let page = page.unwrap().value;
            assert!(page.records.len() <= limit);
            found.extend(page.records.into_iter().map(|(slot, _)| slot));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "{limit} a page");
    }
}

#[tokio::test]
async fn a_list_can_be_narrowed_by_tenant_state_and_age() {
    let world = World::new();
    unknown(&world, "k1").await;
    world.clock.advance(HOUR);
    let now = world.record("k1").await.unwrap().written + HOUR;
    world.complete("k2", "paid").await;
    unknown(&world.tenant("bob"), "k1").await;

    let count = async |filter: Filter| {
        let page = world.engine.list(&filter, None, 100).await;
        page.unwrap().value.records.len()
    };
    let all = Filter::default();
    assert_eq!(count(all.clone()).await, 3);
    let tenant = Some("bob".to_owned());
    assert_eq!(
        count(Filter {
            tenant,
            ..all.clone()
        })
        .await,
        1
    );
    let state = Some(StateName::Unknown);
    assert_eq!(
        count(Filter {
            state,
            ..all.clone()
        })
        .await,
        2
    );
    let written_before = Some(now);
    assert_eq!(
        count(Filter {
            written_before,
            ..all
        })
        .await,
        1
    );
}

#[tokio::test]
async fn a_record_can_be_inspected_by_its_slot() {
    let world = World::new();
    let id = unknown(&world, "k1").await;
    assert_eq!(world.engine.id_of(&world.slot("k1")).await.unwrap(), id);
    let found = world.engine.inspect(id).await.unwrap().unwrap();
    assert_eq!(found.slot, id);
    assert!(found.is_unsettled());
    assert_eq!(found.record.scope.tenant(), "alice");
    let other = world.id("k2").await;
    assert_eq!(world.engine.inspect(other).await.unwrap(), None);
}

// --- settling -------------------------------------------------------------------------------

#[tokio::test]
async fn an_unknown_record_settled_as_completed_is_replayed() {
    let world = World::new();
    let id = unknown(&world, "k1").await;
    let resolution = Resolution::Completed(Outcome::success("paid, see ledger"));
    world.engine.resolve(id, resolution, by()).await.unwrap();
    assert_eq!(world.begin("k1").await.expect_replay(), "paid, see ledger");
    let note = &world.record("k1").await.unwrap().audit[0];
    assert_eq!(note.deed, Deed::Completed);
    // Kept from now on, as any outcome.
    world.clock.advance(world.policy.retention);
    world
        .begin("k1")
        .await
        .expect_claim()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn an_unknown_record_settled_as_not_executed_is_claimed_by_the_next() {
    let world = World::new();
    let id = unknown(&world, "k1").await;
    let before = world.record("k1").await.unwrap();
    world.clock.advance(HOUR);
    let settled = world.engine.resolve(id, Resolution::NotExecuted, by());
    settled.await.unwrap();
    let open = world.record("k1").await.unwrap();
    assert_eq!((&open.state, open.mark), (&State::Open, None));

    let claim = world.begin("k1").await.expect_claim();
    assert_eq!((claim.attempt(), claim.duty()), (1, Duty::Execute));
    let claimed = world.record("k1").await.unwrap();
    assert_ne!(claimed.generation, before.generation);
    let [note] = &claimed.audit[..] else {
        panic!("the audit trail is kept: {:?}", claimed.audit);
    };
    let Note { deed, who, why, at } = note;
    assert_eq!(*deed, Deed::NotExecuted);
    assert_eq!((&**who, &**why), (&*by().who, &*by().why));
    assert_eq!(*at, before.written + HOUR);
    claim.complete("paid").await.unwrap();
    assert_eq!(world.record("k1").await.unwrap().audit, claimed.audit);
}

#[tokio::test]
async fn a_released_claim_over_an_open_record_leaves_it_open_with_its_trail() {
    let world = World::new();
    let id = unknown(&world, "k1").await;
    let settled = world.engine.resolve(id, Resolution::NotExecuted, by());
    settled.await.unwrap();
    world
        .begin("k1")
        .await
        .expect_claim()
        .release()
        .await
        .unwrap();
    let open = world.record("k1").await.unwrap();
    assert_eq!((&open.state, open.audit.len()), (&State::Open, 1));
}

#[tokio::test]
async fn a_lapsed_claim_can_be_settled_and_its_late_holder_changes_nothing() {
    let world = World::new();
    let late = world.begin("k1").await.expect_claim();
    world.clock.advance(world.policy.lease);
    let settled = world
        .engine
        .resolve(late.id(), Resolution::NotExecuted, by());
    settled.await.unwrap();
    // An open record has no mark, so nothing heals it.
    late.complete("first")
        .await
        .unwrap_err()
        .expect_lost()
        .expect_unknown();
    assert_eq!(world.record("k1").await.unwrap().state, State::Open);

    let late = world.begin("k1").await.expect_claim();
    world.clock.advance(world.policy.lease);
    let resolution = Resolution::Completed("settled".into());
    world
        .engine
        .resolve(late.id(), resolution, by())
        .await
        .unwrap();
    let lost = late.complete("second").await.unwrap_err();
    assert_eq!(lost.expect_lost().expect_replay(), "settled");
}

#[tokio::test]
async fn live_claims_completed_and_absent_records_are_not_settled() {
    let world = refusing();
    let claim = world.begin("k1").await.expect_claim();
    let id = claim.id();
    let resolve = async || {
        let settled = world.engine.resolve(id, Resolution::NotExecuted, by());
        settled.await.unwrap_err()
    };
    let before = world.record("k1").await;
    let NotSettled::NotUnknown { state, .. } = resolve().await else {
        panic!("a live claim is its holder's");
    };
    assert_eq!(state, StateName::Claimed);
    assert_eq!(world.record("k1").await, before);

    claim.complete("paid").await.unwrap();
    let NotSettled::NotUnknown { state, .. } = resolve().await else {
        panic!("what is done is done");
    };
    assert_eq!(state, StateName::Completed);
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
    world.clock.advance(world.policy.retention);
    assert!(matches!(resolve().await, NotSettled::Absent(_)));
}

#[tokio::test]
async fn the_secrets_slot_is_no_record() {
    let world = World::new();
    world.engine.secret().await.unwrap();
    let engine = &world.engine;
    let settled = engine.resolve(SlotId::RESERVED, Resolution::NotExecuted, by());
    assert!(matches!(settled.await, Err(NotSettled::Absent(_))));
    let extended = engine.extend(SlotId::RESERVED, HOUR, by());
    assert!(matches!(extended.await, Err(NotSettled::Absent(_))));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_moves_while_it_is_settled_is_left_alone() {
    let world = World::new();
    let late = world.begin("k1").await.expect_claim();
    world.clock.advance(world.policy.lease);
    let id = late.id();
    world.store.fail_at(world.store.count() + 2, Fault::Held);
    let settling = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.resolve(id, Resolution::NotExecuted, by()).await }
    });
    world.store.until_held().await;
    late.complete("paid").await.unwrap();
    world.store.release();
    let settled = settling.await.unwrap();
    assert!(matches!(settled, Err(NotSettled::Moved(_))), "{settled:?}");
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
}

#[tokio::test]
async fn nothing_is_done_without_who_and_why() {
    let world = World::new();
    let id = unknown(&world, "k1").await;
    let before = world.record("k1").await;
    let long = "x".repeat(Note::WHY_MAX + 1);
    for (who, why) in [("", "why"), ("who", ""), (" ", "why"), ("who", &long)] {
        let (who, why) = (who.to_owned(), why.to_owned());
        let by = By { who, why };
        let engine = &world.engine;
        let resolved = engine.resolve(id, Resolution::NotExecuted, &by).await;
        assert!(matches!(resolved, Err(NotSettled::NoReason)));
        let extended = engine.extend(id, HOUR, &by).await;
        assert!(matches!(extended, Err(NotSettled::NoReason)));
        for dry_run in [true, false] {
            let (filter, not_executed) = (Filter::default(), Resolution::NotExecuted);
            let all = engine.resolve_all(&filter, &not_executed, &by, dry_run);
            assert!(matches!(all.await, Err(NotSettled::NoReason)));
        }
    }
    assert_eq!(world.record("k1").await, before);
}

// --- settling many --------------------------------------------------------------------------

#[tokio::test]
async fn all_that_is_unsettled_is_settled_after_a_dry_run_said_so() {
    let world = World::new();
    let mut expected = Vec::new();
    for key in ["k1", "k2", "k3"] {
        expected.push(unknown(&world, key).await);
    }
    let lapsed = world.begin("k4").await.expect_claim();
    expected.push(lapsed.id());
    drop(lapsed);
    world.clock.advance(world.policy.lease);
    let done = world.begin("k5").await.expect_claim();
    done.complete("paid").await.unwrap();
    let _live = world.begin("k6").await.expect_claim();
    unknown(&world.tenant("bob"), "k1").await;
    expected.sort_unstable();

    let filter = Filter {
        tenant: Some("alice".into()),
        ..Filter::default()
    };
    let settle = async |dry_run| {
        let not_executed = Resolution::NotExecuted;
        let settled = world
            .engine
            .resolve_all(&filter, &not_executed, by(), dry_run);
        settled.await.unwrap()
    };
    let writes = world.record("k1").await;
    assert_eq!(settle(true).await.slots, expected);
    assert_eq!(world.record("k1").await, writes, "a dry run writes nothing");
    let settled = settle(false).await;
    assert_eq!((settled.slots, settled.moved), (expected, 0));
    assert_eq!(world.record("k4").await.unwrap().state, State::Open);
    world.tenant("bob").begin("k1").await.expect_unknown();
    assert_eq!(settle(false).await.slots, [], "nothing is left");
}

// --- keeping longer -------------------------------------------------------------------------

#[tokio::test]
async fn a_record_can_be_kept_longer() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    let id = claim.id();
    claim.complete("paid").await.unwrap();
    world.clock.advance(HOUR);
    let keep = 2 * world.policy.retention;
    world.engine.extend(id, keep, by()).await.unwrap();
    world.clock.advance(keep - Duration::from_micros(1));
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
    assert_eq!(
        world.record("k1").await.unwrap().audit[0].deed,
        Deed::Extended
    );
    world.clock.advance(Duration::from_micros(1));
    world
        .begin("k1")
        .await
        .expect_claim()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn what_does_not_expire_cannot_be_kept_longer() {
    let world = refusing();
    let running = world.begin("k1").await.expect_claim();
    let ids = [running.id(), unknown(&world, "k2").await];
    for id in ids {
        let extended = world.engine.extend(id, HOUR, by()).await;
        assert!(matches!(extended, Err(NotSettled::NotKept { .. })));
    }
}

#[tokio::test]
async fn nothing_is_kept_shorter_than_it_was_promised() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    let id = claim.id();
    claim.complete("paid").await.unwrap();
    let shortened = world.engine.extend(id, HOUR, by()).await;
    assert!(matches!(shortened, Err(NotSettled::Shorter(_))));
    world.clock.advance(2 * HOUR);
    assert_eq!(world.begin("k1").await.expect_replay(), "paid");
}

#[tokio::test]
async fn the_secret_is_nobodys_record() {
    let world = World::new();
    world.engine.secret().await.unwrap();
    let found = world.engine.inspect(SlotId::RESERVED).await.unwrap();
    assert_eq!(found, None);
}

#[tokio::test]
async fn a_record_keeps_the_latest_notes() {
    let world = World::new();
    let claim = world.begin("k1").await.expect_claim();
    let id = claim.id();
    claim.complete("paid").await.unwrap();
    for nth in 0..Note::COUNT_MAX + 3 {
        let why = format!("once more, {nth}");
        let who = by().who.clone();
        let by = By { who, why };
        world.engine.extend(id, 48 * HOUR, &by).await.unwrap();
    }
    let audit = &world.record("k1").await.unwrap().audit;
    assert_eq!(audit.len(), Note::COUNT_MAX);
    assert_eq!(&*audit[0].why, "once more, 3");
}
