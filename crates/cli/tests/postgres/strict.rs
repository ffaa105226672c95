//! A server whose settings change for the worse, or whose place another one takes, while a strict
//! gateway runs on it.

use onceward_rig::gateway::{Gateway, Launch, Origin, until};
use onceward_rig::postgres::Proxy;
use onceward_rig::postgres::proxy::Fault;

use crate::outage::{expect_one_effect_each, expect_recovery, expect_refusals};
use crate::{Server, admin, ask, expect_replay, pay, server};

/// Sets whether the server's commits wait for its disk, and starts it again, so that whoever is
/// connected looks anew.
async fn wait_for_disk(server: &mut Server, waits: bool) {
    let waits = if waits { "on" } else { "off" };
    let set = format!("ALTER SYSTEM SET synchronous_commit = {waits}");
    server.sql(&set).await;
    server.restart().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_gateway_claims_nothing_while_its_database_is_set_to_forget() {
    let origin = Origin::start().await;
    let mut server = server().await;
    let launch = Launch::new(env!("CARGO_BIN_EXE_onceward")).upstream(origin.addr());
    let launch = launch
        .argument("--store", &server.url())
        .config("strict = true\n");
    let gateway = launch.start().await;
    assert!(gateway.log().contains("synchronous_commit = on"));
    let before = ask(&gateway, &pay("before")).await;
    assert_eq!(before.status, 201);

    wait_for_disk(&mut server, false).await;
    until("the gateway sees that", || async {
        let ready = admin(&gateway, "/readyz").await;
        ready.text().contains("strict = true").then_some(())
    })
    .await;
    expect_refusals(&gateway, &origin, "during").await;
    expect_replay(&ask(&gateway, &pay("before")).await, &before);
    until("the gateway tells so", || async {
        let numbers = admin(&gateway, "/metrics").await.text();
        let told = numbers.contains("onceward_store_durability{store=\"postgres\"} 1");
        (told && gateway.log().contains("no new claims are taken")).then_some(())
    })
    .await;

    wait_for_disk(&mut server, true).await;
    expect_recovery(&gateway, "during-0").await;
    expect_one_effect_each(&origin);
}

/// A standby that commits waited for takes over alone: it keeps what a server alone keeps, and the
/// gateway that saw a standby before does not hold that against it.
#[tokio::test(flavor = "multi_thread")]
async fn a_strict_gateway_goes_on_after_a_synchronous_failover() {
    let origin = Origin::start().await;
    let mut primary = server().await;
    let standby = Server::builder().standby_of(&primary).sync_standby();
    let standby = standby.start().await;
    let proxy = Proxy::start(primary.addr());
    let launch = Launch::new(env!("CARGO_BIN_EXE_onceward")).upstream(origin.addr());
    let launch = launch
        .argument("--store", &proxy.url(&primary.url()))
        .config("strict = true\n");
    let gateway = launch.start().await;
    let before = ask(&gateway, &pay("before")).await;
    assert_eq!(before.status, 201);
    expect_class(&gateway, 3).await;

    primary.kill9().await;
    standby.promote().await;
    proxy.retarget(standby.addr());
    proxy.strike(Fault::Reset);
    expect_recovery(&gateway, "after").await;
    expect_class(&gateway, 2).await;
    expect_replay(&ask(&gateway, &pay("before")).await, &before);
    let next = ask(&gateway, &pay("next")).await;
    assert_eq!(next.status, 201);
    expect_one_effect_each(&origin);
    assert!(gateway.log().contains("PostgreSQL failed over"));
}

async fn expect_class(gateway: &Gateway, class: u8) {
    until("the gateway tells of its class", || async {
        let numbers = admin(gateway, "/metrics").await.text();
        let class = format!("onceward_store_durability{{store=\"postgres\"}} {class}");
        numbers.contains(&class).then_some(())
    })
    .await;
}
