//! P1, P6, P15: one execution per key, whoever asks how often and leaves when.

use futures_util::future::join_all;
use onceward_rig::gateway::{Answer, Gate, Origin, Wire};

use crate::{ask, expect_one_original, expect_replay, launch, pay};

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_duplicates_at_once_are_executed_once_and_answered_alike() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    for round in 0..20 {
        let key = format!("race-{round}");
        let asks: Vec<_> = (0..16).map(|_| pay(&key)).collect();
        let answers = join_all(asks.iter().map(|pay| ask(&gateway, pay))).await;

        assert_eq!(origin.executions(&key), 1);
        expect_one_original(&answers);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicates_wait_for_the_one_that_runs() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Answer::receipt(1).after(&held).into()).await;
    let gateway = launch(&origin).start().await;
    let asked = pay("k");
    let first = async {
        let answer = ask(&gateway, &asked).await;
        assert!(!answer.is_replay());
        answer
    };
    let rest = async {
        origin.wait_for(1).await;
        let mut wires = Vec::new();
        for _ in 0..16 {
            let mut wire = Wire::connect(gateway.addr()).await.unwrap();
            wire.send(&asked.bytes()).await.unwrap();
            wires.push(wire);
        }
        gate.open();
        join_all(
            wires
                .iter_mut()
                .map(|wire| async { wire.read().await.unwrap() }),
        )
        .await
    };
    let (first, rest) = tokio::join!(first, rest);
    for waited in &rest {
        expect_replay(waited, &first);
    }
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_aborts_at_any_byte_causes_one_effect_at_the_most() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let len = pay("abort-000-0").bytes().len();
    let abort = async |at: usize, reset: bool| {
        let key = format!("abort-{at:03}-{}", u8::from(reset));
        let pay = pay(&key);
        let mut wire = Wire::connect(gateway.addr()).await.unwrap();
        wire.send(&pay.bytes()[..at]).await.unwrap();
        match reset {
            true => wire.reset().unwrap(),
            false => drop(wire),
        }
        let retry = ask(&gateway, &pay).await;
        assert_eq!(retry.status, 201, "cut at {at}: {}", retry.text());
        assert!(
            at == len || !retry.is_replay(),
            "half a request was executed at {at}"
        );
        assert_eq!(origin.executions(&key), 1, "cut at {at}");
    };
    for chunk in (0..=len).collect::<Vec<_>>().chunks(16) {
        let aborts = chunk
            .iter()
            .flat_map(|at| [abort(*at, false), abort(*at, true)]);
        join_all(aborts).await;
    }
    assert_eq!(origin.count(), 2 * (len + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_leaves_finds_the_answer_when_it_comes_back() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Answer::receipt(7).after(&held).into()).await;
    let gateway = launch(&origin).start().await;
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    wire.send(&pay("k").bytes()).await.unwrap();
    origin.wait_for(1).await;
    wire.reset().unwrap();
    gate.open();

    let retry = ask(&gateway, &pay("k")).await;
    assert!(retry.is_replay());
    assert_eq!((retry.status, retry.text()), (201, "receipt 7".into()));
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_keys_on_one_connection_are_many_operations() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    for key in 0..50 {
        wire.send(&pay(&format!("k{key}")).bytes()).await.unwrap();
        let answer = wire.read().await.unwrap();
        assert_eq!(
            (answer.text(), answer.is_replay()),
            (format!("receipt {key}"), false)
        );
    }
    for key in 0..50 {
        wire.send(&pay(&format!("k{key}")).bytes()).await.unwrap();
        let answer = wire.read().await.unwrap();
        assert_eq!(
            (answer.text(), answer.is_replay()),
            (format!("receipt {key}"), true)
        );
    }
    assert_eq!(origin.count(), 50);
}
