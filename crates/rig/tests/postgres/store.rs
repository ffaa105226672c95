//! What the store does with connections, locks and clocks, beside the contract.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{FutureExt as _, StreamExt as _};
use onceward::store::{Filter, Insert, Swap};
use onceward::testing::records::{self, LONG};
use onceward::{Durability, Record, SlotId, Store as _, Timestamp};
use onceward_rig::postgres::{Scratch, Server, scratch};
use onceward_stores::OpenError;
use onceward_stores::postgres::PostgresStore;
use tokio_postgres::{Client, NoTls};

const ANSWERS: &str = "the store answers";

async fn open(url: &str) -> PostgresStore {
    try_open(url).await.unwrap()
}

/// Opening blocks, so it is done beside the runtime.
async fn try_open(url: &str) -> Result<PostgresStore, OpenError> {
    let settings = url.parse().unwrap();
    let opened = tokio::task::spawn_blocking(move || PostgresStore::open(settings));
    opened.await.unwrap()
}

async fn fresh(parameters: &str) -> (PostgresStore, Scratch) {
    let (url, scratch) = scratch().await;
    (open(&format!("{url}{parameters}")).await, scratch)
}

/// Somebody else's connection to the server of a scratch.
async fn stranger(scratch: &Scratch) -> Client {
    let (client, connection) = tokio_postgres::connect(scratch.server(), NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

async fn put(store: &PostgresStore, slot: SlotId, record: &Record) {
    let reply = store.insert(slot, record, Timestamp::NEVER).await;
    assert_eq!(reply.expect(ANSWERS).value, Insert::Done);
}

fn slots(count: usize) -> Vec<SlotId> {
    (0..count)
        .map(|at| records::slot(&at.to_string()))
        .collect()
}

#[tokio::test]
async fn a_lone_call_goes_at_once_and_alone() {
    let (store, _scratch) = fresh("").await;
    for slot in slots(10) {
        let claim = records::claimed(LONG);
        put(&store, slot, &claim).await;
        let done = records::completed(LONG);
        let swap = store.replace(slot, claim.fence, &done, Timestamp::NEVER);
        assert_eq!(swap.await.expect(ANSWERS).value, Swap::Done);
    }
    let figures = store.figures();
    assert_eq!((figures.batches, figures.calls), (20, 20));
    assert_eq!((figures.splits, figures.retries), (0, 0));
}

#[tokio::test]
async fn calls_that_come_together_go_together() {
    let (store, _scratch) = fresh("&connections=1").await;
    let before = store.figures();
    let reads = slots(200).into_iter().map(|slot| store.get(slot));
    for read in join_all(reads).await {
        read.expect(ANSWERS);
    }
    let figures = store.figures();
    assert_eq!(figures.calls - before.calls, 200);
    assert!(figures.batches - before.batches <= 20, "{figures:?}");
}

#[tokio::test]
async fn a_foreign_insert_under_way_holds_up_nobody_else() {
    let (store, scratch) = fresh("").await;
    let stranger = stranger(&scratch).await;
    let all = slots(40);
    stranger.batch_execute("BEGIN").await.unwrap();
    let table = store.settings().table("records");
    let insert =
        format!("INSERT INTO {table} VALUES ($1, gen_random_uuid(), 1, 1, 1, 't', 'o', '\\x00')");
    let held = all[17];
    let taken = stranger.execute(&insert, &[&&held.as_bytes()[..]]).await;
    taken.unwrap();

    let insert = |slot: SlotId| {
        let store = store.clone();
        tokio::spawn(async move {
            let claim = records::claimed(LONG);
            store.insert(slot, &claim, Timestamp::NEVER).await
        })
    };
    let mut inserts: Vec<_> = all.iter().map(|slot| insert(*slot)).collect();
    let waits = inserts.remove(17);
    let others = tokio::time::timeout(Duration::from_secs(3), join_all(inserts)).await;
    for reply in others.expect("the others go on") {
        assert_eq!(reply.unwrap().expect(ANSWERS).value, Insert::Done);
    }
    let met = async {
        while store.figures().retries == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let met = tokio::time::timeout(Duration::from_secs(3), met).await;
    met.expect("it is sent again, alone");
    assert!(!waits.is_finished(), "nobody knows yet who gets the slot");

    stranger.batch_execute("ROLLBACK").await.unwrap();
    let reply = waits.await.unwrap().expect(ANSWERS);
    assert_eq!(reply.value, Insert::Done);
}

#[tokio::test]
async fn a_foreign_lock_on_a_record_holds_up_nobody_else() {
    let (store, scratch) = fresh("").await;
    let stranger = stranger(&scratch).await;
    let claims: Vec<_> = slots(40)
        .into_iter()
        .map(|slot| (slot, records::claimed(LONG)))
        .collect();
    join_all(claims.iter().map(|(slot, claim)| put(&store, *slot, claim))).await;
    stranger.batch_execute("BEGIN").await.unwrap();
    let table = store.settings().table("records");
    let lock = format!("SELECT 1 FROM {table} WHERE slot = $1 FOR SHARE");
    let (held, claim) = &claims[5];
    let locked = stranger.query(&lock, &[&&held.as_bytes()[..]]).await;
    assert_eq!(locked.unwrap().len(), 1);

    let done = records::completed(LONG);
    let waits = store.replace(*held, claim.fence, &done, Timestamp::NEVER);
    tokio::pin!(waits);
    assert!(waits.as_mut().now_or_never().is_none());
    let others = claims.iter().filter(|(slot, _)| slot != held);
    let others = others.map(|(slot, claim)| {
        let (store, done) = (store.clone(), records::completed(LONG));
        async move {
            store
                .replace(*slot, claim.fence, &done, Timestamp::NEVER)
                .await
        }
    });
    let others = tokio::time::timeout(Duration::from_secs(1), join_all(others)).await;
    for reply in others.expect("the others go on") {
        assert_eq!(reply.expect(ANSWERS).value, Swap::Done);
    }
    assert!(waits.as_mut().now_or_never().is_none());

    // Its stamp is that of the write, not that of the moment at which it began to wait.
    let before = store.get(*held).await.expect(ANSWERS).now;
    stranger.batch_execute("ROLLBACK").await.unwrap();
    let reply = waits.await.expect(ANSWERS);
    assert_eq!(reply.value, Swap::Done);
    let found = store.get(*held).await.expect(ANSWERS).value.unwrap();
    assert_eq!(found.written, reply.now);
    assert!(before <= reply.now);
}

#[tokio::test]
async fn a_record_that_stays_held_is_unavailable_at_the_deadline() {
    let (store, scratch) = fresh("&timeout=1s").await;
    let stranger = stranger(&scratch).await;
    let (slot, claim) = (records::slot("held"), records::claimed(LONG));
    put(&store, slot, &claim).await;
    stranger.batch_execute("BEGIN").await.unwrap();
    let table = store.settings().table("records");
    let lock = format!("SELECT 1 FROM {table} FOR UPDATE");
    stranger.query(&lock, &[]).await.unwrap();

    let remove = store.remove(slot, claim.fence, Timestamp::NEVER);
    let ended = tokio::time::timeout(Duration::from_secs(4), remove).await;
    assert!(ended.expect("it ends").is_err());
    stranger.batch_execute("ROLLBACK").await.unwrap();
    let found = store.get(slot).await.expect(ANSWERS).value;
    assert!(
        found.is_some(),
        "nothing was removed behind the caller's back"
    );
}

#[tokio::test]
async fn a_write_that_waits_past_its_last_moment_is_late() {
    let (store, scratch) = fresh("").await;
    let stranger = stranger(&scratch).await;
    let (slot, claim) = (records::slot("held"), records::claimed(LONG));
    put(&store, slot, &claim).await;
    stranger.batch_execute("BEGIN").await.unwrap();
    let table = store.settings().table("records");
    let lock = format!("SELECT 1 FROM {table} FOR UPDATE");
    stranger.query(&lock, &[]).await.unwrap();

    let last = store.get(slot).await.expect(ANSWERS).now + Duration::from_millis(100);
    let done = records::completed(LONG);
    let reply = store.replace(slot, claim.fence, &done, last).await;
    assert_eq!(reply.expect(ANSWERS).value, Swap::Late);
    stranger.batch_execute("ROLLBACK").await.unwrap();
    let found = store.get(slot).await.expect(ANSWERS).value.unwrap();
    assert_eq!(found.fence, claim.fence);
}

#[tokio::test]
async fn a_commit_that_did_not_wait_for_its_standby_is_an_error_and_told_of_once_it_is_there() {
    let server = Server::start().await;
    let store = open(&format!("{}?timeout=1s", server.url())).await;
    assert_eq!(store.durability(), Durability::D2);
    server
        .sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        .await;
    server.sql("SELECT pg_reload_conf()").await;
    // Not every session has heard of it at once: the first write that waits is the one.
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let mut tries = 0;
    let (slot, claim, insert) = loop {
        tries += 1;
        let (slot, claim) = (records::slot(&tries.to_string()), records::claimed(LONG));
        let insert = {
            let (store, claim) = (store.clone(), claim.clone());
            tokio::spawn(async move { store.insert(slot, &claim, Timestamp::NEVER).await })
        };
        while !insert.is_finished() && server.value(waits).await == "0" {}
        if !insert.is_finished() {
            break (slot, claim, insert);
        }
    };
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    server.value(cancel).await;

    let error = insert.await.unwrap().unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("standby"), "{cause}");
    // It happened all the same, and nobody may rely on it before the standby has it.
    let found = store.get(slot).await;
    assert!(found.is_err(), "{found:?}");
    let taken = store.insert(slot, &claim, Timestamp::NEVER).await;
    assert!(taken.is_err(), "{taken:?}");

    // A new connection looks at the settings again.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE application_name = 'onceward'";
    server.value(end).await;
    let seen = async {
        while store.durability() != Durability::D3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let seen = tokio::time::timeout(Duration::from_secs(5), seen).await;
    seen.expect("the class follows the settings");

    server
        .sql("ALTER SYSTEM RESET synchronous_standby_names")
        .await;
    server.sql("SELECT pg_reload_conf()").await;
    let told = async {
        loop {
            if let Ok(reply) = store.get(slot).await {
                return reply.value.map(|it| it.fence);
            }
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(20), told).await;
    assert_eq!(told.expect("commits no longer wait"), Some(claim.fence));
}

#[tokio::test]
async fn nodes_that_start_together_make_the_tables_once() {
    let (url, scratch) = scratch().await;
    let opened = join_all((0..8).map(|_| try_open(&url))).await;
    for store in &opened {
        assert!(store.is_ok(), "{store:?}");
    }
    let versions = format!("SELECT count(*) FROM {}.schema_version", scratch.schema());
    assert_eq!(scratch.value(&versions).await, "1");
}

#[tokio::test]
async fn a_role_needs_rights_on_the_tables_and_no_more() {
    let (url, scratch) = scratch().await;
    drop(open(&url).await);
    let (schema, role) = (scratch.schema(), format!("role_{}", scratch.schema()));
    scratch
        .sql(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role};
             GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA {schema} TO {role}"
        ))
        .await;
    let as_role = url.replacen("postgres@", &format!("{role}@"), 1);
    let refused = try_open(&as_role).await.unwrap_err();
    assert!(matches!(refused, OpenError::Rights { .. }), "{refused}");
    assert!(refused.to_string().contains("DELETE"), "{refused}");

    scratch
        .sql(&format!("GRANT DELETE ON {schema}.records TO {role}"))
        .await;
    let store = open(&as_role).await;
    let (slot, claim) = (records::slot("k"), records::claimed(LONG));
    put(&store, slot, &claim).await;
    let swept = store.sweep(Timestamp::NEVER, 10).await;
    assert_eq!(swept.expect(ANSWERS).value.removed, 0);
    let page = store.list(&Filter::default(), None, 10).await;
    assert_eq!(page.expect(ANSWERS).value.records.len(), 1);
    let remove = store.remove(slot, claim.fence, Timestamp::NEVER).await;
    assert_eq!(remove.expect(ANSWERS).value, Swap::Done);
    drop(store);
    scratch
        .sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await;
}

#[tokio::test]
async fn a_server_that_comes_back_is_served_from_again() {
    let mut server = Server::start().await;
    let store = open(&server.url()).await;
    let (slot, claim) = (records::slot("k"), records::claimed(LONG));
    put(&store, slot, &claim).await;
    server.kill9().await;
    let away = async { while store.get(slot).await.is_ok() {} };
    let away = tokio::time::timeout(Duration::from_secs(6), away).await;
    away.expect("nobody is told what nobody knows");

    server.restart().await;
    let back = async {
        while store.get(slot).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let back = tokio::time::timeout(Duration::from_secs(5), back).await;
    back.expect("it is back within five seconds");
    let found = store.get(slot).await.expect(ANSWERS).value;
    assert_eq!(found.map(|it| it.fence), Some(claim.fence));
}

#[tokio::test]
async fn a_server_that_falls_silent_keeps_nobody_waiting_for_ever() {
    let server = Server::start().await;
    let store = open(&format!("{}?timeout=500ms", server.url())).await;
    let (slot, claim) = (records::slot("k"), records::claimed(LONG));
    server.pause();
    let insert = store.insert(slot, &claim, Timestamp::NEVER);
    let ended = tokio::time::timeout(Duration::from_secs(2), insert).await;
    assert!(ended.expect("it ends").is_err());
    server.resume();
    let back = async {
        while store.get(slot).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let back = tokio::time::timeout(Duration::from_secs(5), back).await;
    back.expect("it is back within five seconds");
}

#[tokio::test]
async fn a_node_starts_at_the_highest_time_on_record() {
    let (url, scratch) = scratch().await;
    let store = open(&url).await;
    put(&store, records::slot("k"), &records::claimed(LONG)).await;
    let then = store.get(records::slot("k")).await.expect(ANSWERS).now;
    store.close();
    let clock = format!("{}.clock", scratch.schema());
    let on_record = scratch.value(&format!("SELECT guarded FROM {clock}")).await;
    let on_record: u64 = on_record.parse().unwrap();
    let gap = Timestamp::from_micros(on_record).since(then.before(Duration::from_secs(1)));
    assert!(gap < Duration::from_secs(3), "{gap:?}");

    let hour = Duration::from_secs(3600);
    scratch
        .sql(&format!(
            "UPDATE {clock} SET guarded = guarded + 3600000000"
        ))
        .await;
    let store = open(&url).await;
    let slot = records::slot("another");
    let claim = records::claimed(LONG);
    let reply = store.insert(slot, &claim, Timestamp::NEVER).await;
    let now = reply.expect(ANSWERS).now;
    assert!(now >= then + hour, "{now:?}");
    assert_eq!(
        store.get(slot).await.expect(ANSWERS).value.unwrap().written,
        now
    );
}

#[tokio::test]
async fn a_closed_store_answers_with_an_error_and_ends_its_streams() {
    let (store, _scratch) = fresh("").await;
    let mut hints = store.watch();
    let closing = store.clone();
    tokio::task::spawn_blocking(move || closing.close())
        .await
        .unwrap();
    assert_eq!(hints.next().await, None);
    assert!(store.get(records::slot("k")).await.is_err());
    assert!(store.sweep(Timestamp::NEVER, 1).await.is_err());
    assert_eq!(store.watch().next().await, None);
}

#[tokio::test]
async fn two_schemas_of_one_database_know_nothing_of_each_other() {
    let (one, _one) = fresh("").await;
    let (two, _two) = fresh("&prefix=p_").await;
    let (slot, claim) = (records::slot("k"), records::claimed(LONG));
    put(&one, slot, &claim).await;
    assert_eq!(two.get(slot).await.expect(ANSWERS).value, None);
    put(&two, slot, &claim).await;
}
