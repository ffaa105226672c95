//! The scenarios: what processes do with slots, each small enough to fail everywhere.
//!
//! None of them asserts anything on its way: with a fault in it every step may end in any way
//! that is allowed, and the judge knows which ways those are.

use std::sync::Arc;
use std::time::Duration;

use onceward::store::Filter;
use onceward::{
    Attempt, By, Claim, Done, Effect, Engine, Fingerprint, Outcome, Reason, Resolution, Then,
    Verdict,
};

use super::{End, Scenario, Scene, Stage};
use crate::lab::Lab;

macro_rules! scenarios {
    ($(#[$doc:meta])* $all:ident: $($name:literal, $effect:ident $(before $service:ident)?,
        [$($key:ident: $end:ident),*] $(under [$($rule:literal: $then:ident),*])?
        => $run:ident;)*) => {
        $(#[$doc])*
        pub const $all: &[Scenario] = &[$(
            Scenario {
                name: $name,
                effect: Effect::$effect,
                service: first(&[$(Effect::$service,)? Effect::$effect]),
                keys: &[$((stringify!($key), End::$end)),*],
                identities: &[$($(($rule, Then::$then)),*)?],
                run: |stage| -> Scene { Box::pin($run(stage)) },
            },
        )*];
    };
}

/// The class of the service: the one that is named, else the one that is declared.
const fn first(classes: &[Effect]) -> Effect {
    classes[0]
}

scenarios! {
    /// Every scenario.
    SCENARIOS:
    "one caller pays", Opaque, [a: Answered] => pays;
    "one caller pays, keyed", Keyed, [a: Answered] => pays;
    "one caller pays, probed", Probed, [a: Answered] => pays;
    "a caller pays twice", Opaque, [a: Answered] => pays_twice;
    "two processes pay at once", Opaque, [a: Answered] => pay_at_once;
    "two processes pay at once, keyed", Keyed, [a: Answered] => pay_at_once;
    "two callers of one process pay at once", Opaque, [a: Answered] => pay_together;
    "the work is not executed, then retried", Opaque, [a: Answered] => not_executed_then_pays;
    "the work ends unknown, then is retried", Opaque, [a: Unknown] => unknown_then_pays;
    "the work ends unknown, then is retried, keyed", Keyed, [a: Settled] => unknown_then_pays;
    "the work panics", Opaque, [a: Unknown] => panics;
    "a rival claims and releases while a claim is retried", Opaque,
        [a: Answered] => rival_releases;
    "by hand: claim, execute, complete", Opaque, [a: Answered] => by_hand;
    "by hand: claim, release, claim", Opaque, [a: Answered] => releases;
    "by hand: claim, execute, abandon", Opaque, [a: Unknown] => abandons;
    "a claim is dropped and lapses", Opaque, [a: Unknown] => drops;
    "a claim is dropped and taken over", Keyed, [a: Answered] => drops;
    "long work is renewed", Opaque, [a: Answered] => renews;
    "work past a recovery point is taken over", Opaque before Keyed, [a: Answered] => resumes;
    "a recovery point is recorded, and the work ends not executed", Opaque before Keyed,
        [a: Settled] => reaches_then_not_executed;
    "a late holder completes after a take-over", Keyed, [a: Answered] => completes_late;
    "a late holder heals its unknown record", Opaque, [a: Settled] => heals;
    "a key is used again after its retention", Opaque, [a: Answered] => expires;
    "a sweep meets a lapsed claim and an expired record", Opaque,
        [a: Answered, b: Unknown] => sweeps;
    "an operator settles as completed", Opaque, [a: Settled] => resolves_completed;
    "an operator settles as not executed", Opaque, [a: Settled] => resolves_not_executed;
    "another payload under the same key", Opaque, [a: Answered] => mismatches;
    "a process is shut down at work", Opaque, [a: Settled] => shuts_down;
    "an order is paid under one key after the other", Opaque,
        [a: Answered, b: Answered, c: Answered] under ["order": Return] => pays_twins;
    "an order is refused under its second key", Keyed,
        [a: Answered, b: Answered, c: Answered] under ["order": Refuse] => pays_twins;
    "an order is paid under two keys at once", Opaque,
        [a: Answered, b: Answered, c: Answered] under ["order": Return] => twins_at_once;
    "an order and its invoice are paid under two keys at once, keyed", Keyed,
        [a: Answered, b: Answered, c: Answered] under ["order": Return, "invoice": Return]
        => twins_at_once;
    "an order is released under one key, and paid under another", Opaque,
        [a: Answered, b: Answered] under ["order": Return] => releases_then_twin;
    "an order is given up under one key, and settled as not executed", Opaque,
        [a: Settled, b: Settled] under ["order": Return] => abandons_then_twin;
}

async fn pays(stage: Arc<Stage>) {
    let _ = stage.lab.pay(&stage.first, "a").await;
}

async fn pays_twice(stage: Arc<Stage>) {
    pays(stage.clone()).await;
    pays(stage).await;
}

async fn pay_at_once(stage: Arc<Stage>) {
    let (lab, first, second) = (&stage.lab, &stage.first, &stage.second);
    let _ = tokio::join!(lab.pay(first, "a"), lab.pay(second, "a"));
}

async fn pay_together(stage: Arc<Stage>) {
    let (lab, engine) = (&stage.lab, &stage.first);
    let _ = tokio::join!(lab.pay(engine, "a"), lab.pay(engine, "a"));
}

async fn pays_twins(stage: Arc<Stage>) {
    let _ = stage.lab.pay(&stage.first, "a").await;
    let _ = stage.lab.pay(&stage.first, "b").await;
}

async fn twins_at_once(stage: Arc<Stage>) {
    let (lab, first, second) = (&stage.lab, &stage.first, &stage.second);
    let _ = tokio::join!(lab.pay(first, "a"), lab.pay(second, "b"));
}

async fn releases_then_twin(stage: Arc<Stage>) {
    if let Some(claim) = stage.lab.claim(&stage.first, "a").await {
        let _ = claim.release().await;
    }
    let _ = stage.lab.pay(&stage.first, "b").await;
}

async fn abandons_then_twin(stage: Arc<Stage>) {
    settles_not_executed(&stage).await;
    let _ = stage.lab.pay(&stage.first, "b").await;
}

async fn not_executed_then_pays(stage: Arc<Stage>) {
    let never_sent = |_| async { Done::not_executed("never sent") };
    let slot = stage.lab.slot("a");
    let _ = stage.first.run(&slot, Lab::payload(), never_sent).await;
    pays(stage).await;
}

async fn unknown_then_pays(stage: Arc<Stage>) {
    let (lab, slot) = (stage.lab.clone(), stage.lab.slot("a"));
    if let Ok(id) = stage.first.id_of(&slot).await
        && let Ok(payload) = lab.sealed(&stage.first, id, &Lab::payload()).await
    {
        let loses_the_answer = move |attempt: Attempt| async move {
            let _ = lab.service.charge(id, attempt.fence(), Some(payload));
            Done::unknown("no answer")
        };
        let _ = stage
            .first
            .run(&slot, Lab::payload(), loses_the_answer)
            .await;
    }
    pays(stage).await;
}

async fn panics(stage: Arc<Stage>) {
    let slot = stage.lab.slot("a");
    // Unwinding without a message: a panic hook would print it for every trial.
    let work = |_| async { std::panic::resume_unwind(Box::new("the work panics")) };
    let _ = stage.first.run(&slot, Lab::payload(), work).await;
    pays(stage).await;
}

async fn by_hand(stage: Arc<Stage>) {
    if let Some(claim) = stage.lab.claim(&stage.first, "a").await {
        complete(&stage, claim).await;
    }
}

async fn releases(stage: Arc<Stage>) {
    if let Some(claim) = stage.lab.claim(&stage.first, "a").await {
        let _ = claim.release().await;
    }
    by_hand(stage).await;
}

async fn abandons(stage: Arc<Stage>) {
    if let Some(claim) = stage.lab.claim(&stage.first, "a").await {
        stage.lab.execute(&claim);
        let _ = claim.abandon(Reason::new("no answer")).await;
    }
}

async fn drops(stage: Arc<Stage>) {
    let claim = stage.lab.claim(&stage.first, "a").await;
    if let Some(claim) = &claim {
        stage.lab.execute(claim);
    }
    drop(claim);
    stage.lab.lapse();
    pays(stage).await;
}

async fn renews(stage: Arc<Stage>) {
    if let Some(claim) = stage.lab.claim(&stage.first, "a").await {
        for _ in 0..6 {
            stage.lab.clock.advance(Lab::LEASE / 3);
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        complete(&stage, claim).await;
    }
}

async fn resumes(stage: Arc<Stage>) {
    if let Some(claim) = stage.lab.claim(&stage.first, "a").await {
        let _ = claim.reached("reserved", "room 12").await;
    }
    stage.lab.lapse();
    by_hand(stage).await;
}

async fn reaches_then_not_executed(stage: Arc<Stage>) {
    let reaches = |attempt: Attempt| async move {
        match attempt.reached("reserved", "room 12").await {
            Ok(()) => Done::not_executed("the room was given back"),
            Err(error) => Done::unknown(error),
        }
    };
    let slot = stage.lab.slot("a");
    let _ = stage.first.run(&slot, Lab::payload(), reaches).await;
    pays(stage).await;
}

async fn rival_releases(stage: Arc<Stage>) {
    let rival = async {
        // While the first process waits for an answer, or before it asks again.
        for _ in 0..4 {
            if let Some(claim) = stage.lab.claim(&stage.second, "a").await {
                let _ = claim.release().await;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = tokio::join!(stage.lab.pay(&stage.first, "a"), rival);
}

async fn completes_late(stage: Arc<Stage>) {
    if let Some(late) = stage.lab.claim(&stage.first, "a").await {
        let receipt = stage.lab.execute(&late);
        stage.lab.lapse();
        let _ = stage.lab.pay(&stage.second, "a").await;
        if let Some(receipt) = receipt {
            let _ = late.complete(receipt).await;
        }
    }
}

async fn heals(stage: Arc<Stage>) {
    if let Some(late) = stage.lab.claim(&stage.first, "a").await {
        let receipt = stage.lab.execute(&late);
        stage.lab.lapse();
        sweep_all(&stage.second).await;
        let _ = stage.lab.pay(&stage.second, "a").await;
        if let Some(receipt) = receipt {
            let _ = late.complete(receipt).await;
        }
    }
    let _ = stage.lab.pay(&stage.second, "a").await;
}

async fn expires(stage: Arc<Stage>) {
    pays(stage.clone()).await;
    stage.lab.clock.advance(Lab::RETENTION + Lab::LEASE);
    pays(stage).await;
}

async fn sweeps(stage: Arc<Stage>) {
    pays(stage.clone()).await;
    stage.lab.clock.advance(Lab::RETENTION + Lab::LEASE);
    drop(stage.lab.claim(&stage.second, "b").await);
    stage.lab.lapse();
    sweep_all(&stage.first).await;
    pays(stage).await;
}

async fn resolves_completed(stage: Arc<Stage>) {
    abandons(stage.clone()).await;
    let slot = stage.lab.slot("a");
    if let Ok(id) = stage.first.id_of(&slot).await
        && stage.lab.service.charges(id) == 1
    {
        // The operator reads the receipt in the service's ledger.
        let receipt = Outcome::success(format!("{id}-0"));
        let by = operator("found in the ledger");
        let _ = stage
            .first
            .resolve(id, Resolution::Completed(receipt), &by)
            .await;
    }
    pays(stage).await;
}

async fn resolves_not_executed(stage: Arc<Stage>) {
    settles_not_executed(&stage).await;
    pays(stage).await;
}

/// Gives up what was not begun, and has an operator settle it.
async fn settles_not_executed(stage: &Stage) {
    if let Some(claim) = stage.lab.claim(&stage.first, "a").await {
        let _ = claim.abandon(Reason::new("the line was cut")).await;
    }
    let slot = stage.lab.slot("a");
    if let Ok(id) = stage.first.id_of(&slot).await
        && stage.lab.service.charges(id) == 0
    {
        let filter = Filter {
            tenant: Some(slot.scope().tenant().to_owned()),
            ..Filter::default()
        };
        let by = operator("not in the ledger");
        let _ = stage
            .first
            .resolve_all(&filter, &Resolution::NotExecuted, &by, false)
            .await;
    }
}

async fn mismatches(stage: Arc<Stage>) {
    let (lab, engine) = (&stage.lab, &stage.first);
    let Some(claim) = lab.claim(engine, "a").await else {
        return;
    };
    cheats(&stage).await;
    if complete(&stage, claim).await {
        cheats(&stage).await;
    }
}

/// Brings another payload, and goes on with it if it is let through.
async fn cheats(stage: &Stage) {
    let other = Fingerprint::of(b"900");
    if let Some(Verdict::Execute(claim)) = stage.lab.begin(&stage.first, "a", other).await {
        stage.lab.execute(&claim);
    }
}

async fn shuts_down(stage: Arc<Stage>) {
    if let Some(claim) = stage.lab.claim(&stage.first, "a").await {
        let receipt = stage.lab.execute(&claim);
        stage.first.shutdown(Duration::from_secs(1)).await;
        if let Some(receipt) = receipt {
            let _ = claim.complete(receipt).await;
        }
    }
}

/// Does the work of a claim, if it is still held, and completes it. Returns whether that is
/// known to be stored.
async fn complete(stage: &Stage, claim: Claim) -> bool {
    if !claim.is_held() {
        let _ = claim.release().await;
        return false;
    }
    match stage.lab.execute(&claim) {
        Some(receipt) => claim.complete(receipt).await.is_ok(),
        None => false,
    }
}

/// Sweeps until nothing is due, in steps so large that one is enough: a store that is shared
/// with other trials then has as many calls in each of them.
async fn sweep_all(engine: &Engine) {
    while engine.sweep(100_000).await.is_ok_and(|swept| swept.more) {}
}

fn operator(why: &str) -> By {
    By {
        who: "ann".to_owned(),
        why: why.to_owned(),
    }
}
