//! The servers themselves: what is proved on them stands on this.

use onceward_rig::postgres::{Server, scratch};

#[tokio::test]
async fn a_server_keeps_what_was_committed_through_kill_9() {
    let mut server = Server::start().await;
    server
        .sql("CREATE TABLE kept (it int); INSERT INTO kept VALUES (7)")
        .await;
    server.kill9().await;
    server.restart().await;
    assert_eq!(server.value("SELECT it FROM kept").await, "7");
}

#[tokio::test]
async fn a_paused_server_answers_nobody_until_it_goes_on() {
    let server = Server::start().await;
    server.pause();
    let asked = server.value("SELECT 'still here'");
    tokio::pin!(asked);
    let soon = std::time::Duration::from_millis(300);
    assert!(tokio::time::timeout(soon, &mut asked).await.is_err());
    server.resume();
    assert_eq!(asked.await, "still here");
}

#[tokio::test]
async fn a_synchronous_standby_has_whatever_its_primary_acknowledged() {
    let mut primary = Server::start().await;
    let standby = Server::builder()
        .standby_of(&primary)
        .sync_standby()
        .start()
        .await;
    primary
        .sql("CREATE TABLE kept (it int); INSERT INTO kept VALUES (7)")
        .await;
    assert_eq!(standby.value("SELECT pg_is_in_recovery()").await, "t");
    primary.kill9().await;
    standby.promote().await;
    assert_eq!(standby.value("SELECT it FROM kept").await, "7");
    standby.sql("INSERT INTO kept VALUES (8)").await;
}

#[tokio::test]
async fn a_scratch_is_gone_when_it_is_dropped() {
    let (url, scratch) = scratch().await;
    assert!(url.contains(scratch.schema()));
    scratch
        .sql(&format!("CREATE SCHEMA {}", scratch.schema()))
        .await;
    let asked = format!(
        "SELECT count(*) FROM pg_namespace WHERE nspname = '{}'",
        scratch.schema()
    );
    assert_eq!(scratch.value(&asked).await, "1");
    drop(scratch);
    let (_, another) = onceward_rig::postgres::scratch().await;
    assert_eq!(another.value(&asked).await, "0");
}
