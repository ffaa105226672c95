//! The servers themselves: what is proved on them stands on this.

use std::time::Duration;

use onceward_rig::redis::{Cluster, Options, RedisServer, Sentinels};

#[tokio::test]
async fn a_server_keeps_what_it_has_synced_through_kill_9() {
    let mut server = RedisServer::durable().await;
    server.cli(&["SET", "kept", "7"]).await;
    server.kill9().await;
    server.restart().await;
    assert_eq!(server.cli(&["GET", "kept"]).await, "7");
}

#[tokio::test]
async fn a_server_that_keeps_nothing_has_nothing_after_kill_9() {
    let mut server = RedisServer::start(Options::default()).await;
    server.cli(&["SET", "kept", "7"]).await;
    server.kill9().await;
    server.restart().await;
    assert_eq!(server.cli(&["GET", "kept"]).await, "");
}

#[tokio::test]
async fn a_paused_server_answers_nobody_until_it_goes_on() {
    let server = RedisServer::start(Options::default()).await;
    server.pause();
    let asked = server.cli(&["PING"]);
    tokio::pin!(asked);
    let soon = Duration::from_millis(300);
    assert!(tokio::time::timeout(soon, &mut asked).await.is_err());
    server.resume();
    assert_eq!(asked.await, "PONG");
}

#[tokio::test]
async fn a_server_with_a_password_lets_nobody_in_without() {
    let server = RedisServer::start(Options::default().password("open-sesame")).await;
    assert_eq!(server.cli(&["PING"]).await, "PONG");
    let stranger = RedisServer::start(Options::default()).await;
    let port = server.addr().port().to_string();
    let asked = stranger.try_cli(&["-p", &port, "PING"]).await;
    assert!(asked.unwrap_err().contains("NOAUTH"));
}

#[tokio::test]
async fn a_replica_follows_its_master_and_takes_over() {
    let mut master = RedisServer::start(Options::default()).await;
    let replica = RedisServer::start(Options::default().replica_of(master.addr())).await;
    master.cli(&["SET", "kept", "7"]).await;
    replica.caught_up_with(&master).await;
    let refused = replica.try_cli(&["SET", "kept", "8"]).await;
    assert!(refused.unwrap_err().contains("READONLY"));
    master.kill9().await;
    replica.promote().await;
    assert_eq!(replica.cli(&["GET", "kept"]).await, "7");
    replica.cli(&["SET", "kept", "8"]).await;
}

#[tokio::test]
async fn the_shim_really_moves_the_servers_clock() {
    let server = RedisServer::start(Options::default().movable_clock()).await;
    let seconds = || async {
        let told = server.cli(&["TIME"]).await;
        told.lines().next().unwrap().parse::<i64>().unwrap()
    };
    let before = seconds().await;
    for off in [7_200, -7_200, 2_592_000] {
        server.step_clock(off);
        let moved = seconds().await - before - off;
        assert!((0..60).contains(&moved), "{moved} beside {off}");
    }
    server.cli(&["SET", "leased", "1", "PX", "3600000"]).await;
    server.step_clock(2_592_000 + 7_200);
    assert_eq!(
        server.cli(&["GET", "leased"]).await,
        "",
        "native expiry is wall time"
    );
}

#[tokio::test]
async fn sentinels_make_the_replica_the_master_when_that_is_gone() {
    let mut all = Sentinels::start(Options::default()).await;
    let first = all.master().await;
    all.server(first).cli(&["SET", "kept", "7"]).await;
    let master = all.replica_of(all.replica_of(first).addr());
    all.replica_of(first).caught_up_with(master).await;
    all.server(first).kill9().await;
    let second = all.failed_over(first).await;
    assert_eq!(all.server(second).cli(&["GET", "kept"]).await, "7");
    all.rejoin(first).await;
}

#[tokio::test]
async fn a_cluster_survives_a_master_and_moves_a_slot() {
    let mut cluster = Cluster::start(Options::default()).await;
    let slot = cluster.slot_of("{abc}").await;
    let owner = cluster.owner(slot).await;
    cluster.nodes()[owner]
        .cli(&["SET", "{abc}:kept", "7"])
        .await;
    cluster.is_whole().await;

    let dead = cluster.fail_over(slot).await;
    assert_eq!(dead, owner);
    let heir = cluster.owner(slot).await;
    assert_ne!(heir, owner);
    assert_eq!(cluster.nodes()[heir].cli(&["GET", "{abc}:kept"]).await, "7");

    let elsewhere = cluster.owner((slot + 8_192) % 16_384).await;
    cluster.migrate(slot, elsewhere).await;
    assert_eq!(cluster.owner(slot).await, elsewhere);
    assert_eq!(
        cluster.nodes()[elsewhere].cli(&["GET", "{abc}:kept"]).await,
        "7"
    );
    cluster.nodes()[dead].restart().await;
    cluster.is_whole().await;
}
