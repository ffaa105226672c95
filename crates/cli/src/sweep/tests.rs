//! Sweeping in a world whose time passes when the test says so.

use onceward::{
    Reason, Store as _, Timestamp,
    record::StateName,
    testing::{ExpectVerdict as _, ManualClock, World, records},
};

use super::*;

/// Hears nothing.
fn nobody(_: &str, _: usize) {}

/// Leaves two expired records, a lapsed claim and an unknown record.
async fn world() -> World {
    let world = World::new();
    for key in ["k1", "k2"] {
        let claim = world.begin(key).await.expect_claim();
        claim.complete("paid").await.unwrap();
    }
    let claim = world.begin("k3").await.expect_claim();
    claim.abandon(Reason::LAPSED).await.unwrap();
    world.clock.advance(world.policy.retention);
    drop(world.begin("k4").await.expect_claim());
    world
        .clock
        .advance(world.policy.lease + Duration::from_micros(1));
    world
}

#[tokio::test]
async fn expired_records_go_and_lapsed_claims_become_unknown() {
    let world = world().await;
    let swept = sweep(&world.engine, nobody).await.unwrap();
    let wanted = Answer {
        dry_run: false,
        removed: 2,
        lapsed: 1,
    };
    assert_eq!(swept, wanted);
    assert!(world.record("k1").await.is_none());
    for key in ["k3", "k4"] {
        let record = world.record(key).await.unwrap();
        assert_eq!(record.state.name(), StateName::Unknown);
    }

    let again = sweep(&world.engine, nobody).await.unwrap();
    assert_eq!(again, Answer::default());
}

#[tokio::test]
async fn dry_run_counts_the_same_and_touches_nothing() {
    let world = world().await;
    let wanted = Answer {
        dry_run: true,
        removed: 2,
        lapsed: 1,
    };
    for _ in 0..2 {
        let counted = count(&world.engine, nobody).await.unwrap();
        assert_eq!(counted, wanted);
    }
}

#[tokio::test]
async fn more_than_one_step_is_swept() {
    let world = World::new();
    world.engine.secret().await.unwrap();
    for name in 0..=2 * STEP {
        let slot = records::slot(&name.to_string());
        let record = records::completed(records::SHORT);
        let done = world.store.insert(slot, &record, Timestamp::NEVER);
        done.await.unwrap();
    }
    world.clock.advance(Duration::from_secs(1));
    let mut told = Vec::new();
    let swept = sweep(&world.engine, |_, number| told.push(number)).await;
    assert_eq!(swept.unwrap().removed, 2 * STEP + 1);
    assert_eq!(told, [STEP, 2 * STEP]);
}

#[tokio::test]
async fn unused_store_stays_unused() {
    let world = World::new();
    sweep(&world.engine, nobody).await.unwrap();
    assert!(!store::is_used(&world.engine).await.unwrap());
}

#[test]
fn pulse_beats_once_a_second() {
    let clock = ManualClock::new();
    let mut pulse = Pulse::new(&clock);
    let beats = (0..25).filter(|_| {
        clock.advance(Duration::from_millis(100));
        pulse.beats()
    });
    assert_eq!(beats.count(), 2);
}

#[test]
fn counts_say_what_they_count() {
    let swept = Answer {
        dry_run: false,
        removed: 12_960,
        lapsed: 0,
    };
    assert_eq!(
        swept.text(),
        "expired records removed       12,960\nlapsed claims marked unknown  0\n"
    );
}
