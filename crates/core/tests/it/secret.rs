//! The secret: one for all nodes, made once, and checked.

use std::sync::Arc;

use onceward::testing::{ExpectVerdict, Fault, World};
use onceward::{Engine, Error, MemoryStore, Secret, SlotId, Store as _};

fn engine(store: &Arc<MemoryStore>, secret: Option<[u8; 32]>) -> Engine {
    let builder = Engine::builder(store.clone());
    match secret {
        Some(bytes) => builder.secret(Secret::from_bytes(bytes)).build(),
        None => builder.build(),
    }
}

#[tokio::test]
async fn nodes_that_start_at_once_agree_on_one_secret() {
    let world = World::new();
    let nodes: Vec<_> = (0..20).map(|_| world.node()).collect();
    let mut starting = Vec::new();
    for node in nodes {
        starting.push(tokio::spawn(async move { node.id("k1").await }));
    }
    let expected = world.id("k1").await;
    for node in starting {
        assert_eq!(node.await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_secret_from_outside_is_not_written_into_the_store() {
    let store = Arc::new(MemoryStore::new());
    let given = [7; 32];
    engine(&store, Some(given)).secret().await.unwrap();
    let dump = store.get(SlotId::RESERVED).await;
    let record = dump.unwrap().value.unwrap();
    let body = record.outcome().unwrap().body().unwrap();
    assert!(!body.windows(32).any(|window| window == given));
}

#[tokio::test]
async fn the_same_secret_from_outside_is_welcome_and_any_other_is_not() {
    let store = Arc::new(MemoryStore::new());
    engine(&store, Some([7; 32])).secret().await.unwrap();
    engine(&store, Some([7; 32])).secret().await.unwrap();
    let wrong = engine(&store, Some([8; 32]));
    assert!(matches!(wrong.secret().await, Err(Error::WrongSecret)));
    let missing = engine(&store, None);
    assert!(matches!(missing.secret().await, Err(Error::NoSecret)));
}

#[tokio::test]
async fn a_store_that_made_its_own_secret_refuses_another() {
    let store = Arc::new(MemoryStore::new());
    engine(&store, None).secret().await.unwrap();
    engine(&store, None).secret().await.unwrap();
    let wrong = engine(&store, Some([7; 32]));
    assert!(matches!(wrong.secret().await, Err(Error::WrongSecret)));
}

#[tokio::test]
async fn a_refused_engine_claims_nothing() {
    let world = World::new();
    world.engine.secret().await.unwrap();
    let wrong = Engine::builder(world.store.clone())
        .secret(Secret::from_bytes([7; 32]))
        .build();
    let before = world.store.count();
    let begun = wrong.begin(&world.slot("k1"), world.fingerprint()).await;
    assert!(matches!(begun, Err(Error::WrongSecret)));
    assert_eq!(world.store.count(), before + 1, "one look at the secret");
}

#[tokio::test]
async fn a_store_that_is_away_is_noticed_and_asked_again_later() {
    let world = World::new();
    world.store.set_down(true);
    assert!(matches!(world.engine.secret().await, Err(Error::Store(_))));
    assert!(matches!(world.try_begin("k1").await, Err(Error::Store(_))));
    world.store.set_down(false);
    world.complete("k1", "paid").await;
}

#[tokio::test]
async fn a_secret_whose_reply_was_lost_is_the_one_that_was_written() {
    let world = World::new();
    world.store.fail_at(2, Fault::LostReply);
    assert!(world.engine.secret().await.is_err());
    world.complete("k1", "paid").await;
    assert_eq!(world.node().begin("k1").await.expect_replay(), "paid");
}
