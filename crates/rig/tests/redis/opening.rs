//! Opening: what a store finds out about its servers, and which it refuses.

use std::time::Duration;

use onceward::store::Error;
use onceward::testing::records::{self, LONG};
use onceward::{Durability, Store as _, Timestamp};
use onceward_rig::redis::{Cluster, Options, RedisServer, Sentinels};
use onceward_stores::OpenError;
use onceward_stores::redis::{DurabilityReport, RedisStore, Settings, inspect};

fn settings(url: &str) -> Settings {
    url.parse().expect("the URL is good")
}

fn refusal(url: &str) -> OpenError {
    RedisStore::open(settings(url)).expect_err("it does not open")
}

async fn class_of(options: Options) -> (Durability, DurabilityReport) {
    let server = RedisServer::start(options).await;
    let store = RedisStore::open(settings(&server.url())).unwrap();
    let inspection = inspect(&settings(&server.url())).unwrap();
    (store.durability(), inspection.durability)
}

#[tokio::test]
async fn the_class_is_what_the_settings_make_of_a_write() {
    let cases = [
        (Options::default().durable(), Durability::D2),
        (Options::default().append("everysec"), Durability::D1),
        (Options::default().append("no"), Durability::D1),
        (Options::default().setting("save", "60 1"), Durability::D0),
        (
            Options::default()
                .durable()
                .setting("no-appendfsync-on-rewrite", "yes"),
            Durability::D1,
        ),
    ];
    for (options, class) in cases {
        let (found, report) = class_of(options).await;
        assert_eq!((found, report.class), (class, class), "{report:?}");
        let is_good = report.facts.iter().all(|fact| fact.is_good);
        assert_eq!(is_good, class == Durability::D2, "{report:?}");
    }
}

#[tokio::test]
async fn whatever_may_fail_over_keeps_nothing_for_sure() {
    let master = RedisServer::durable().await;
    let _replica = RedisServer::start(Options::default().replica_of(master.addr())).await;
    let store = RedisStore::open(settings(&master.url())).unwrap();
    assert_eq!(store.durability(), Durability::D0);
    let never = format!("{}?failover=never", master.url());
    let store = RedisStore::open(settings(&never)).unwrap();
    assert_eq!(store.durability(), Durability::D2);

    let sentinels = Sentinels::start(Options::default().durable()).await;
    let store = RedisStore::open(settings(&sentinels.url())).unwrap();
    assert_eq!(store.durability(), Durability::D0);
    let cluster = Cluster::start(Options::default().durable()).await;
    let found = inspect(&settings(&cluster.url())).unwrap();
    assert_eq!(found.durability.class, Durability::D0);
    assert_eq!(found.servers, 3);
}

#[tokio::test]
async fn a_server_that_evicts_is_refused() {
    for policy in ["allkeys-lru", "volatile-ttl"] {
        let options = Options::default().durable().memory("64mb", policy);
        let server = RedisServer::start(options).await;
        let refused = refusal(&server.url());
        assert!(matches!(refused, OpenError::Evicts { .. }), "{refused}");
        assert!(refused.to_string().contains(policy));
        assert!(refused.hint().contains("noeviction"));
    }
}

#[tokio::test]
async fn a_server_that_begins_to_evict_takes_no_more_claims() {
    let mut server = RedisServer::durable().await;
    let store = RedisStore::open(settings(&server.url())).unwrap();
    let slot = records::slot("k");
    let (claim, done) = (records::claimed(LONG), records::completed(LONG));
    store.insert(slot, &claim, Timestamp::NEVER).await.unwrap();
    server
        .cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])
        .await;
    server.cli(&["CONFIG", "REWRITE"]).await;
    server.kill9().await;
    server.restart().await;
    // The settings are looked at again as soon as the server is back.
    let refused = loop {
        let insert = store.insert(records::slot("l"), &claim, Timestamp::NEVER);
        match insert.await {
            Err(Error::Full { why, .. }) => break why,
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    assert!(refused.contains("allkeys-lru"), "{refused}");
    assert_eq!(store.durability(), Durability::D0);
    // What was claimed can be completed.
    let replace = store.replace(slot, claim.fence, &done, Timestamp::NEVER);
    replace.await.unwrap();
}

#[tokio::test]
async fn a_replica_is_refused() {
    let master = RedisServer::start(Options::default()).await;
    let replica = RedisServer::start(Options::default().replica_of(master.addr())).await;
    let refused = refusal(&replica.url());
    assert!(matches!(refused, OpenError::ReadOnly { .. }), "{refused}");
}

#[tokio::test]
async fn a_wrong_password_is_told_from_a_server_that_is_away() {
    let server = RedisServer::start(Options::default().password("right")).await;
    RedisStore::open(settings(&server.url())).unwrap();
    for wrong in ["redis://", "redis://:wrong@"] {
        let refused = refusal(&format!("{wrong}{}", server.addr()));
        assert!(matches!(refused, OpenError::Password { .. }), "{refused:?}");
    }
    let url = server.url();
    drop(server);
    let refused = refusal(&url);
    assert!(
        matches!(refused, OpenError::Unreachable { .. }),
        "{refused:?}"
    );
    assert!(!refused.line().contains("right"));
}

#[tokio::test]
async fn a_user_without_the_right_to_run_scripts_is_told_so() {
    let server = RedisServer::start(Options::default()).await;
    let rights = [
        "ACL",
        "SETUSER",
        "app",
        "on",
        ">pw",
        "~*",
        "&*",
        "+@all",
        "-@scripting",
    ];
    server.cli(&rights).await;
    let refused = refusal(&format!("redis://app:pw@{}", server.addr()));
    assert!(matches!(refused, OpenError::Commands { .. }), "{refused:?}");
    assert!(refused.hint().contains("ACL SETUSER app"));
}

#[tokio::test]
async fn a_server_that_hides_its_settings_is_taken_for_the_weaker_class() {
    let server = RedisServer::durable().await;
    let rights = [
        "ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all", "-config",
    ];
    server.cli(&rights).await;
    let url = format!("redis://app:pw@{}", server.addr());
    let store = RedisStore::open(settings(&url)).unwrap();
    assert_eq!(store.durability(), Durability::D1);
}

#[tokio::test]
async fn a_server_alone_is_no_cluster_and_no_sentinel() {
    let server = RedisServer::start(Options::default()).await;
    let refused = refusal(&format!("redis+cluster://{}", server.addr()));
    assert!(refused.line().contains("no cluster"), "{}", refused.line());
    let refused = refusal(&format!("redis+sentinel://{}/main", server.addr()));
    assert!(
        matches!(refused, OpenError::Unreachable { .. }),
        "{refused:?}"
    );
}
