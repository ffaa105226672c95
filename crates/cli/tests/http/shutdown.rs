//! Shutting down: what runs ends, what is stored stays.

use onceward_rig::gateway::{Answer, Ask, Gate, Gateway, Origin, Wire, until};

use crate::{admin, ask, durable, expect_replay, pay};

async fn held() -> (Origin, Gate) {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Answer::receipt(0).after(&held).into()).await;
    (origin, gate)
}

/// Waits until no more connections are taken.
async fn is_closing(gateway: &Gateway) {
    until("the gateway stops listening", || async {
        Wire::connect(gateway.addr()).await.is_err().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_in_flight_is_answered_before_the_end() {
    for asked in [pay("k"), Ask::post("/unkeyed")] {
        let (origin, gate) = held().await;
        let mut gateway = durable(&origin).start().await;
        let mut wire = Wire::connect(gateway.addr()).await.unwrap();
        wire.send(&asked.bytes()).await.unwrap();
        origin.wait_for(1).await;
        gateway.term();
        is_closing(&gateway).await;
        gate.open();
        let first = wire.read().await.unwrap();
        assert_eq!((first.status, first.text()), (201, "receipt 0".into()));
        assert!(wire.is_closed().await);
        let ended = gateway.ended().await;
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);

        let gateway = gateway.restart().await;
        let retry = ask(&gateway, &asked).await;
        match asked == pay("k") {
            true => expect_replay(&retry, &first),
            false => assert!(!retry.is_replay()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_told_to_end_as_soon_as_it_listens_ends_in_good_order() {
    let origin = Origin::start().await;
    let mut gateway = durable(&origin).start().await;
    gateway.term();
    let ended = gateway.ended().await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("good order"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_whose_caller_has_left_is_recorded_before_the_end() {
    let (origin, gate) = held().await;
    let mut gateway = durable(&origin).start().await;
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    wire.send(&pay("k").bytes()).await.unwrap();
    origin.wait_for(1).await;
    wire.reset().unwrap();
    gateway.term();
    is_closing(&gateway).await;
    gate.open();
    assert_eq!(gateway.ended().await.code, Some(0));
    let gateway = gateway.restart().await;
    let retry = ask(&gateway, &pay("k")).await;
    assert!(retry.is_replay(), "{}", retry.text());
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_do_not_delay_the_end() {
    let origin = Origin::start().await;
    let mut gateway = durable(&origin).start().await;
    let mut used = Wire::connect(gateway.addr()).await.unwrap();
    used.send(&Ask::get("/").bytes()).await.unwrap();
    assert_eq!(used.read().await.unwrap().status, 201);
    let _fresh = Wire::connect(gateway.addr()).await.unwrap();
    gateway.term();
    assert_eq!(gateway.ended().await.code, Some(0));
    assert!(used.is_closed().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grace_that_is_over_ends_what_still_runs() {
    let (origin, _gate) = held().await;
    let mut gateway = durable(&origin)
        .config("shutdown_grace = \"1s\"\n")
        .start()
        .await;
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    wire.send(&pay("k").bytes()).await.unwrap();
    origin.wait_for(1).await;
    gateway.term();
    gateway.ended().await;
    let gateway = gateway.restart().await;
    crate::expect_problem(&ask(&gateway, &pay("k")).await, 409, "outcome-unknown");
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn health_and_readiness_are_told() {
    let origin = Origin::start().await;
    let gateway = durable(&origin).start().await;
    assert_eq!(admin(&gateway, "/healthz").await.status, 200);
    let ready = admin(&gateway, "/readyz").await;
    assert_eq!(ready.status, 200, "{}", ready.text());
    ask(&gateway, &pay("k")).await;
    ask(&gateway, &pay("k")).await;
    let numbers = admin(&gateway, "/metrics").await.text();
    for outcome in ["original", "replay"] {
        let line = numbers
            .lines()
            .find(|line| line.starts_with("onceward_requests_total") && line.contains(outcome));
        assert!(
            line.is_some_and(|line| line.ends_with(" 1")),
            "{outcome}: {numbers}"
        );
    }
}
