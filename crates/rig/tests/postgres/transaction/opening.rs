//! How a transaction is begun: in one message, and in several where that does not do.

use onceward::{BoxError, Outcome};

use super::world::{InTx, World, payload};

/// The statements that were prepared by name on the connection that is used next.
const NAMED: &str = "SELECT name FROM pg_prepared_statements WHERE from_sql ORDER BY name";

async fn named(world: &World) -> Vec<String> {
    let connection = world.pool.get().await.unwrap();
    let rows = connection.query(NAMED, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
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
async fn statements_are_prepared_once_and_by_name() {
    let world = &World::new().await;
    charge_twice(world, "k1").await;
    let first = named(world).await;
    assert_eq!(first.len(), 2, "{first:?}");
    charge_twice(world, "k2").await;
    assert_eq!(named(world).await, first);
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
    drop(connection);
}

#[tokio::test]
async fn bytes_in_another_writing_are_read_all_the_same() {
    let world = &World::new().await;
    charge_twice(world, "k1").await;
    set(world, "SET bytea_output = 'escape'").await;
    charge_twice(world, "k2").await;
    charge_twice(world, "k3").await;
}

#[tokio::test]
async fn backslashes_of_old_are_no_matter() {
    let world = &World::new().await;
    let old = "SET standard_conforming_strings = off; SET escape_string_warning = off";
    set(world, old).await;
    charge_twice(world, "k1").await;
    assert_eq!(named(world).await.len(), 2);
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
