//! The contract of every store.

use std::sync::Arc;

use onceward::testing::conformance::CASES;
use onceward::{Store, conformance};
use onceward_rig::redis::{Cluster, Options, Sentinels, fresh_url};
use onceward_stores::redis::{RedisStore, Settings};

/// A store on `url`.
fn open(url: &str) -> RedisStore {
    let settings: Settings = url.parse().expect("the URL is good");
    RedisStore::open(settings).expect("the store opens")
}

/// `url` with a prefix that nobody else uses.
fn apart(url: &str) -> String {
    let mark = if url.contains('?') { '&' } else { '?' };
    format!("{url}{mark}prefix=apart_{:x}", fastrand::u64(..))
}

conformance!(redis, open(&fresh_url().await));
// Everything in one line: nothing passes anything else.
conformance!(
    on_one_connection,
    open(&format!("{}&connections=1", fresh_url().await))
);

/// Tries every sentence of the contract on the servers behind `url`, each apart from the others.
async fn try_all(url: &str) {
    for case in CASES {
        let store: Arc<dyn Store> = Arc::new(open(&apart(url)));
        eprintln!("{}", case.name);
        (case.run)(&store).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_a_cluster_the_contract_holds() {
    let cluster = Cluster::start(Options::default()).await;
    try_all(&cluster.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn behind_sentinels_the_contract_holds() {
    let sentinels = Sentinels::start(Options::default()).await;
    try_all(&sentinels.url()).await;
}
