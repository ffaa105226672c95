//! Several hosts in a URL: the one that takes writes is found, whatever the others do.

use std::time::Duration;

use onceward::clock::{Clock as _, SystemClock};
use onceward::store::{Error, Insert};
use onceward::testing::records::{self, LONG};
use onceward::{Store as _, Timestamp};
use onceward_rig::postgres::Server;
use onceward_stores::postgres::{Connections, PostgresStore, Settings};

use crate::shared::PATIENCE;

/// A URL with both servers in it, in this order.
fn both(one: &Server, two: &Server) -> String {
    format!("postgres://postgres@{},{}/postgres", one.addr(), two.addr())
}

/// Opens a store, which blocks.
async fn open(url: &str) -> PostgresStore {
    let settings: Settings = url.parse().unwrap();
    let open = tokio::task::spawn_blocking(move || PostgresStore::open(settings));
    open.await.unwrap().unwrap()
}

#[tokio::test]
async fn a_store_follows_the_primary_to_the_other_host() {
    let mut primary = Server::start().await;
    let standby = Server::builder().standby_of(&primary).sync_standby();
    let standby = standby.start().await;
    // The standby comes first: the one that takes writes is looked for, and not the first.
    let store = open(&both(&standby, &primary)).await;
    claim(&store, "before").await;
    primary.kill9().await;
    standby.promote().await;
    claim(&store, "after").await;
    for key in ["before", "after"] {
        let found = persist(async || store.get(records::slot(key)).await).await;
        assert!(found.value.is_some(), "{key}");
    }
    let count = "SELECT count(*) FROM onceward.records";
    assert_eq!(standby.value(count).await, "2");
}

/// Claims a slot that nobody has.
async fn claim(store: &PostgresStore, key: &str) {
    let (slot, claim) = (records::slot(key), records::claimed(LONG));
    let put = persist(async || store.insert(slot, &claim, Timestamp::NEVER).await).await;
    // An earlier try may have been the one, and lost its answer.
    match put.value {
        Insert::Done => {}
        Insert::Taken(found) => assert_eq!(found.fence, claim.fence),
        Insert::Late => panic!("it is never too late"),
    }
}

/// Asks until the store answers.
async fn persist<T>(ask: impl AsyncFn() -> Result<T, Error>) -> T {
    let start = SystemClock.stopwatch();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => {
                let waited = SystemClock.stopwatch() - start;
                assert!(waited < PATIENCE, "{error:?}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

#[tokio::test]
async fn a_host_that_hangs_does_not_hide_the_others() {
    let (hung, sound) = (Server::start().await, Server::start().await);
    hung.pause();
    let store = open(&both(&hung, &sound)).await;
    claim(&store, "k").await;
    let pool = Connections::new(store.settings(), 1);
    let connection = pool.get().await.unwrap();
    let row = connection.query_one("SELECT inet_server_port()", &[]).await;
    let port: i32 = row.unwrap().get(0);
    assert_eq!(port, i32::from(sound.addr().port()));
    hung.resume();
}
