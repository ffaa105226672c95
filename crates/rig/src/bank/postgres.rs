//! The PostgreSQL store: a few cases of the contract, and stories of strangers who hold what the
//! store wants, of answers that are lost, and of a standby that is missing.

use std::sync::Arc;

use futures_util::future::{BoxFuture, join};
use onceward::store::{Insert, Swap};
use onceward::testing::conformance::{CASES, Case};
use onceward::testing::records::{self, LONG, SHORT};
use onceward::{Record, SlotId, Store as _, Timestamp};
use onceward_stores::postgres::PostgresStore;
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

use super::contract;
use crate::postgres::proxy::Fault;
use crate::postgres::{Proxy, Server};

/// A fresh schema on the server of this layer.
#[derive(Clone)]
struct Place {
    server: &'static Server,
    schema: String,
}

/// Sees what statements on a schema wait for.
struct Watcher {
    client: Client,
    schema: String,
}

type Story = fn(Place) -> BoxFuture<'static, Option<String>>;

/// The cases of the contract that the statements and the batches can break in ways of their own.
const HELD_TO: [&str; 3] = [
    "a_stale_fence_replaces_nothing",
    "a_late_insert_changes_nothing",
    "one_of_many_inserts_wins",
];

const STORIES: [(&str, Story); 5] = [
    ("a sweep beside a writer", |place| Box::pin(sweeps(place))),
    ("a record that is held", |place| Box::pin(is_held(place))),
    ("an insert beside another", |place| {
        Box::pin(is_filled(place))
    }),
    ("an answer that is lost", |place| {
        Box::pin(loses_an_answer(place))
    }),
    ("a standby that is missing", |place| {
        Box::pin(misses_its_standby(place))
    }),
];

const ANSWERS: &str = "the store answers";
const DOES_IT: &str = "the server does it";

pub(super) fn round() -> u64 {
    (HELD_TO.len() + STORIES.len()) as u64
}

pub(super) fn trial(number: u64) -> Option<String> {
    let runtime = Runtime::new().expect("a runtime starts");
    let place = runtime.block_on(Place::fresh());
    let at = (number % round()) as usize;
    let Some(at) = at.checked_sub(HELD_TO.len()) else {
        let is_it = |case: &&Case| case.name == HELD_TO[at];
        let case = CASES.iter().find(is_it).expect("it is in the contract");
        return contract::hold(case, Arc::new(place.open("")));
    };
    let (name, story) = STORIES[at];
    let wrong = runtime.block_on(story(place));
    runtime.shutdown_background();
    Some(format!("{name}: {}", wrong?))
}

/// Two records are due, and removing one takes a while; meanwhile somebody gives both more time.
async fn sweeps(place: Place) -> Option<String> {
    let store = place.opened("").await;
    let mut due = Vec::new();
    for name in ["one", "two"] {
        let (slot, record) = (records::slot(name), records::completed(SHORT));
        let put = put(&store, slot, &record).await;
        due.push((slot, record.fence));
        while store.get(slot).await.expect(ANSWERS).now <= put + SHORT {}
    }
    let schema = &place.schema;
    let slowly = format!(
        "CREATE FUNCTION {schema}.slowly() RETURNS trigger LANGUAGE plpgsql
           AS 'BEGIN PERFORM pg_sleep(0.3); RETURN OLD; END';
         CREATE TRIGGER slowly BEFORE DELETE ON {schema}.records
           FOR EACH ROW EXECUTE FUNCTION {schema}.slowly()"
    );
    place.server.sql(&slowly).await;
    let watcher = Watcher::of(&place).await;
    let sweeper = store.clone();
    let sweep = tokio::spawn(async move { sweeper.sweep(Timestamp::NEVER, 10).await });
    while !watcher.sees_waiting("PgSleep").await && !sweep.is_finished() {}

    let keep = |(slot, seen)| {
        let store = &store;
        async move {
            let kept = records::completed(LONG);
            let reply = store.replace(slot, seen, &kept, Timestamp::NEVER).await;
            (slot, reply.expect(ANSWERS).value)
        }
    };
    let (one, two) = join(keep(due[0]), keep(due[1])).await;
    let swept = sweep.await.expect("it does not panic");
    swept.expect(ANSWERS);
    for (slot, became) in [one, two] {
        let found = store.get(slot).await.expect(ANSWERS).value;
        if became == Swap::Done && found.is_none() {
            return Some("a record was kept and then swept".to_owned());
        }
    }
    None
}

/// Somebody holds a record for a moment without changing it: the write comes after that.
async fn is_held(place: Place) -> Option<String> {
    let store = place.opened("").await;
    let (slot, claim) = (records::slot("k"), records::claimed(LONG));
    put(&store, slot, &claim).await;
    let (stranger, watcher) = (place.stranger().await, Watcher::of(&place).await);
    let lock = format!("BEGIN; SELECT 1 FROM {}.records FOR SHARE", place.schema);
    stranger.batch_execute(&lock).await.expect(DOES_IT);

    let writer = store.clone();
    let write = tokio::spawn(async move {
        let done = records::completed(LONG);
        let replace = writer.replace(slot, claim.fence, &done, Timestamp::NEVER);
        replace.await.expect(ANSWERS)
    });
    let is_met = || store.figures().retries > 0 || write.is_finished();
    while !watcher.sees_waiting("Lock").await && !is_met() {}
    let freed = watcher.time().await;
    stranger.batch_execute("COMMIT").await.expect(DOES_IT);
    let reply = write.await.expect("it does not panic");
    match reply.value {
        Swap::Done if reply.now < freed => {
            let before = freed.since(reply.now);
            Some(format!("a write is stamped before it happened: {before:?}"))
        }
        Swap::Done => None,
        other => Some(format!("a record that is held counts as moved: {other:?}")),
    }
}

/// Somebody fills a slot and commits while an insert waits to see who gets it.
async fn is_filled(place: Place) -> Option<String> {
    let store = place.opened("").await;
    let (other, slot) = (records::slot("other"), records::slot("k"));
    put(&store, other, &records::claimed(LONG)).await;
    let (stranger, watcher) = (place.stranger().await, Watcher::of(&place).await);
    stranger.batch_execute("BEGIN").await.expect(DOES_IT);
    let fill = format!(
        "INSERT INTO {0}.records (slot, fence, state, due, written, tenant, operation, record)
         SELECT $1, fence, state, due, written, tenant, operation, record
         FROM {0}.records WHERE slot = $2",
        place.schema
    );
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 2] =
        [&&slot.as_bytes()[..], &&other.as_bytes()[..]];
    let filled = stranger.execute(&fill, &parameters).await;
    assert_eq!(filled.expect(DOES_IT), 1);

    let writer = store.clone();
    let insert = tokio::spawn(async move {
        let claim = records::claimed(LONG);
        writer.insert(slot, &claim, Timestamp::NEVER).await
    });
    while !watcher.sees_waiting("Lock").await && !insert.is_finished() {}
    stranger.batch_execute("COMMIT").await.expect(DOES_IT);
    let reply = insert.await.expect("it does not panic");
    let reply = reply.expect(ANSWERS);
    (reply.value == Insert::Done).then(|| "a slot is granted twice".to_owned())
}

/// A write happens and the connection ends instead of the answer: nobody knows, and nobody may
/// say that it did not happen.
async fn loses_an_answer(place: Place) -> Option<String> {
    let proxy = Proxy::start(place.server.addr());
    let settings = proxy.url(&place.url("")).parse().expect("the URL is good");
    let store = opened(settings).await;
    let (slot, mut last) = (records::slot("k"), records::claimed(LONG));
    put(&store, slot, &last).await;
    loop {
        let next = records::rewritten(&last);
        proxy.strike(Fault::ReplyDropped);
        let replace = store.replace(slot, last.fence, &next, Timestamp::NEVER);
        match replace.await {
            Err(_) => return None,
            // It was the answer to something else that was lost.
            Ok(reply) if reply.value == Swap::Done => last = next,
            Ok(reply) => {
                let found = store.get(slot).await.expect(ANSWERS).value;
                let happened = found.is_some_and(|it| it.fence == next.fence);
                let Swap::Moved(_) = reply.value else {
                    return Some(format!("a write on time is {:?}", reply.value));
                };
                return happened.then(|| "a write happened and is answered with Moved".to_owned());
            }
        }
    }
}

/// A commit waits for a standby that does not come, until an operator ends its wait: it is in the
/// table and nowhere else.
async fn misses_its_standby(place: Place) -> Option<String> {
    // The tables are made without a standby.
    place.opened("").await.close();
    let waits = "&migrate=off&options=-c%20synchronous_commit%3Don";
    let store = place.opened(waits).await;
    let writer = store.clone();
    let insert = tokio::spawn(async move {
        let (slot, claim) = (records::slot("k"), records::claimed(LONG));
        writer.insert(slot, &claim, Timestamp::NEVER).await
    });
    let operator = Watcher::of(&place).await;
    let reply = operator.ends_waits_of(insert).await;
    operator
        .ends_waits_of(tokio::task::spawn_blocking(move || store.close()))
        .await;
    let reply = reply.ok()?;
    Some(format!(
        "an insert is {:?}: done though no standby has it",
        reply.value
    ))
}

// === impl Place ===

impl Place {
    /// Returns a fresh schema on the server of this layer, which starts with the first of them.
    ///
    /// Whoever wants to wait for a standby waits for one that never comes; nobody else does.
    async fn fresh() -> Self {
        static SERVER: OnceCell<Server> = OnceCell::const_new();
        let start = || {
            Server::builder()
                .setting("fsync", "off")
                .setting("synchronous_standby_names", "nobody")
                .setting("synchronous_commit", "local")
                .start()
        };
        Self {
            server: SERVER.get_or_init(start).await,
            schema: format!("bank_{:016x}", fastrand::u64(..)),
        }
    }

    fn url(&self, parameters: &str) -> String {
        format!("{}?schema={}{parameters}", self.server.url(), self.schema)
    }

    fn open(&self, parameters: &str) -> PostgresStore {
        let settings = self.url(parameters).parse().expect("the URL is good");
        PostgresStore::open(settings).expect("the store opens")
    }

    async fn opened(&self, parameters: &str) -> PostgresStore {
        opened(self.url(parameters).parse().expect("the URL is good")).await
    }

    /// Somebody else's connection.
    async fn stranger(&self) -> Client {
        let connected = tokio_postgres::connect(&self.server.url(), NoTls).await;
        let (client, connection) = connected.expect("the server answers");
        tokio::spawn(connection);
        client
    }
}

// === impl Watcher ===

impl Watcher {
    async fn of(place: &Place) -> Self {
        Self {
            client: place.stranger().await,
            schema: place.schema.clone(),
        }
    }

    /// Whether a statement on the schema waits for something of this name or type.
    async fn sees_waiting(&self, what: &str) -> bool {
        let waiting = "SELECT 1 FROM pg_stat_activity
                       WHERE $1 IN (wait_event, wait_event_type) AND position($2 IN query) > 0";
        let waiting = self.client.query(waiting, &[&what, &self.schema]).await;
        !waiting.expect(DOES_IT).is_empty()
    }

    /// Lets nobody wait for a standby until this is done.
    async fn ends_waits_of<T>(&self, done: JoinHandle<T>) -> T {
        let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
                      WHERE wait_event = 'SyncRep'";
        while !done.is_finished() {
            self.client.query(cancel, &[]).await.expect(DOES_IT);
        }
        done.await.expect("it does not panic")
    }

    /// The server's clock.
    async fn time(&self) -> Timestamp {
        let clock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        let row = self.client.query_one(clock, &[]).await.expect(DOES_IT);
        Timestamp::from_micros(row.get::<_, i64>(0).unsigned_abs())
    }
}

/// Opening blocks, so it is done beside the runtime.
async fn opened(settings: onceward_stores::postgres::Settings) -> PostgresStore {
    let opened = tokio::task::spawn_blocking(move || PostgresStore::open(settings));
    let opened = opened.await.expect("it does not panic");
    opened.expect("the store opens")
}

/// Puts a record into an empty slot, and returns its stamp.
async fn put(store: &PostgresStore, slot: SlotId, record: &Record) -> Timestamp {
    let reply = store.insert(slot, record, Timestamp::NEVER).await;
    let reply = reply.expect(ANSWERS);
    assert_eq!(reply.value, Insert::Done);
    reply.now
}
