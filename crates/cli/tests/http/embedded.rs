//! What only a store in a folder can do.

use onceward_rig::gateway::Origin;

use crate::{ask, durable, expect_replay, pay};

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_leaves_writing_to_the_system_survives_the_process() {
    let origin = Origin::start().await;
    let launch = durable(&origin);
    let store = format!(
        "embedded:{}?durability=os",
        launch.folder().join("os").display()
    );
    let mut gateway = launch.argument("--store", &store).start().await;
    let first = ask(&gateway, &pay("k")).await;
    gateway.kill9().await;
    let gateway = gateway.restart().await;
    expect_replay(&ask(&gateway, &pay("k")).await, &first);
    assert_eq!(origin.count(), 1);
}
