//! P13: without its store the gateway executes nothing that has a key.

use futures_util::future::join_all;
use onceward_rig::gateway::{Ask, Gateway, Origin, until};

use crate::{admin, ask, durable, expect_problem, expect_replay, pay};

/// Asks with a fresh key until the store's failure shows: what is in its buffers may still fit.
async fn refused(gateway: &Gateway) -> usize {
    let mut asked = 0;
    loop {
        let answer = ask(gateway, &pay(&format!("during-{asked}"))).await;
        if answer.status != 201 {
            expect_problem(&answer, 503, "store-unavailable");
            return asked;
        }
        asked += 1;
        assert!(asked < 100, "a store that cannot write goes on claiming");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_cannot_write_stops_keyed_requests_only() {
    let origin = Origin::start().await;
    let mut gateway = durable(&origin).start().await;
    let before = ask(&gateway, &pay("before")).await;
    gateway.fail_writes(true);
    refused(&gateway).await;
    let executed = origin.count();
    let asks: Vec<_> = (0..5).map(|key| pay(&format!("refused-{key}"))).collect();
    for answer in join_all(asks.iter().map(|pay| ask(&gateway, pay))).await {
        expect_problem(&answer, 503, "store-unavailable");
        assert!(answer.fields.has("retry-after"));
    }
    assert_eq!(origin.count(), executed, "nothing with a key was executed");
    assert_eq!(ask(&gateway, &Ask::get("/")).await.status, 201);
    assert_eq!(ask(&gateway, &Ask::post("/payments")).await.status, 201);
    assert_eq!(ask(&gateway, &Ask::get("/")).await.status, 201);

    gateway.kill9().await;
    let gateway = gateway.restart().await;
    until("the gateway is ready again", || async {
        (admin(&gateway, "/readyz").await.status == 200).then_some(())
    })
    .await;
    expect_replay(&ask(&gateway, &pay("before")).await, &before);
    let after = ask(&gateway, &pay("refused-0")).await;
    assert_eq!((after.status, after.is_replay()), (201, false));
    assert!(
        origin.effects().values().all(|count| *count == 1),
        "{:?}",
        origin.effects()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_cannot_be_stored_is_nobodys_answer() {
    use onceward_rig::gateway::{Answer, Gate};
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Answer::receipt(0).after(&held).into()).await;
    let mut gateway = durable(&origin).start().await;
    let asked = pay("k");
    let first = ask(&gateway, &asked);
    let fail = async {
        origin.wait_for(1).await;
        gateway.fail_writes(true);
        gate.open();
    };
    let (first, ()) = tokio::join!(first, fail);
    expect_problem(&first, 503, "store-unavailable");
    gateway.kill9().await;
    let gateway = gateway.restart().await;
    let retry = ask(&gateway, &asked).await;
    assert!(retry.is_replay() || retry.problem().as_deref() == Some("outcome-unknown"));
    assert_eq!(origin.count(), 1);
}
