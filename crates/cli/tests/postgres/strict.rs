//! A server whose settings change for the worse while a strict gateway runs on it.

use onceward_rig::gateway::{Launch, Origin, until};

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
