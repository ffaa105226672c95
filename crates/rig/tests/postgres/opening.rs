//! What keeps a store from opening: one clear line, and a hint at what to do.

use std::net::TcpListener;
use std::time::Duration;

use onceward_rig::postgres::proxy::Fault;
use onceward_rig::postgres::{Proxy, Server, scratch};
use onceward_stores::postgres::{self, PostgresStore, Settings};
use onceward_stores::{OpenError, StoreUrl};

use tokio::sync::oneshot;

use crate::shared::{PATIENCE, open};

/// Why a store does not open: its line and its hint.
fn refused(url: &str) -> (String, String) {
    let url: StoreUrl = url.parse().expect("the URL is good");
    let error: OpenError = onceward_stores::open(&url).expect_err("it does not open");
    let (line, hint) = (error.line(), error.hint());
    assert!(
        !line.contains('\n') && !hint.contains('\n'),
        "{line}\n{hint}"
    );
    assert!(!line.contains("s3cret") && !hint.contains("s3cret"));
    (line, hint)
}

/// A server on which `app` has to give a password, and which has a database `shop`.
async fn guarded() -> Server {
    let server = Server::builder()
        .setting("fsync", "off")
        .rule("host all app 127.0.0.1/32 scram-sha-256")
        .start()
        .await;
    server.sql("CREATE ROLE app LOGIN PASSWORD 's3cret'").await;
    server.sql("CREATE DATABASE shop").await;
    server
}

const PASSWORD_HINT: &str = "give the password in PGPASSWORD or in the URL, and see what \
                             pg_hba.conf says about this role and host";

#[tokio::test]
async fn a_wrong_or_missing_password_is_said_to_be_one() {
    let server = guarded().await;
    let addr = server.addr();
    let (line, hint) = refused(&format!("postgres://app:wrong-s3cret@{addr}/shop"));
    assert_eq!(
        line,
        format!(
            "PostgreSQL at {addr}/shop does not let app in: \
             password authentication failed for user \"app\""
        )
    );
    assert_eq!(hint, PASSWORD_HINT);

    let (line, hint) = refused(&format!("postgres://app@{addr}/shop"));
    assert_eq!(
        line,
        format!(
            "PostgreSQL at {addr}/shop does not let app in: \
             it asks for a password, and none was given"
        )
    );
    assert_eq!(hint, PASSWORD_HINT);
}

#[tokio::test]
async fn a_role_that_may_not_make_or_use_the_tables_is_told_who_can_help() {
    let server = guarded().await;
    let addr = server.addr();
    let url = format!("postgres://app:s3cret@{addr}/shop");
    let hint_expected = "let an owner run: onceward migrate, then GRANT USAGE on the schema and \
                         SELECT, INSERT, UPDATE, DELETE on its tables to app";
    let (line, hint) = refused(&url);
    let expected =
        format!("app may not use the tables at {addr}/shop: permission denied for database shop");
    assert_eq!(
        (line.as_str(), hint.as_str()),
        (expected.as_str(), hint_expected)
    );

    // An owner has made the tables, and has granted nothing yet; then reading alone.
    let owner: Settings = format!("postgres://postgres@{addr}/shop").parse().unwrap();
    let migrated = postgres::migrate(&owner).unwrap();
    assert_eq!(migrated.from, 0);
    let shop = format!("postgres://postgres@{addr}/shop");
    let (line, _) = refused(&url);
    let expected =
        format!("app may not use the tables at {addr}/shop: permission denied for schema onceward");
    assert_eq!(line, expected);
    grant(&shop, "GRANT USAGE ON SCHEMA onceward TO app").await;
    grant(
        &shop,
        "GRANT SELECT ON ALL TABLES IN SCHEMA onceward TO app",
    )
    .await;
    let (line, hint) = refused(&url);
    assert!(
        line.starts_with(&format!("app may not use the tables at {addr}/shop: ")),
        "{line}"
    );
    assert_eq!(hint, hint_expected);

    let rights = "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA onceward TO app";
    grant(&shop, rights).await;
    drop(open(&url));
}

/// Runs a statement in a database.
async fn grant(url: &str, text: &str) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client.batch_execute(text).await.unwrap();
}

#[tokio::test]
async fn a_role_without_the_right_to_create_schemas_makes_tables_in_one_it_owns() {
    let server = guarded().await;
    let shop = format!("postgres://postgres@{}/shop", server.addr());
    grant(&shop, "CREATE SCHEMA onceward AUTHORIZATION app").await;
    drop(open(&format!(
        "postgres://app:s3cret@{}/shop",
        server.addr()
    )));
}

#[tokio::test]
async fn a_missing_database_is_named() {
    let server = guarded().await;
    let addr = server.addr();
    let (line, hint) = refused(&format!("postgres://postgres@{addr}/nowhere"));
    assert_eq!(
        line,
        format!("PostgreSQL at {addr}/nowhere has no database nowhere")
    );
    assert_eq!(hint, "create it with: createdb nowhere");
}

#[tokio::test]
async fn a_read_only_replica_is_not_served_from() {
    let primary = Server::builder().setting("fsync", "off").start().await;
    drop(open(&primary.url()));
    let standby = Server::builder().standby_of(&primary).start().await;
    let (line, hint) = refused(&standby.url());
    let addr = standby.addr();
    assert_eq!(
        line,
        format!("PostgreSQL at {addr}/postgres is a read-only replica")
    );
    assert_eq!(
        hint,
        "name the primary: keys cannot be claimed on a replica, and what is read there is old"
    );
    standby.promote().await;
    drop(open(&standby.url()));
}

#[tokio::test]
async fn tables_of_a_newer_version_are_left_alone() {
    let (url, scratch) = scratch().await;
    drop(open(&url));
    let newer = format!(
        "INSERT INTO {}.schema_version (version, what) VALUES (1000, 'tomorrow')",
        scratch.schema()
    );
    scratch.sql(&newer).await;
    let (line, hint) = refused(&url);
    assert!(
        line.starts_with("the tables at ")
            && line.contains(" have version 1000, this program knows up to "),
        "{line}"
    );
    assert_eq!(hint, "use the version that made them, or a newer one");
}

#[tokio::test]
async fn a_store_that_may_not_migrate_says_what_to_run() {
    let (url, scratch) = scratch().await;
    let off = format!("{url}&migrate=off");
    let (line, hint) = refused(&off);
    assert!(line.contains(" have version 0, and version "), "{line}");
    assert_eq!(
        hint,
        "run: onceward migrate --store URL, or leave migrate=off out of the URL"
    );
    let made = format!(
        "SELECT count(*) FROM pg_namespace WHERE nspname = '{}'",
        scratch.schema()
    );
    assert_eq!(scratch.value(&made).await, "0");

    let settings: Settings = off.parse().unwrap();
    let migrated = postgres::migrate(&settings).unwrap();
    assert_eq!((migrated.from, migrated.to > 0), (0, true));
    assert_eq!(postgres::migrate(&settings).unwrap().from, migrated.to);
    drop(open(&off));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = port.local_addr().unwrap();
    drop(port);
    let (line, hint) = refused(&format!("postgres://postgres:s3cret@{addr}/shop"));
    let expected = format!("PostgreSQL at {addr}/shop cannot be reached: ");
    assert!(
        line.starts_with(&expected) && line.contains("refused"),
        "{line}"
    );
    assert_eq!(
        hint,
        "see that the server runs, that host and port are right, and that nothing stands between"
    );
}

#[tokio::test]
async fn a_server_that_falls_silent_while_a_store_opens_is_unreachable() {
    let server = Server::builder().setting("fsync", "off").start().await;
    drop(open(&server.url()));
    let proxy = Proxy::start(server.addr());
    proxy.delay(Duration::from_millis(3));
    let url = format!("{}?timeout=300ms&sslmode=disable", proxy.url(&server.url()));
    // As late as it takes until it is too late: at every step of opening, then.
    for tries in 0.. {
        let settings: Settings = url.parse().unwrap();
        let (tell, mut told) = oneshot::channel();
        std::thread::spawn(move || tell.send(PostgresStore::open(settings).map(drop)));
        while proxy.connections() == 0 && told.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(4 * tries)).await;
        proxy.strike(Fault::HalfOpen);
        let told = tokio::time::timeout(PATIENCE, &mut told).await;
        match told.expect("it is said in time").unwrap() {
            Ok(()) => {
                assert!(tries > 3, "it was hardly tried");
                break;
            }
            Err(error) => {
                let line = error.line();
                let why = ["did not answer in time", "due to statement timeout"];
                assert!(why.iter().any(|why| line.ends_with(why)), "{line}");
            }
        }
        proxy.strike(Fault::Reset);
        while proxy.connections() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test]
async fn many_nodes_that_start_at_once_migrate_once() {
    let (url, scratch) = scratch().await;
    let starts = (0..8).map(|_| {
        let settings: Settings = url.parse().unwrap();
        tokio::task::spawn_blocking(move || PostgresStore::open(settings).unwrap())
    });
    let stores = futures_util::future::join_all(starts).await;
    assert!(stores.iter().all(Result::is_ok));
    let versions = format!(
        "SELECT count(*) - max(version) FROM {}.schema_version",
        scratch.schema()
    );
    assert_eq!(scratch.value(&versions).await, "0");
}
