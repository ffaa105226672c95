//! A database that lost what it acknowledged: what the cache remembers is answered all the same,
//! and somebody is told.

use onceward_rig::gateway::{Origin, until};
use onceward_rig::postgres::Server;
use onceward_rig::redis::{Options, RedisServer};

use crate::outage::{expect_cached, launch};
use crate::{admin, ask, expect_problem, expect_replay, pay};

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_the_database_lost_is_given_and_told_of() {
    let origin = Origin::start().await;
    let (truth, cache) = (
        Server::start().await,
        RedisServer::start(Options::default()).await,
    );
    let launch = launch(&origin, &truth, &cache.url());
    let (one, two) = (launch.clone().start().await, launch.start().await);
    let first = ask(&one, &pay("k")).await;
    expect_cached(&one, &truth, "k").await;
    let ready = admin(&two, "/readyz").await.text();
    assert!(ready.contains("\"regressed\":0"), "{ready}");

    truth.sql("DELETE FROM onceward.records WHERE state = 2 AND slot <> decode(repeat('00', 32), 'hex')").await;
    for gateway in [&one, &two] {
        expect_replay(&ask(gateway, &pay("k")).await, &first);
        let other = pay("k").body("pay 999");
        expect_problem(&ask(gateway, &other).await, 422, "key-reused");
    }
    until("it is told", || async {
        let ready = admin(&two, "/readyz").await;
        let numbers = admin(&two, "/metrics").await.text();
        let is_told = ready.text().contains("\"regressed\":1")
            && numbers.contains("onceward_store_regressed_total 1")
            && two.log().contains("lacks an answer that it acknowledged");
        (ready.status == 200 && is_told).then_some(())
    })
    .await;
    expect_replay(&ask(&two, &pay("k")).await, &first);
    assert_eq!(origin.count(), 1);
}
