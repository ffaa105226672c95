//! Two nodes on one server: whatever one does holds for the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use onceward::clock::{Clock as _, SystemClock};
use onceward::record::StateName;
use onceward::testing::ExpectVerdict as _;
use onceward::testing::records;
use onceward::{
    By, Done, Effect, Engine, Outcome, Resolution, RunError, Store as _, Timestamp, Verdict,
};

use crate::shared::{Nodes, PATIENCE, begin, open, payload, slot};

/// The state of a key's record, as a node sees it.
async fn state(engine: &Engine, key: &str) -> Option<StateName> {
    let id = engine.id_of(&slot(key)).await.unwrap();
    let found = engine.inspect(id).await.unwrap();
    found.map(|found| found.record.state.name())
}

#[tokio::test]
async fn nodes_agree_on_one_secret() {
    let nodes = Nodes::new(Effect::Opaque).await;
    let (a, b) = tokio::join!(nodes.a.secret(), nodes.b.secret());
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_eq!(slot("k").id(a), slot("k").id(b));
}

#[tokio::test]
async fn a_hint_reaches_the_other_node() {
    let nodes = Nodes::new(Effect::Opaque).await;
    let (a, b) = (open(&nodes.url), open(&nodes.url));
    let mut hints = b.watch();
    // Until it listens: hints from before that are lost, as they may be.
    let heard = async {
        loop {
            let (id, record) = (records::slot("hinted"), records::claimed(PATIENCE));
            let _ = a.insert(id, &record, Timestamp::NEVER).await.unwrap();
            let found = a.get(id).await.unwrap().value.unwrap();
            let removed = a.remove(id, found.fence, Timestamp::NEVER).await;
            removed.unwrap();
            let soon = Duration::from_millis(200);
            if let Ok(hint) = tokio::time::timeout(soon, hints.next()).await {
                break hint;
            }
        }
    };
    let heard = tokio::time::timeout(PATIENCE, heard).await.unwrap();
    assert_eq!(heard, Some(records::slot("hinted")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicate_on_one_node_is_woken_by_the_completion_on_the_other() {
    /// A waiter that hears of nothing looks every 500 ms: half of that, on the average.
    const FAR_SOONER: Duration = Duration::from_millis(120);
    let nodes = Nodes::new(Effect::Opaque).await;
    let mut waits = Vec::new();
    for round in 0..11 {
        let key = format!("k{round}");
        let claim = begin(&nodes.a, &key).await.expect_claim();
        let (b, of) = (nodes.b.clone(), key.clone());
        let waiter = tokio::spawn(async move {
            let verdict = begin(&b, &of).await;
            (SystemClock.stopwatch(), verdict)
        });
        // It has come, has seen the claim and waits.
        tokio::time::sleep(Duration::from_millis(60)).await;
        claim.complete("paid").await.unwrap();
        let completed = SystemClock.stopwatch();
        let (woken, verdict) = tokio::time::timeout(PATIENCE, waiter)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(verdict.expect_replay(), "paid");
        waits.push(woken.saturating_sub(completed));
    }
    waits.sort();
    let median = waits[waits.len() / 2];
    assert!(median < FAR_SOONER, "waits: {waits:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_on_both_nodes_get_one_execution_and_one_answer() {
    let nodes = Nodes::new(Effect::Opaque).await;
    let executed = Arc::new(AtomicU32::new(0));
    let mut callers = Vec::new();
    for number in 0..64 {
        let engine = if number % 2 == 0 { &nodes.a } else { &nodes.b };
        let (engine, executed) = (engine.clone(), executed.clone());
        callers.push(tokio::spawn(async move {
            let work = move |_| async move {
                let number = executed.fetch_add(1, Ordering::Relaxed);
                Done::outcome(format!("receipt {number}"))
            };
            let answer = engine.run(&slot("crowd"), payload(), work).await.unwrap();
            answer.outcome
        }));
    }
    for caller in callers {
        assert_eq!(caller.await.unwrap(), Outcome::from("receipt 0"));
    }
    assert_eq!(executed.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_lapsed_claim_is_taken_over_by_the_other_node_and_its_holder_loses() {
    let nodes = Nodes::new(Effect::Keyed).await;
    let late = nodes.claim_of_the_dead("k").await;
    let taken = begin(&nodes.b, "k").await.expect_claim();
    assert_eq!(taken.attempt(), 2);
    taken.complete("second").await.unwrap();
    late.complete("first").await.unwrap_err();
    assert_eq!(begin(&nodes.b, "k").await.expect_replay(), "second");
}

#[tokio::test]
async fn the_claim_of_a_node_that_died_becomes_unknown_and_is_settled_on_the_other() {
    let nodes = Nodes::new(Effect::Opaque).await;
    let id = nodes.claim_of_the_dead("k").await.id();
    nodes.until_due(&slot("k")).await;
    assert!(matches!(begin(&nodes.b, "k").await, Verdict::Unknown(_)));

    let by = By {
        who: "ops".into(),
        why: "seen in the ledger".into(),
    };
    let paid = Resolution::Completed("paid".into());
    nodes.b.resolve(id, paid, &by).await.unwrap();
    assert_eq!(begin(&nodes.a, "k").await.expect_replay(), "paid");
}

#[tokio::test]
async fn a_sweep_on_one_node_serves_both() {
    let nodes = Nodes::new(Effect::Opaque).await;
    let brief = Duration::from_millis(1);
    let claim = begin(&nodes.a, "brief").await.expect_claim();
    claim.keep_for(brief).complete("paid").await.unwrap();
    drop(nodes.claim_of_the_dead("silent").await);
    nodes.until_due(&slot("silent")).await;
    nodes.until_due(&slot("brief")).await;

    let swept = nodes.b.sweep(100).await.unwrap();
    assert_eq!((swept.removed, swept.lapsed.len()), (1, 1));
    assert_eq!(state(&nodes.a, "brief").await, None);
    assert_eq!(state(&nodes.a, "silent").await, Some(StateName::Unknown));
    let work = |_| async { Done::outcome("again") };
    let told = nodes.b.run(&slot("silent"), payload(), work).await;
    assert!(matches!(told, Err(RunError::Unknown(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweepers_on_both_nodes_remove_each_record_once() {
    let nodes = Nodes::new(Effect::Opaque).await;
    let store = open(&nodes.url);
    let expired = records::completed(Duration::from_millis(1));
    for number in 0..300 {
        let (id, record) = (
            records::slot(&number.to_string()),
            records::rewritten(&expired),
        );
        store.insert(id, &record, Timestamp::NEVER).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
    let sweep = |engine: Engine| async move {
        let mut removed = 0;
        loop {
            let swept = engine.sweep(10).await.unwrap();
            removed += swept.removed;
            if !swept.more && swept.removed == 0 {
                return removed;
            }
        }
    };
    let both = async {
        let mut removed = 0;
        // One that is turned away has nothing to do for now.
        while removed < 300 {
            let (a, b) = tokio::join!(
                tokio::spawn(sweep(nodes.a.clone())),
                tokio::spawn(sweep(nodes.b.clone()))
            );
            removed += a.unwrap() + b.unwrap();
        }
        removed
    };
    assert_eq!(tokio::time::timeout(PATIENCE, both).await.unwrap(), 300);
}
