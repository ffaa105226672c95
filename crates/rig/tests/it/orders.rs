//! An order is paid once, however many keys are made up for it: on every store that runs in this
//! process.

use std::sync::Arc;

use onceward::{MemoryStore, Store};
use onceward_rig::lab;
use onceward_stores::embedded::EmbeddedStore;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixteen_keys_for_an_order_one_executes_on_the_memory_store() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    assert_eq!(lab::race(&store, 30).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixteen_keys_for_an_order_one_executes_on_the_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::at(folder.path().join("store")).open();
    let store: Arc<dyn Store> = Arc::new(store.unwrap());
    assert_eq!(lab::race(&store, 10).await, Ok(()));
}
