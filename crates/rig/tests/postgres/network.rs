//! The proxy: each fault does what it says, and only that.

use std::time::Duration;

use onceward_rig::postgres::proxy::Fault;
use onceward_rig::postgres::{Proxy, Scratch, scratch};
use tokio_postgres::{Client, NoTls};

/// A table with no rows, and a connection to it through a proxy.
async fn setup() -> (Proxy, Client, Scratch) {
    let (_, scratch) = scratch().await;
    let schema = scratch.schema();
    let table = format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.kept (it int)");
    scratch.sql(&table).await;
    let server: tokio_postgres::Config = scratch.server().parse().unwrap();
    let tokio_postgres::config::Host::Tcp(host) = &server.get_hosts()[0] else {
        panic!("the server is reached by TCP");
    };
    let target = format!("{host}:{}", server.get_ports()[0]);
    let proxy = Proxy::start(target.parse().unwrap());
    let client = connect(&proxy, &scratch).await;
    (proxy, client, scratch)
}

async fn connect(proxy: &Proxy, scratch: &Scratch) -> Client {
    let url = proxy.url(scratch.server());
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn insert(client: &Client, scratch: &Scratch) -> Result<(), tokio_postgres::Error> {
    let text = format!("INSERT INTO {}.kept VALUES (1)", scratch.schema());
    client.batch_execute(&text).await
}

async fn kept(scratch: &Scratch) -> String {
    let text = format!("SELECT count(*) FROM {}.kept", scratch.schema());
    scratch.value(&text).await
}

#[tokio::test]
async fn a_dropped_reply_is_that_of_a_request_that_was_done() {
    let (proxy, client, scratch) = setup().await;
    proxy.strike(Fault::ReplyDropped);
    assert!(proxy.awaits());
    insert(&client, &scratch).await.unwrap_err();
    assert_eq!(kept(&scratch).await, "1");
    assert_eq!((proxy.struck(), proxy.awaits()), (1, false));
}

#[tokio::test]
async fn a_dropped_request_is_not_done() {
    let (proxy, client, scratch) = setup().await;
    proxy.strike(Fault::RequestDropped);
    insert(&client, &scratch).await.unwrap_err();
    assert_eq!(kept(&scratch).await, "0");
    let client = connect(&proxy, &scratch).await;
    insert(&client, &scratch).await.unwrap();
    assert_eq!(kept(&scratch).await, "1");
}

#[tokio::test]
async fn a_cut_and_a_reset_end_every_connection() {
    let (proxy, client, scratch) = setup().await;
    proxy.strike(Fault::Cut);
    insert(&client, &scratch).await.unwrap_err();
    let client = connect(&proxy, &scratch).await;
    proxy.strike(Fault::Reset);
    insert(&client, &scratch).await.unwrap_err();
    assert_eq!(proxy.struck(), 2);
}

#[tokio::test]
async fn nobody_is_told_of_a_half_open_connection() {
    let (proxy, client, scratch) = setup().await;
    proxy.strike(Fault::HalfOpen);
    let soon = Duration::from_millis(300);
    let asked = tokio::time::timeout(soon, insert(&client, &scratch));
    assert!(asked.await.is_err(), "nothing comes back");
    assert_eq!(
        (kept(&scratch).await.as_str(), proxy.connections()),
        ("0", 1)
    );
    let another = connect(&proxy, &scratch).await;
    insert(&another, &scratch).await.unwrap();
}

#[tokio::test]
async fn a_closed_proxy_turns_everybody_away_until_it_is_opened() {
    let (proxy, client, scratch) = setup().await;
    proxy.close();
    insert(&client, &scratch).await.unwrap_err();
    let url = proxy.url(scratch.server());
    assert!(tokio_postgres::connect(&url, NoTls).await.is_err());
    proxy.open();
    insert(&connect(&proxy, &scratch).await, &scratch)
        .await
        .unwrap();
}
