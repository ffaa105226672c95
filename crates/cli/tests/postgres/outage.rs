//! A server that goes away in mid-traffic: nothing is executed without a claim, and everything
//! goes on when it is back, without a restart of the gateway.

use std::time::Duration;

use futures_util::future::join_all;
use onceward::clock::{Clock as _, SystemClock};
use onceward_rig::gateway::{Answer, Ask, Gate, Gateway, Launch, Origin, until};

use crate::{Server, admin, ask, expect_problem, expect_replay, pay, server};

/// Within what everything has to go on once the server is back.
const RECOVERY_MAX: Duration = Duration::from_secs(5);

/// A gateway before `origin`, with its records on `server`.
async fn gateway(origin: &Origin, server: &Server) -> Gateway {
    let launch = Launch::new(env!("CARGO_BIN_EXE_onceward")).upstream(origin.addr());
    launch.argument("--store", &server.url()).start().await
}

/// Checks that keyed requests are refused and executed by nobody, and that the others pass.
pub(crate) async fn expect_refusals(gateway: &Gateway, origin: &Origin, name: &str) {
    let executed = origin.count();
    let asks: Vec<_> = (0..5).map(|key| pay(&format!("{name}-{key}"))).collect();
    for answer in join_all(asks.iter().map(|pay| ask(gateway, pay))).await {
        expect_problem(&answer, 503, "store-unavailable");
        assert!(answer.fields.has("retry-after"));
    }
    assert_eq!(origin.count(), executed, "nothing with a key was executed");
    assert_eq!(ask(gateway, &Ask::get("/")).await.status, 201);
    assert_eq!(ask(gateway, &Ask::post("/payments")).await.status, 201);
    let ready = admin(gateway, "/readyz").await;
    assert_eq!(ready.status, 503, "{}", ready.text());
}

/// Waits until keyed requests are executed again, and checks that it did not take long.
pub(crate) async fn expect_recovery(gateway: &Gateway, key: &str) {
    let back = SystemClock.stopwatch();
    until("keyed requests are executed again", || async {
        (ask(gateway, &pay(key)).await.status == 201).then_some(())
    })
    .await;
    let took = SystemClock.stopwatch() - back;
    assert!(took <= RECOVERY_MAX, "{took:?}\n{}", gateway.log());
    assert_eq!(admin(gateway, "/readyz").await.status, 200);
}

/// Checks that nothing was done twice.
pub(crate) fn expect_one_effect_each(origin: &Origin) {
    let effects = origin.effects();
    assert!(effects.values().all(|count| *count == 1), "{effects:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_stops_keyed_requests_until_it_is_back() {
    let origin = Origin::start().await;
    let mut server = server().await;
    let gateway = gateway(&origin, &server).await;
    for round in 0..2 {
        let asked = pay(&format!("before-{round}"));
        let before = ask(&gateway, &asked).await;
        assert_eq!(before.status, 201);
        server.kill9().await;
        expect_refusals(&gateway, &origin, &format!("during-{round}")).await;
        server.restart().await;
        expect_recovery(&gateway, &format!("after-{round}")).await;
        expect_replay(&ask(&gateway, &asked).await, &before);
        let refused = ask(&gateway, &pay(&format!("during-{round}-0"))).await;
        assert_eq!((refused.status, refused.is_replay()), (201, false));
    }
    expect_one_effect_each(&origin);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_falls_silent_is_as_good_as_gone() {
    let origin = Origin::start().await;
    let server = server().await;
    let gateway = gateway(&origin, &server).await;
    let before = ask(&gateway, &pay("before")).await;
    server.pause();
    expect_refusals(&gateway, &origin, "during").await;
    server.resume();
    expect_recovery(&gateway, "after").await;
    expect_replay(&ask(&gateway, &pay("before")).await, &before);
    expect_one_effect_each(&origin);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_was_under_way_is_recorded_when_the_server_is_back() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Answer::receipt(7).after(&held).into()).await;
    let mut server = server().await;
    let gateway = gateway(&origin, &server).await;
    let asked = pay("k");
    let away = async {
        origin.wait_for(1).await;
        server.kill9().await;
        gate.open();
    };
    let (first, ()) = tokio::join!(ask(&gateway, &asked), away);
    expect_problem(&first, 503, "store-unavailable");
    server.restart().await;
    let retry = until("the outcome is recorded", || async {
        let retry = ask(&gateway, &asked).await;
        retry.is_replay().then_some(retry)
    })
    .await;
    assert_eq!((retry.status, retry.text()), (201, "receipt 7".into()));
    assert_eq!(origin.count(), 1);
}
