//! Every single fault at every step, on PostgreSQL.

use onceward_rig::postgres::scratch;
use tokio::runtime::Runtime;

use super::aged::Table;
use super::site;
use crate::enumeration::judge_served;

#[test]
fn no_single_fault_breaks_the_promise_on_postgres() {
    let runtime = Runtime::new().expect("a runtime starts");
    let (url, scratch) = runtime.block_on(scratch());
    let store = site::store(&url);
    judge_served("faults at every step, postgres", store, Table::of(&scratch));
}
