//! The memory store on one thread, in nanoseconds, and many waiters on one slot.

use std::sync::Arc;
use std::time::Duration;

use onceward::{
    Engine, Error, Fingerprint, Key, MemoryStore, OnBusy, Outcome, Policy, Scope, Secret, Slot,
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
    // The first round warms the allocator up.
    let mut rounds: Vec<_> = (0..=rounds).map(|_| runtime.block_on(round())).collect();
    rounds.remove(0);
    let median = |of: fn(&Round) -> f64| {
        let mut taken: Vec<_> = rounds.iter().map(of).collect();
        taken.sort_by(f64::total_cmp);
        rounded(taken[taken.len() / 2])
    };
    let claim = median(|it| it.claim);
    let replay = median(|it| it.replay);
    let name = median(|it| it.name);
    let begin_claim = median(|it| it.begin_claim);
    let begin_replay = median(|it| it.begin_replay);
    report.table(
        "memory store, one thread (median)",
        &["", "ns", "goal", "best published"],
    );
    let row = |what: &str, ns: f64, goal: &str, peer: &str| {
        [what.into(), format!("{ns}"), goal.into(), peer.into()]
    };
    report.row(row(
        "claim + complete, prepared arrival",
        claim,
        "< 600",
        "661",
    ));
    report.row(row("replay, prepared arrival", replay, "< 100", "109"));
    report.row(row("name a slot and seal a fingerprint", name, "", ""));
    report.row(row(
        "claim + complete, begin end to end",
        begin_claim,
        "",
        "",
    ));
    report.row(row("replay, begin end to end", begin_replay, "", ""));
    report.value("memory_ns", claim);
    report.value("replay_ns", replay);
    report.value("prepare_ns", name);
    report.value("memory_begin_ns", begin_claim);
    report.value("replay_begin_ns", begin_replay);
}

/// What one round took, in nanoseconds per call.
#[derive(Debug)]
struct Round {
    /// Naming a slot and sealing a fingerprint.
    name: f64,
    /// Claiming and completing with an arrival that is prepared.
    claim: f64,
    /// Replaying with an arrival that is prepared.
    replay: f64,
    /// Claiming and completing, naming and sealing included.
    begin_claim: f64,
    /// Replaying, naming and sealing included.
    begin_replay: f64,
}

/// One round: claims and completes every slot, then replays the hot ones; first with arrivals
/// that are prepared, then end to end on a store of its own.
async fn round() -> Round {
    let engine = fresh().await;
    let slots: Vec<_> = (0..SLOTS).map(slot).collect();
    let fingerprint = Fingerprint::of(b"{\"amount\":100}");

    let watch = Watch::start();
    let mut arrivals = Vec::with_capacity(SLOTS);
    for slot in &slots {
        arrivals.push(engine.prepare(slot, &fingerprint).await.expect("prepared"));
    }
    let name = per(watch, SLOTS);

    let outcome = Outcome::success(vec![7; 300]);
    let watch = Watch::start();
    for arrival in &arrivals {
        complete(engine.admit(arrival).await, &outcome).await;
    }
    let claim = per(watch, SLOTS);
    let watch = Watch::start();
    for arrival in arrivals[..HOT].iter().cycle().take(SLOTS) {
        replayed(engine.admit(arrival).await, &outcome);
    }
    let replay = per(watch, SLOTS);
    drop((engine, arrivals));

    let engine = fresh().await;
    let watch = Watch::start();
    for slot in &slots {
        complete(engine.begin(slot, fingerprint).await, &outcome).await;
    }
    let begin_claim = per(watch, SLOTS);
    let watch = Watch::start();
    for slot in slots[..HOT].iter().cycle().take(SLOTS) {
        replayed(engine.begin(slot, fingerprint).await, &outcome);
    }
    Round {
        name,
        claim,
        replay,
        begin_claim,
        begin_replay: per(watch, SLOTS),
    }
}

/// An engine on an empty store, which knows its secret.
async fn fresh() -> Engine {
    let engine = Engine::builder(Arc::new(MemoryStore::new()))
        .secret(Secret::from_bytes([7; 32]))
        .build();
    engine.secret().await.expect("the memory store answers");
    engine
}

async fn complete(verdict: Result<Verdict, Error>, outcome: &Outcome) {
    match verdict {
        Ok(Verdict::Execute(claim)) => {
            claim.complete(outcome.clone()).await.expect("completed");
        }
        other => panic!("a new key executes, not {other:?}"),
    }
}

fn replayed(verdict: Result<Verdict, Error>, outcome: &Outcome) {
    match verdict {
        // The bytes are the same memory, so comparing them all would measure the comparison.
        Ok(Verdict::Replay(replay)) => assert_eq!(replay.outcome.kept_len(), outcome.kept_len()),
        other => panic!("a finished key replays, not {other:?}"),
    }
}

/// 10,000 callers wait for one slot: how long after the outcome is the last one answered?
///
/// The best of three times counts: the others tell what else the machine was doing.
pub(crate) fn waiters(report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    let times = (0..3).map(|_| runtime.block_on(storm()));
    let best = times.min().expect("there were three");
    let millis = rounded(best.as_secs_f64() * 1e3);
    report.table(
        "10,000 waiters on one slot, each got the outcome (best of 3)",
        &["", "ms", "goal"],
    );
    let what = "from the outcome to the last answer";
    report.row([what.into(), format!("{millis}"), "< 100".into()]);
    report.value("waiters_ms", millis);
}

/// Lets everybody wait for one slot, and returns how long after the outcome the last one has it.
async fn storm() -> Duration {
    const WAITERS: usize = 10_000;
    let policy = Policy::default().on_busy(OnBusy::Wait(Duration::from_secs(60)));
    let engine = Engine::new(MemoryStore::new(), policy);
    let arrival = engine.prepare(&slot(0), &Fingerprint::of(b"storm")).await;
    let arrival = arrival.expect("prepared");
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
                match engine.admit(&arrival).await {
                    Ok(Verdict::Replay(replay)) => replay.outcome,
                    other => panic!("a waiter is answered, not {other:?}"),
                }
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
    let mut outcomes = Vec::with_capacity(WAITERS);
    for task in tasks {
        outcomes.push(task.await.expect("every waiter is answered"));
    }
    let took = watch.elapsed();
    let answer = Outcome::success("answer");
    assert!(outcomes.iter().all(|outcome| *outcome == answer));
    assert_eq!(outcomes.len(), WAITERS, "every waiter got the outcome");
    took
}

fn slot(n: usize) -> Slot {
    let key = Key::parse(&format!("8e03978e-40d5-43e8-bc93-{n:012}")).expect("printable");
    Slot::new(Scope::new("acct_42", "POST /payments"), key)
}

fn per(watch: Watch, count: usize) -> f64 {
    watch.elapsed().as_nanos() as f64 / count as f64
}
