//! A world: a store, keys and a pool on a schema of their own, with a table to charge into.

use onceward::{
    Answer, BoxError, Fingerprint, Key, Outcome, Policy, RunError, Scope, Slot, SlotId,
};
use onceward_rig::postgres::{Scratch, scratch};
use onceward_stores::postgres::{Connections, PostgresStore, Settings, Source, Transactional, Tx};
use tokio_postgres::GenericClient;

/// What a test of transactions needs.
pub(super) struct World {
    pub(super) store: PostgresStore,
    pub(super) keys: Transactional,
    pub(super) pool: Connections,
    pub(super) url: String,
    scratch: Scratch,
}

/// A transaction of the pool.
pub(super) type InTx = Tx<<Connections as Source>::Open>;

/// The fingerprint of an amount.
pub(super) fn payload(amount: i64) -> Fingerprint {
    Fingerprint::of(&amount.to_le_bytes())
}

/// Opens a store, which blocks.
pub(super) async fn open(url: &str) -> PostgresStore {
    let settings: Settings = url.parse().unwrap();
    let open = tokio::task::spawn_blocking(move || PostgresStore::open(settings));
    open.await.unwrap().unwrap()
}

// === impl World ===

impl World {
    /// A world with a pool of two connections.
    pub(super) async fn new() -> Self {
        Self::with("").await
    }

    /// The same with more settings of the store.
    pub(super) async fn with(settings: &str) -> Self {
        let (url, scratch) = scratch().await;
        let url = format!("{url}&{settings}");
        let store = open(&url).await;
        let world = Self {
            keys: Transactional::new(&store, Policy::default()).await.unwrap(),
            pool: Connections::new(store.settings(), 2),
            store,
            url,
            scratch,
        };
        let ledger = world.table("ledger");
        world
            .sql(&format!(
                "CREATE TABLE {ledger} (id bigserial, key text, amount bigint)"
            ))
            .await;
        world
    }

    /// A table of the business, beside those of the store.
    pub(super) fn table(&self, name: &str) -> String {
        format!("{}.{name}", self.scratch.schema())
    }

    pub(super) fn slot(&self, key: &str) -> Slot {
        Slot::new(Scope::new("acct_42", "charge"), Key::parse(key).unwrap())
    }

    /// The name under which the store files the slot of `key`.
    pub(super) async fn id(&self, key: &str) -> SlotId {
        let engine = onceward::Engine::new(self.store.clone(), Policy::default());
        let arrival = engine.prepare(&self.slot(key), &payload(0)).await.unwrap();
        arrival.id()
    }

    /// The URL of the server, without what the store adds.
    pub(super) fn server(&self) -> &str {
        self.scratch.server()
    }

    pub(super) async fn sql(&self, text: &str) {
        self.scratch.sql(text).await;
    }

    pub(super) async fn count(&self, query: &str) -> i64 {
        self.scratch.value(query).await.parse().unwrap()
    }

    /// How many charges there are.
    pub(super) async fn charges(&self) -> i64 {
        let ledger = self.table("ledger");
        self.count(&format!("SELECT count(*) FROM {ledger}")).await
    }

    /// How many records there are, apart from the deployment's secret.
    pub(super) async fn records(&self) -> i64 {
        let records = self.store.settings().table("records");
        self.count(&format!("SELECT count(*) - 1 FROM {records}"))
            .await
    }

    /// Writes a charge, in whatever transaction `client` is in.
    pub(super) async fn insert(
        &self,
        client: &impl GenericClient,
        key: &str,
        amount: i64,
    ) -> Result<(), BoxError> {
        let ledger = self.table("ledger");
        let insert = format!("INSERT INTO {ledger} (key, amount) VALUES ($1, $2)");
        client.execute(&insert, &[&key, &amount]).await?;
        Ok(())
    }

    /// Charges once for each key.
    pub(super) async fn charge(&self, key: &str, amount: i64) -> Result<Answer, RunError> {
        let charge = |tx: InTx| async move {
            self.insert(&*tx, key, amount).await?;
            Ok::<_, BoxError>(Outcome::success(format!("charged {amount}")))
        };
        let (slot, payload) = (self.slot(key), payload(amount));
        self.keys.run(&self.pool, &slot, payload, charge).await
    }
}
