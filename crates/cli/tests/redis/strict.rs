//! Servers that can forget: strict gateways refuse them, but for keyed work, which comes to no
//! harm.

use onceward_rig::gateway::{Answer, Ask, Launch, Origin, until};
use onceward_rig::proxy::Fault;
use onceward_rig::redis::{Options, RedisServer, Sentinels};

use crate::{admin, ask, expect_problem, expect_replay, pay};

/// A strict gateway before `origin`, with its records on the servers of `url`.
fn strict(origin: &Origin, url: &str) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_onceward")).upstream(origin.addr());
    let launch = launch.argument("--store", url);
    launch.config("strict = true\n")
}

/// What makes all work keyed.
const KEYED: &str = "strict = true\n[defaults]\neffect = \"keyed\"\nlease = \"1s\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_gateway_starts_only_on_a_server_that_syncs_and_has_no_replica() {
    let origin = Origin::start().await;
    let refuses = async |url: &str, setting: &str| {
        let refused = strict(&origin, url).fail().await;
        assert_ne!(refused.code, Some(0));
        let said = refused.stderr;
        assert!(said.contains("strict = true"), "{said}");
        assert!(said.contains(setting), "{setting}: {said}");
    };
    let forgetful = RedisServer::start(Options::default()).await;
    refuses(&forgetful.url(), "appendonly").await;
    let late = RedisServer::start(Options::default().append("everysec")).await;
    refuses(&late.url(), "appendfsync").await;

    let durable = RedisServer::durable().await;
    let gateway = strict(&origin, &durable.url()).start().await;
    assert_eq!(ask(&gateway, &pay("k")).await.status, 201);
    let _replica = RedisServer::start(Options::default().replica_of(durable.addr())).await;
    refuses(&durable.url(), "replica").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_gateway_starts_under_sentinels_for_keyed_work_alone() {
    let origin = Origin::start().await;
    let all = Sentinels::start(Options::default().durable()).await;
    let refused = strict(&origin, &all.url()).fail().await;
    assert!(
        refused.stderr.contains("strict = true"),
        "{}",
        refused.stderr
    );
    let gateway = strict(&origin, &all.url()).config(KEYED).start().await;
    assert_eq!(ask(&gateway, &pay("k")).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_gateway_claims_nothing_while_its_server_is_set_to_forget() {
    let origin = Origin::start().await;
    let mut server = RedisServer::durable().await;
    let gateway = strict(&origin, &server.url()).start().await;
    let before = ask(&gateway, &pay("before")).await;
    assert_eq!(before.status, 201);

    set(&mut server, "everysec").await;
    until("the gateway sees that", || async {
        let ready = admin(&gateway, "/readyz").await;
        ready.text().contains("strict = true").then_some(())
    })
    .await;
    let refused = ask(&gateway, &pay("during")).await;
    expect_problem(&refused, 503, "store-unavailable");
    expect_replay(&ask(&gateway, &pay("before")).await, &before);
    assert_eq!(ask(&gateway, &Ask::post("/payments")).await.status, 201);

    set(&mut server, "always").await;
    until("new claims are taken again", || async {
        (ask(&gateway, &pay("during")).await.status == 201).then_some(())
    })
    .await;
    let effects = origin.effects();
    assert!(effects.values().all(|count| *count == 1), "{effects:?}");
}

/// Sets how a server syncs, and starts it again, so that whoever is connected looks anew.
async fn set(server: &mut RedisServer, sync: &str) {
    server.cli(&["CONFIG", "SET", "appendfsync", sync]).await;
    server.cli(&["CONFIG", "REWRITE"]).await;
    server.restart().await;
}

/// A replica takes over that knows nothing of a claim: its work is sent again under the same key,
/// to a service that repeats its first answer.
#[tokio::test(flavor = "multi_thread")]
async fn keyed_work_is_answered_alike_after_a_failover_that_forgot_it() {
    let origin = Origin::scripted(|_| Answer::receipt(7).into()).await;
    let mut master = RedisServer::start(Options::default()).await;
    let line = master.proxy();
    let replica = RedisServer::start(Options::default().replica_of(line.addr())).await;
    let front = master.proxy();
    let launch = strict(&origin, &front.url(&master.url())).config(KEYED);
    let gateway = launch.start().await;
    let before = ask(&gateway, &pay("before")).await;
    replica.caught_up_with(&master).await;
    line.close();
    let first = ask(&gateway, &pay("forgotten")).await;

    master.kill9().await;
    replica.promote().await;
    front.retarget(replica.addr());
    front.strike(Fault::Reset);
    let again = until("the replica serves", || async {
        let again = ask(&gateway, &pay("forgotten")).await;
        (again.status == 201).then_some(again)
    })
    .await;
    assert_eq!(again.text(), first.text());
    assert!(!again.is_replay(), "the replica knew of it");
    // The service was told so, by the same key.
    assert_eq!(origin.executions("forgotten"), 2);
    expect_replay(&ask(&gateway, &pay("before")).await, &before);
}
