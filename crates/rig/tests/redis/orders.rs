//! An order is paid once, however many keys are made up for it.

use std::sync::Arc;

use onceward::Store;
use onceward_rig::lab;
use onceward_rig::redis::fresh_url;

use crate::shared::open;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixteen_keys_for_an_order_one_executes() {
    let store: Arc<dyn Store> = Arc::new(open(&fresh_url().await));
    assert_eq!(lab::race(&store, 5).await, Ok(()));
}
