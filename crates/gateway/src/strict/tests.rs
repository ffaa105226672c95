use std::time::Duration;

use onceward::testing::records;
use onceward::{Engine, MemoryStore};
use onceward_rig::gateway::{Ask, Origin, Received, ask};
use onceward_stores::embedded::EmbeddedStore;
use tokio::net::TcpListener;

use self::wavering::Wavering;
use super::*;
use crate::config::{Config, Overrides};
use crate::{Gateway, Given};

mod wavering;

/// A store that forgets with the process.
fn forgetful() -> StrictStore {
    StrictStore::new(Arc::new(MemoryStore::new()))
}

fn is_refused<T>(reply: &Result<Reply<T>, Error>) -> bool {
    matches!(reply, Err(Error::Full { .. }))
}

#[tokio::test]
async fn store_that_can_forget_takes_no_new_claims() {
    let store = forgetful();
    let (slot, claim) = (records::slot("k"), records::claimed(records::LONG));
    let refused = store.insert(slot, &claim, Timestamp::NEVER).await;
    assert!(is_refused(&refused), "{refused:?}");
    assert_eq!(store.get(slot).await.unwrap().value, None);

    // Nor over what has expired.
    let open = records::open(records::LONG);
    store.insert(slot, &open, Timestamp::NEVER).await.unwrap();
    let over = store.replace(slot, open.fence, &claim, Timestamp::NEVER);
    assert!(is_refused(&over.await));
}

#[tokio::test]
async fn claims_that_were_granted_before_go_on() {
    let store = forgetful();
    let (slot, claim) = (records::slot("k"), records::claimed(records::LONG));
    // As it was granted while the store was still of the class that is wanted.
    let granted = store.inner.insert(slot, &claim, Timestamp::NEVER).await;
    assert_eq!(granted.unwrap().value, Insert::Done);

    let renewed = records::rewritten(&claim);
    let reply = store.replace(slot, claim.fence, &renewed, Timestamp::NEVER);
    assert_eq!(reply.await.unwrap().value, Swap::Done);
    let done = Record {
        mark: claim.mark,
        ..records::completed(records::LONG)
    };
    let reply = store.replace(slot, renewed.fence, &done, Timestamp::NEVER);
    assert_eq!(reply.await.unwrap().value, Swap::Done);
    assert!(store.get(slot).await.unwrap().value.is_some());
}

#[tokio::test]
async fn work_that_somebody_else_remembers_is_claimed_all_the_same() {
    let store = forgetful();
    for effect in [Effect::Keyed, Effect::Transactional] {
        let claim = Record {
            effect,
            ..records::claimed(records::LONG)
        };
        let slot = records::slot(&format!("{effect:?}"));
        let reply = store.insert(slot, &claim, Timestamp::NEVER).await;
        assert_eq!(reply.unwrap().value, Insert::Done);
    }
}

#[tokio::test]
async fn store_that_keeps_what_it_acknowledged_is_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let inner = EmbeddedStore::open(folder.path().join("store")).unwrap();
    let store = StrictStore::new(Arc::new(inner));
    assert_eq!(store.durability(), Durability::D2);
    let (slot, claim) = (records::slot("k"), records::claimed(records::LONG));
    let reply = store.insert(slot, &claim, Timestamp::NEVER).await;
    assert_eq!(reply.unwrap().value, Insert::Done);
}

#[tokio::test]
async fn secret_of_a_deployment_is_no_claim() {
    let engine = Engine::builder(Arc::new(forgetful())).build();
    let found = tokio::time::timeout(Duration::from_secs(5), engine.secret()).await;
    assert!(found.unwrap().is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_claims_nothing_while_its_store_can_forget_and_goes_on_after() {
    let origin = Origin::start().await;
    let overrides = Overrides {
        upstream: Some(format!("http://{}", origin.addr())),
        admin: Some(
            "127.0.0.1:0"
                .parse()
                .map(crate::config::AdminListen::At)
                .unwrap(),
        ),
        ..Overrides::default()
    };
    let store = Arc::new(Wavering::default());
    let config = Config::parse("strict = true\n", "test", overrides).unwrap();
    let given = Given {
        store: Some(store.clone()),
        ..Given::default()
    };
    let gateway = Gateway::start(config, given).await.unwrap();
    let admin = gateway.admin_addr().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let serving = tokio::spawn(gateway.serve(listener, std::future::pending()));

    let pay = async |key: &str| ask(addr, &Ask::post("/payments").key(key)).await.unwrap();
    let ready = async || ask(admin, &Ask::get("/readyz")).await.unwrap();
    let replays = |answer: &Received| answer.status == 201 && answer.is_replay();
    assert_eq!(pay("before").await.status, 201);
    assert_eq!(ready().await.status, 200);

    store.forgets(true);
    let refused = pay("during").await;
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(refused.problem().as_deref(), Some("store-unavailable"));
    assert!(replays(&pay("before").await), "what is there is repeated");
    assert_eq!(origin.count(), 1);
    let told = ready().await;
    assert_eq!(told.status, 503);
    assert!(told.text().contains("strict = true"), "{}", told.text());

    store.forgets(false);
    assert_eq!(pay("during").await.status, 201);
    assert_eq!(ready().await.status, 200);
    serving.abort();
}
