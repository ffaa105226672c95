//! How a transaction is begun: in one message, and in several where that does not do.

use std::sync::Arc;

use onceward::{BoxError, Outcome, RunError};
use onceward_stores::postgres::{Checkout, Connection, Source, Tx};
use tokio_postgres::NoTls;

use super::world::{InTx, World, payload};

/// The statements that were prepared by name on a connection.
const NAMED: &str = "SELECT name FROM pg_prepared_statements WHERE from_sql ORDER BY name";

/// How often those were executed.
const EXECUTED: &str = "SELECT coalesce(sum(generic_plans + custom_plans), 0)::bigint
    FROM pg_prepared_statements WHERE from_sql";

/// The names on the connection that is used next.
async fn named(world: &World) -> Vec<String> {
    let connection = world.pool.get().await.unwrap();
    let rows = connection.query(NAMED, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// How often a statement was executed by its name on the connection that is used next.
async fn executed(world: &World) -> i64 {
    let connection = world.pool.get().await.unwrap();
    connection.query_one(EXECUTED, &[]).await.unwrap().get(0)
}

/// Sends `text` on the connection that is used next.
async fn set(world: &World, text: &str) {
    let connection = world.pool.get().await.unwrap();
    connection.batch_execute(text).await.unwrap();
}

/// Charges under a new key and finds the answer again.
async fn charge_twice(world: &World, key: &str) {
    let before = world.charges().await;
    for replayed in [false, true] {
        let answer = world.charge(key, 7).await.unwrap();
        assert_eq!(answer.outcome.body().unwrap(), "charged 7");
        assert_eq!(answer.replayed, replayed);
    }
    assert_eq!(world.charges().await, before + 1);
}

#[tokio::test]
async fn a_transaction_is_begun_with_statements_that_have_names() {
    let world = &World::new().await;
    charge_twice(world, "k1").await;
    let first = named(world).await;
    assert_eq!((first.len(), executed(world).await), (2, 4), "{first:?}");
    charge_twice(world, "k2").await;
    assert_eq!((named(world).await, executed(world).await), (first, 8));
}

#[tokio::test]
async fn names_that_are_forgotten_cost_a_detour_and_no_more() {
    let world = &World::new().await;
    charge_twice(world, "k1").await;
    for name in named(world).await {
        set(world, &format!("DEALLOCATE {name}")).await;
    }
    charge_twice(world, "k2").await;
    assert_eq!(named(world).await, [""; 0]);
    charge_twice(world, "k3").await;
}

#[tokio::test]
async fn a_connection_that_forgets_everything_is_told_it_anew() {
    let world = &World::new().await;
    for key in ["k1", "k2", "k3"] {
        charge_twice(world, key).await;
        set(world, "DISCARD ALL").await;
    }
    charge_twice(world, "k4").await;
}

#[tokio::test]
async fn a_name_that_is_there_already_is_used() {
    let world = &World::new().await;
    charge_twice(world, "k1").await;
    let connection = world.pool.get().await.unwrap();
    let texts = "SELECT statement FROM pg_prepared_statements WHERE from_sql";
    let texts: Vec<String> = {
        let rows = connection.query(texts, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    // Another connection, on which somebody else has prepared them.
    let other = world.pool.get().await.unwrap();
    for text in texts {
        other.batch_execute(&text).await.unwrap();
    }
    drop(other);
    charge_twice(world, "k2").await;
    assert_eq!(executed(world).await, 4);
    drop(connection);
}

#[tokio::test]
async fn a_name_that_is_refused_is_done_without() {
    let world = &World::new().await;
    let records = world.store.settings().table("records");
    world
        .sql(&format!("ALTER TABLE {records} RENAME TO away"))
        .await;
    let error = world.charge("k1", 7).await.unwrap_err();
    assert!(matches!(error, RunError::Engine(_)), "{error:?}");
    let away = records.replace("records", "away");
    world
        .sql(&format!("ALTER TABLE {away} RENAME TO records"))
        .await;
    charge_twice(world, "k1").await;
    assert_eq!(executed(world).await, 0);
}

#[tokio::test]
async fn bytes_in_another_writing_are_read_all_the_same() {
    let world = &World::new().await;
    charge_twice(world, "k1").await;
    set(world, "SET bytea_output = 'escape'").await;
    charge_twice(world, "k2").await;
    let before = executed(world).await;
    charge_twice(world, "k3").await;
    assert_eq!(executed(world).await, before);
}

#[tokio::test]
async fn backslashes_of_old_are_no_matter() {
    let world = &World::new().await;
    let old = "SET standard_conforming_strings = off; SET escape_string_warning = off";
    set(world, old).await;
    charge_twice(world, "k1").await;
    assert_eq!(executed(world).await, 4);
}

/// A pool of one connection, for one caller at a time.
struct One(Arc<Connection>);

impl Checkout for One {
    type Given = Arc<Connection>;

    async fn checkout(&self) -> Result<Arc<Connection>, BoxError> {
        Ok(Arc::clone(&self.0))
    }
}

#[tokio::test]
async fn a_connection_without_names_has_none() {
    let world = &World::new().await;
    let connected = tokio_postgres::connect(world.server(), NoTls).await;
    let (client, driver) = connected.unwrap();
    tokio::spawn(driver);
    let one = One(Arc::new(Connection::new(client).without_names()));
    for replayed in [false, true] {
        let work = |tx: Tx<<One as Source>::Open>| async move {
            world.insert(&*tx, "k1", 1).await?;
            Ok::<_, BoxError>(Outcome::success("done"))
        };
        let slot = world.slot("k1");
        let run = world.keys.run(&one, &slot, payload(1), work);
        let answer = run.await.unwrap();
        assert_eq!(answer.replayed, replayed);
    }
    let named = one.0.query(NAMED, &[]).await.unwrap();
    assert_eq!((named.len(), world.charges().await), (0, 1));
}

#[tokio::test]
async fn one_connection_serves_the_tables_of_two_schemas() {
    let (one, two) = (&World::new().await, &World::new().await);
    charge_twice(one, "k1").await;
    for replayed in [false, true] {
        let work = |tx: InTx| async move {
            two.insert(&*tx, "k1", 1).await?;
            Ok::<_, BoxError>(Outcome::success("the other"))
        };
        let slot = two.slot("k1");
        let answer = two.keys.run(&one.pool, &slot, payload(1), work).await;
        let answer = answer.unwrap();
        assert_eq!(answer.outcome.body().unwrap(), "the other");
        assert_eq!(answer.replayed, replayed);
    }
    assert_eq!((one.charges().await, two.charges().await), (1, 1));
    charge_twice(one, "k2").await;
}
