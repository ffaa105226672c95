//! The memory store on one thread, in nanoseconds, and many waiters on one slot.

use std::sync::Arc;
use std::time::Duration;

use onceward::{
    Arrival, Engine, Fingerprint, Key, MemoryStore, OnBusy, Outcome, Policy, Scope, Secret, Slot,
    Verdict,
};

use crate::load::Watch;
use crate::report::{Report, rounded};

/// Distinct slots per round: enough that no claim finds its record in the nearest cache, few
/// enough that the operating system's page faults are not what is measured.
const SLOTS: usize = 10_000;

/// Slots that are replayed again and again: the hot keys of a retry storm.
const HOT: usize = 1_000;

pub(crate) fn run(report: &mut Report, rounds: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    let (mut claims, mut replays, mut named) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..=rounds {
        let (claim, replay, name) = runtime.block_on(round());
        claims.push(claim);
        replays.push(replay);
        named.push(name);
    }
    // The first round warms the allocator up.
    let median = |mut taken: Vec<f64>| {
        taken.remove(0);
        taken.sort_by(f64::total_cmp);
        rounded(taken[taken.len() / 2])
    };
    let (claim, replay, name) = (median(claims), median(replays), median(named));
    report.table(
        "memory store, one thread (median)",
        &["", "ns", "goal", "best published"],
    );
    let row = |what: &str, ns: f64, goal: &str, peer: &str| {
        [what.into(), format!("{ns}"), goal.into(), peer.into()]
    };
    report.row(row("claim + complete", claim, "< 600", "661"));
    report.row(row("replay", replay, "< 100", "109"));
    report.row(row("name a slot and seal a fingerprint", name, "", ""));
    report.value("memory_ns", claim);
    report.value("replay_ns", replay);
    report.value("prepare_ns", name);
}

/// One round: claims and completes every slot, then replays the hot ones.
async fn round() -> (f64, f64, f64) {
    let engine = Engine::builder(Arc::new(MemoryStore::new()))
        .secret(Secret::from_bytes([7; 32]))
        .build();
    let slots: Vec<_> = (0..SLOTS).map(slot).collect();
    let fingerprint = Fingerprint::of(b"{\"amount\":100}");
    engine.secret().await.expect("the memory store answers");

    let watch = Watch::start();
    let mut arrivals = Vec::with_capacity(SLOTS);
    for slot in &slots {
        arrivals.push(engine.prepare(slot, &fingerprint).await.expect("prepared"));
    }
    let named = per(watch, SLOTS);

    let outcome = Outcome::success(vec![7; 300]);
    let watch = Watch::start();
    for arrival in &arrivals {
        match engine.admit(arrival).await {
            Ok(Verdict::Execute(claim)) => {
                claim.complete(outcome.clone()).await.expect("completed");
            }
            other => panic!("a new key executes, not {other:?}"),
        }
    }
    let claimed = per(watch, SLOTS);

    let watch = Watch::start();
    for arrival in arrivals[..HOT].iter().cycle().take(SLOTS) {
        replay(&engine, arrival, &outcome).await;
    }
    (claimed, per(watch, SLOTS), named)
}

async fn replay(engine: &Engine, arrival: &Arrival, outcome: &Outcome) {
    match engine.admit(arrival).await {
        // The bytes are the same memory, so comparing them all would measure the comparison.
        Ok(Verdict::Replay(replay)) => assert_eq!(replay.outcome.kept_len(), outcome.kept_len()),
        other => panic!("a finished key replays, not {other:?}"),
    }
}

/// 10,000 callers wait for one slot: how long after the outcome is the last one answered?
pub(crate) fn waiters(report: &mut Report) {
    const WAITERS: usize = 10_000;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    let took = runtime.block_on(async {
        let policy = Policy::default().on_busy(OnBusy::Wait(Duration::from_secs(60)));
        let engine = Engine::new(MemoryStore::new(), policy);
        let fingerprint = Fingerprint::of(b"storm");
        let arrival = engine
            .prepare(&slot(0), &fingerprint)
            .await
            .expect("prepared");
        let Ok(Verdict::Execute(claim)) = engine.admit(&arrival).await else {
            panic!("the first caller executes");
        };
        let (entered, mut all_in) = tokio::sync::mpsc::unbounded_channel();
        let tasks: Vec<_> = (0..WAITERS)
            .map(|_| {
                let (engine, arrival) = (engine.clone(), arrival.clone());
                let entered = entered.clone();
                tokio::spawn(async move {
                    let _ = entered.send(());
                    replay(&engine, &arrival, &Outcome::success("answer")).await;
                })
            })
            .collect();
        for _ in 0..WAITERS {
            all_in.recv().await;
        }
        // Everybody has been polled; the last few take their seats.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let watch = Watch::start();
        claim.complete("answer").await.expect("completed");
        for task in tasks {
            task.await.expect("every waiter got the outcome");
        }
        watch.elapsed()
    });
    let millis = rounded(took.as_secs_f64() * 1e3);
    report.table("10,000 waiters on one slot", &["", "ms", "goal"]);
    let what = "from the outcome to the last answer";
    report.row([what.into(), format!("{millis}"), "< 100".into()]);
    report.value("waiters_ms", millis);
}

fn slot(n: usize) -> Slot {
    let key = Key::parse(&format!("8e03978e-40d5-43e8-bc93-{n:012}")).expect("printable");
    Slot::new(Scope::new("acct_42", "POST /payments"), key)
}

fn per(watch: Watch, count: usize) -> f64 {
    watch.elapsed().as_nanos() as f64 / count as f64
}
