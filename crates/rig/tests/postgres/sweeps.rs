//! Sweeps of several nodes on one database.

use std::time::Duration;

use onceward::Effect;
use onceward::testing::ExpectVerdict as _;

use crate::shared::{Nodes, begin, place, slot};

#[tokio::test]
async fn one_node_sweeps_at_a_time() {
    let (url, scratch) = place().await;
    let nodes = Nodes::at(&url, Effect::Opaque);
    let brief = Duration::from_millis(1);
    for key in ["one", "two"] {
        let claim = begin(&nodes.a, key).await.expect_claim();
        claim.keep_for(brief).complete("paid").await.unwrap();
        nodes.until_due(&slot(key)).await;
    }
    // Whoever removes a record takes a while over it.
    let schema = scratch.schema();
    let slow = format!(
        "CREATE FUNCTION {schema}.slowly() RETURNS trigger LANGUAGE plpgsql
           AS 'BEGIN PERFORM pg_sleep(1); RETURN OLD; END';
         CREATE TRIGGER slowly BEFORE DELETE ON {schema}.records
           FOR EACH ROW EXECUTE FUNCTION {schema}.slowly()"
    );
    scratch.sql(&slow).await;
    let node = nodes.a.clone();
    let first = tokio::spawn(async move { node.sweep(1).await.unwrap() });
    let at_it = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    while scratch.value(at_it).await == "0" {
        assert!(!first.is_finished(), "it takes a while");
    }

    // There is one more to remove, which nobody holds: it is not this node's turn.
    let second = nodes.b.sweep(100).await.unwrap();
    assert!(!first.is_finished(), "the first is still at it");
    assert_eq!((second.removed, second.more), (0, false));
    assert_eq!(first.await.unwrap().removed, 1);
    assert_eq!(nodes.b.sweep(100).await.unwrap().removed, 1);
}
