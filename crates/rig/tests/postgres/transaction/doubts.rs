//! Commits that are on the server and may not be on its standby: nobody is told of them as done.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use onceward::clock::{Clock as _, SystemClock};
use onceward::store::Insert;
use onceward::testing::records::{self, LONG};
use onceward::{
    Answer, BoxError, Durability, Key, OnBusy, Outcome, Policy, RunError, Scope, Slot, Store as _,
    Timestamp,
};
use onceward_rig::postgres::Server;
use onceward_stores::postgres::{
    Begun, Connections, PostgresStore, Relay, RelayPace, Transactional,
};
use tokio::task::JoinHandle;

use super::world::{World, open, payload};
use crate::shared::PATIENCE;

/// Counts the commits of callers that wait for a standby: the store's own are no `COMMIT`.
const WAITS: &str = "SELECT count(*) FROM pg_stat_activity
                     WHERE wait_event = 'SyncRep' AND query = 'COMMIT'";

/// A server of its own, with keys that nobody waits for.
struct Site {
    server: Server,
    store: PostgresStore,
    keys: Transactional,
    pool: Connections,
}

// === impl Site ===

impl Site {
    async fn new() -> Self {
        Self::on(Server::start().await).await
    }

    async fn on(server: Server) -> Self {
        let store = open(&format!("{}?timeout=3s", server.url())).await;
        let policy = Policy::default().on_busy(OnBusy::Refuse);
        Self {
            keys: Transactional::new(&store, policy).await.unwrap(),
            pool: Connections::new(store.settings(), 8),
            store,
            server,
        }
    }

    /// Lets commits wait for a standby that there is not.
    async fn miss_standby(&self) {
        let names = "ALTER SYSTEM SET synchronous_standby_names = 'nobody'";
        self.server.sql(names).await;
        self.server.sql("SELECT pg_reload_conf()").await;
    }

    /// The same anew, once a store that is opened finds that commits wait for a standby.
    async fn opened_with_standby(self) -> Self {
        let mut site = self;
        let start = SystemClock.stopwatch();
        while site.store.durability() != Durability::D3 {
            assert!(SystemClock.stopwatch() - start < PATIENCE);
            site = Self::on(site.server).await;
        }
        site
    }

    /// Lets commits go on without a standby: all that wait for one have it.
    async fn go_on(&self) {
        let names = "ALTER SYSTEM RESET synchronous_standby_names";
        self.server.sql(names).await;
        self.server.sql("SELECT pg_reload_conf()").await;
    }

    /// Runs work that stages an event, in a task of its own.
    fn charge(&self, key: &str) -> JoinHandle<Result<Answer, RunError>> {
        let (keys, pool, slot) = (self.keys.clone(), self.pool.clone(), slot(key));
        tokio::spawn(async move {
            let work = |mut tx: super::InTx| async move {
                tx.stage("charged", "acct", b"1").await?;
                Ok::<_, BoxError>(Outcome::success("charged"))
            };
            keys.run(&pool, &slot, payload(1), work).await
        })
    }

    /// Charges under one key after the other until a commit waits. Not every session has heard of
    /// the standby at once.
    async fn charge_until_one_waits(&self) -> (String, JoinHandle<Result<Answer, RunError>>) {
        let mut tries = 0;
        loop {
            tries += 1;
            let key = format!("k{tries}");
            let run = self.charge(&key);
            while !run.is_finished() && self.server.value(WAITS).await == "0" {}
            if !run.is_finished() {
                return (key, run);
            }
        }
    }

    /// Begins by hand under a key, and does not wait for anybody.
    async fn begin(&self, key: &str) -> Begun {
        let mut connection = self.pool.get().await.unwrap();
        let tx = connection.transaction().await.unwrap();
        let begun = self.keys.begin(&tx, &slot(key), &payload(1)).await.unwrap();
        tx.rollback().await.unwrap();
        begun
    }

    /// Begins by hand until the key is found done.
    async fn expect_replay(&self, key: &str) {
        let start = SystemClock.stopwatch();
        loop {
            match self.begin(key).await {
                Begun::Replay(_) => return,
                begun => {
                    let waited = SystemClock.stopwatch() - start;
                    assert!(waited < PATIENCE, "{key}: {begun:?}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
    }
}

fn slot(key: &str) -> Slot {
    Slot::new(Scope::new("acct_42", "charge"), Key::parse(key).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_did_not_wait_for_its_standby_is_told_of_once_it_is_there() {
    let site = Site::new().await;
    site.miss_standby().await;
    let (key, run) = site.charge_until_one_waits().await;
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    site.server.value(cancel).await;
    let error = run.await.unwrap().unwrap_err();
    assert!(matches!(error, RunError::Pending(_)), "{error:?}");

    // It can be read, and neither its answer nor its event is told.
    let begun = site.begin(&key).await;
    assert!(matches!(begun, Begun::Busy(_)), "{begun:?}");
    let published = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&published);
    let relay = Relay::start(&site.store, RelayPace::default(), move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(()) }
    });
    let gave_back = "SELECT count(*) FROM pg_stat_activity
                     WHERE query LIKE 'SELECT pg_advisory_unlock%'";
    let told = || published.load(Ordering::Relaxed);
    while told() == 0 && site.server.value(gave_back).await == "0" {}
    assert_eq!(told(), 0);

    // Nobody waits here: what is in doubt is settled all the same.
    site.go_on().await;
    site.expect_replay(&key).await;
    let staged = "SELECT count(*) FROM onceward.outbox";
    while site.server.value(staged).await != "0" {}
    assert!(told() > 0);
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_dropped_while_its_commit_waits_leaves_a_doubt() {
    let site = Site::new().await;
    site.charge("done").await.unwrap().unwrap();
    site.miss_standby().await;
    let site = site.opened_with_standby().await;
    site.expect_replay("done").await;

    let (key, run) = site.charge_until_one_waits().await;
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    let begun = site.begin("done").await;
    assert!(matches!(begun, Begun::Busy(_)), "{begun:?}");

    site.go_on().await;
    site.expect_replay("done").await;
    site.expect_replay(&key).await;
}

/// A trigger warns of whatever it likes: that is no word of the server about a standby.
#[tokio::test]
async fn a_warning_of_a_trigger_is_no_doubt() {
    let world = &World::new().await;
    let (ledger, records) = (world.table("ledger"), world.table("records"));
    let warns = world.table("warns");
    world
        .sql(&format!(
            "CREATE FUNCTION {warns}() RETURNS trigger LANGUAGE plpgsql AS
               'BEGIN RAISE WARNING ''canceling wait for synchronous replication''; RETURN NULL; END';
             CREATE CONSTRAINT TRIGGER warns AFTER INSERT ON {ledger}
               DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {warns}();
             CREATE CONSTRAINT TRIGGER warns AFTER INSERT ON {records}
               DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {warns}()"
        ))
        .await;
    let answer = world.charge("k1", 1).await.unwrap();
    assert!(!answer.replayed);
    let (slot, claim) = (records::slot("k2"), records::claimed(LONG));
    let put = world.store.insert(slot, &claim, Timestamp::NEVER).await;
    assert_eq!(put.unwrap().value, Insert::Done);
    let found = world.store.get(slot).await.unwrap();
    assert_eq!(found.value.unwrap().fence, claim.fence);
}
