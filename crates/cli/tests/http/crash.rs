//! P1 under `kill -9`: whatever the gateway was doing, no key is executed twice.

use std::collections::HashMap;

use futures_util::future::join_all;
use onceward_rig::gateway::{self, Answer, Gate, Origin, Received, Wire};

use crate::{ask, durable, expect_problem, expect_replay, pay};

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_request_was_sent_it_executes_after() {
    let origin = Origin::start().await;
    let mut gateway = durable(&origin).start().await;
    let bytes = pay("k").bytes();
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    wire.send(&bytes[..bytes.len() - 1]).await.unwrap();
    gateway.kill9().await;
    let gateway = gateway.restart().await;

    let first = ask(&gateway, &pay("k")).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_the_request_was_sent_the_outcome_is_unknown() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Answer::receipt(1).after(&held).into()).await;
    let mut gateway = durable(&origin).start().await;
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    wire.send(&pay("k").bytes()).await.unwrap();
    origin.wait_for(1).await;
    gateway.kill9().await;
    wire.read().await.unwrap_err();
    gate.open();
    let mut gateway = gateway.restart().await;

    for _ in 0..3 {
        expect_problem(&ask(&gateway, &pay("k")).await, 409, "outcome-unknown");
        gateway.kill9().await;
        gateway = gateway.restart().await;
    }
    assert_eq!(
        origin.count(),
        1,
        "unknown never becomes a second execution"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_the_answer_arrived_it_replays() {
    let origin = Origin::start().await;
    let mut gateway = durable(&origin).start().await;
    let mut firsts = Vec::new();
    for key in 0..8 {
        firsts.push(ask(&gateway, &pay(&format!("k{key}"))).await);
    }
    gateway.kill9().await;
    let gateway = gateway.restart().await;
    for (key, first) in firsts.iter().enumerate() {
        expect_replay(&ask(&gateway, &pay(&format!("k{key}"))).await, first);
    }
    assert_eq!(origin.count(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_restart_forgets_nothing() {
    let origin = Origin::start().await;
    let mut gateway = durable(&origin).start().await;
    let first = ask(&gateway, &pay("k")).await;
    gateway.term();
    assert_eq!(gateway.ended().await.code, Some(0));
    let gateway = gateway.restart().await;
    expect_replay(&ask(&gateway, &pay("k")).await, &first);
}

/// Kills in the middle of many executions, each time when they are a little further, so that over
/// the rounds every step of an execution is hit.
#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_moment_no_key_is_executed_twice() {
    const ROUNDS: usize = 12;
    const CALLERS: usize = 8;
    const CALLS: usize = 10;
    let origin = Origin::start().await;
    let mut gateway = durable(&origin).start().await;
    let mut fates = HashMap::<&str, usize>::new();
    for round in 0..ROUNDS {
        let before = origin.count();
        let addr = gateway.addr();
        let calls = |caller: usize| async move {
            let mut calls = Vec::new();
            for call in 0..CALLS {
                let pay = pay(&format!("crash-{round}-{caller}-{call}"));
                let first = gateway::ask(addr, &pay).await;
                calls.push((pay, first.ok().filter(|first| first.complete)));
            }
            calls
        };
        let kill = async {
            origin
                .wait_for(before + 1 + round * CALLERS * CALLS * 3 / ROUNDS / 4)
                .await;
            gateway.kill9().await;
        };
        let (calls, _) = tokio::join!(join_all((0..CALLERS).map(calls)), kill);
        gateway = gateway.restart().await;
        for (pay, first) in calls.iter().flatten() {
            let retry = ask(&gateway, pay).await;
            *fates.entry(fate(first.as_ref(), &retry)).or_default() += 1;
        }
    }
    let twice: Vec<_> = origin
        .effects()
        .into_iter()
        .filter(|(_, count)| *count > 1)
        .collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert_eq!(fates.values().sum::<usize>(), ROUNDS * CALLERS * CALLS);
    for fate in ["kept", "unknown", "executed after"] {
        assert!(
            fates.contains_key(fate),
            "no kill has led to {fate:?}: {fates:?}"
        );
    }
}

/// What became of a call whose gateway was killed, by what it got before and after.
fn fate(first: Option<&Received>, retry: &Received) -> &'static str {
    match (first, retry.is_replay()) {
        (Some(first), _) => {
            expect_replay(retry, first);
            "kept"
        }
        (None, true) => "stored before its caller knew",
        (None, false) if retry.status == 201 => "executed after",
        (None, false) => {
            expect_problem(retry, 409, "outcome-unknown");
            "unknown"
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_on_a_keyed_route_the_retry_is_the_next_attempt() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Answer::receipt(1).after(&held).into()).await;
    let config = "[defaults]\nlease = \"1s\"\n\
                  [[route]]\nmatch = \"POST /payments\"\neffect = \"keyed\"\n";
    let mut gateway = durable(&origin).config(config).start().await;
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    wire.send(&pay("k").bytes()).await.unwrap();
    origin.wait_for(1).await;
    gateway.kill9().await;
    gate.open();
    let gateway = gateway.restart().await;

    let retry = ask(&gateway, &pay("k")).await;
    assert_eq!((retry.status, retry.text()), (201, "receipt 1".into()));
    let seen = origin.seen();
    assert_eq!((seen[0].attempt(), seen[1].attempt()), (Some(1), Some(2)));
    assert!(seen[0].fence() < seen[1].fence());
    expect_replay(&ask(&gateway, &pay("k")).await, &retry);
    assert_eq!(origin.count(), 2);
}
