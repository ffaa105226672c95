//! Rules of the engine and of its parts: each a small story that panics when it does not end as
//! it must.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use futures_util::future::BoxFuture;
use onceward::codec;
use onceward::testing::{Call, ExpectRun as _, ExpectVerdict as _, Fault, World, records};
use onceward::{
    By, Done, Effect, Engine, Identity, Key, OnBusy, Outcome, Resolution, Scope, Secret, Slot,
    Then, Timestamp, Verdict,
};
use tokio::sync::Semaphore;

use super::paused;

type Rule = fn(u64) -> BoxFuture<'static, ()>;

macro_rules! rules {
    ($($rule:ident)*) => {
        &[$((stringify!($rule), |seed| Box::pin($rule(seed)))),*]
    };
}

const RULES: &[(&str, Rule)] = rules! {
    a_claim_whose_reply_was_lost_recognises_itself
    a_claim_that_comes_too_late_does_not_land
    an_answer_past_its_retention_is_not_given
    a_renewed_claim_is_alive
    a_claim_told_unknown_stays_unknown
    a_holder_knows_that_its_lease_is_over_whatever_the_wall_clock_says
    a_lease_counts_from_before_the_claim_was_sent
    a_late_holder_answers_with_what_won
    of_two_twins_one_executes_however_they_name_their_identities
    a_twin_is_told_what_won
    no_two_slots_share_a_name
    no_flipped_bit_goes_unnoticed
};

const DAY: Duration = Duration::from_secs(86_400);

/// How many rules there are.
pub(super) fn round() -> u64 {
    RULES.len() as u64
}

pub(super) fn trial(number: u64) -> Option<String> {
    let (name, rule) = RULES[(number % round()) as usize];
    let held = paused().block_on(async { tokio::spawn(rule(number)).await });
    let panicked = held.err()?.into_panic();
    Some(format!("{name}: {}", super::words(&*panicked)))
}

fn refusing() -> World {
    World::new().policy(|policy| policy.on_busy(OnBusy::Refuse))
}

async fn a_claim_whose_reply_was_lost_recognises_itself(_: u64) {
    let world = refusing();
    world.engine.secret().await.expect("the store answers");
    world.store.fail_next_of(Call::Insert, 1, Fault::LostReply);
    drop(world.begin("k").await.expect_claim());
}

async fn a_claim_that_comes_too_late_does_not_land(_: u64) {
    let world = refusing();
    world.engine.secret().await.expect("the store answers");
    world.store.fail_next_of(Call::Insert, 1, Fault::Held);
    let asking = world.clone();
    let asked = tokio::spawn(async move { asking.try_begin("k").await.map(drop) });
    world.store.until_held().await;
    // Its caller goes away, and a day later the claim reaches the store.
    asked.abort();
    let _ = asked.await;
    world.pass(Duration::from_secs(10)).await;
    world.clock.advance(DAY);
    world.store.release();
    world.settle().await;
    let landed = world.record("k").await;
    assert_eq!(landed, None, "a late claim has landed");
}

async fn an_answer_past_its_retention_is_not_given(_: u64) {
    let world = refusing();
    world.complete("k", "paid").await;
    world.clock.advance(world.policy.retention);
    drop(world.begin("k").await.expect_claim());
}

async fn a_renewed_claim_is_alive(_: u64) {
    let world = refusing();
    let claim = world.begin("k").await.expect_claim();
    world.pass(2 * world.policy.lease).await;
    world.node().begin("k").await.expect_busy();
    claim.complete("paid").await.expect("the claim is held");
}

async fn a_claim_told_unknown_stays_unknown(_: u64) {
    let world = refusing();
    let late = world.begin("k").await.expect_claim();
    world.clock.advance(world.policy.lease);
    world.node().begin("k").await.expect_unknown();
    world.pass(world.policy.lease).await;
    world.node().begin("k").await.expect_unknown();
    drop(late);
}

async fn a_holder_knows_that_its_lease_is_over_whatever_the_wall_clock_says(_: u64) {
    let world = refusing();
    let claim = world.begin("k").await.expect_claim();
    world.clock.step_back(DAY);
    world.clock.advance(world.policy.lease);
    assert!(!claim.is_held(), "held after its lease");
}

async fn a_lease_counts_from_before_the_claim_was_sent(_: u64) {
    let world = refusing();
    world.engine.secret().await.expect("the store answers");
    world.store.fail_next_of(Call::Insert, 1, Fault::Held);
    let asking = world.arrive("k");
    world.store.until_held().await;
    // The process stands still for longer than the engine would wait, and then for a lease more.
    world.clock.advance(Duration::from_secs(4));
    world.store.release();
    let claim = asking.await.expect("it does not panic").expect_claim();
    world
        .clock
        .advance(world.policy.lease - world.policy.lease / 10 - Duration::from_secs(4));
    assert!(!claim.is_held(), "held after its lease");
}

async fn a_late_holder_answers_with_what_won(_: u64) {
    let world = refusing();
    let gate = Arc::new(Semaphore::new(0));
    let (inner, running) = (gate.clone(), world.clone());
    let late = tokio::spawn(async move {
        let work = |_| async move {
            let _passed = inner.acquire().await;
            Done::outcome("its own")
        };
        running.run("k", work).await
    });
    world.settle().await;
    world.clock.advance(world.policy.lease);
    world.node().begin("k").await.expect_unknown();
    settle(&world.engine, &world.slot("k")).await;
    gate.add_permits(1);
    let answer = late.await.expect("it does not panic").expect_replay();
    assert_eq!(answer, "found in the ledger");
}

/// An order and its invoice, of which each is paid once.
fn identities() -> [Identity; 2] {
    ["order", "invoice"].map(|rule| Identity::unique(rule, "1001", Then::Return))
}

async fn of_two_twins_one_executes_however_they_name_their_identities(_: u64) {
    let world = refusing();
    world.engine.secret().await.expect("the store answers");
    let [order, invoice] = identities();
    // The first stands still with one identity taken, before it asks for the other.
    let before = world.store.count();
    world.store.fail_at(before + 3, Fault::Held);
    let (first, named) = (world.clone(), [order.clone(), invoice.clone()]);
    let asking = tokio::spawn(async move { first.begin_as("a", &named).await });
    world.store.until_held().await;
    // The second meets it, and what it has claimed is not given back at once.
    world
        .store
        .fail_next_of(Call::Remove, 1, Fault::NeverApplied);
    let second = world.clone();
    let other = tokio::spawn(async move { second.begin_as("b", &[invoice, order]).await });
    world.settle().await;
    world.store.release();
    let first = asking.await.expect("it does not panic");
    world.pass(Duration::from_secs(20)).await;
    let second = other.await.expect("it does not panic");
    let verdicts = [first, second];
    let executes = |verdict: &Verdict| matches!(verdict, Verdict::Execute(_));
    assert!(verdicts.iter().any(executes), "nobody executes");
}

async fn a_twin_is_told_what_won(_: u64) {
    let world = refusing().effect(Effect::Keyed);
    let [order, _] = identities().map(|identity| [identity]);
    let late = world.begin_as("a", &order).await.expect_claim();
    world.clock.advance(world.policy.lease);
    let node = world.node();
    let claim = node.begin_as("a", &order).await.expect_claim();
    claim.complete("second").await.expect("the claim is held");
    let lost = late.complete("first").await;
    assert!(lost.is_err(), "a late holder wins");
    let told = node.begin_as("b", &order).await.expect_replay();
    assert_eq!(told, "second", "an answer that did not win");
}

/// Settles what nobody knows, as an operator does.
async fn settle(engine: &Engine, slot: &Slot) {
    let id = engine.id_of(slot).await.expect("the store answers");
    let found = Resolution::Completed(Outcome::success("found in the ledger"));
    let by = By {
        who: "ann".to_owned(),
        why: "found in the ledger".to_owned(),
    };
    let settled = engine.resolve(id, found, &by).await;
    settled.expect("an unknown record can be settled");
}

async fn no_two_slots_share_a_name(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let secret = Secret::from_bytes([7; Secret::LEN]);
    // What ends one part and begins the next in a name that is joined.
    let mut text = || {
        let letters = ['a', '|', ':', '/', 'b'];
        let len = random.usize(1..4);
        String::from_iter((0..len).map(|_| letters[random.usize(..letters.len())]))
    };
    let mut slots = std::collections::HashMap::new();
    for _ in 0..2_000 {
        let names = [text(), text(), text()];
        let key = Key::parse(&names[2]).expect("printable");
        let id = Slot::new(Scope::new(&names[0], &names[1]), key).id(&secret);
        let other = slots.insert(id, names.clone());
        let others = other.filter(|other| *other != names);
        assert_eq!(others, None, "{names:?} share a name with another slot");
    }
}

async fn no_flipped_bit_goes_unnoticed(seed: u64) {
    let mut random = Rng::with_seed(seed);
    for record in records::of_every_state() {
        let written = record.written;
        let bytes = codec::encode(&record);
        for _ in 0..200 {
            let mut flipped = bytes.clone();
            flipped[random.usize(..bytes.len())] ^= 1 << random.u8(..8);
            let read = codec::decode(&Bytes::from(flipped), written);
            assert!(read.is_err(), "a flipped bit reads as another record");
        }
        let read = codec::decode(&Bytes::from(bytes), written);
        assert_eq!(read.as_ref(), Ok(&record), "at {:?}", Timestamp::ZERO);
    }
}
