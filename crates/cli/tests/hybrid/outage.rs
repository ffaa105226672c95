//! A cache that goes away costs time and nothing else; while the database is away, what the cache
//! remembers is answered and nothing is executed.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use futures_util::future::join_all;
use onceward::clock::{Clock as _, SystemClock};
use onceward_rig::gateway::{Act, Gateway, Launch, Origin, until};
use onceward_rig::postgres::Server;
use onceward_rig::redis::{Options, RedisServer};

use crate::{admin, ask, expect_one_original, expect_problem, expect_replay, pay};

/// How long a request may take while a server that it does not need is away.
const SOON: Duration = Duration::from_secs(2);

/// A gateway before `origin`, with its records on one server and a cache on the other.
pub(crate) fn launch(origin: &Origin, truth: &Server, cache: &str) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_onceward")).upstream(origin.addr());
    launch
        .argument("--store", &truth.url())
        .argument("--cache", cache)
}

/// Waits until answers come from the cache: while the database stands still, nobody else can give
/// them.
pub(crate) async fn expect_cached(gateway: &Gateway, truth: &Server, key: &str) {
    until("the answer is in the cache", || async {
        truth.pause();
        let asked = pay(key);
        let answer = tokio::time::timeout(SOON / 4, ask(gateway, &asked)).await;
        truth.resume();
        let is_replay = answer.is_ok_and(|answer| answer.is_replay());
        if !is_replay {
            // Asked again with the database, it is put into the cache if it was not there.
            ask(gateway, &asked).await;
        }
        is_replay.then_some(())
    })
    .await;
}

/// Runs a command of operators on the store and cache of a gateway that goes on serving.
fn operate(gateway: &Gateway, words: &[&str]) -> Output {
    let launch = gateway.launch();
    let mut command = Command::new(env!("CARGO_BIN_EXE_onceward"));
    command
        .args(words)
        .env("ONCEWARD_STORE", launch.store())
        .env("ONCEWARD_CACHE", launch.cache());
    command.stdin(Stdio::null()).output().unwrap()
}

/// Asks for new work and for old, from many callers, and sees that nothing is done twice.
async fn expect_service(gateway: &Gateway, origin: &Origin, name: &str) {
    let start = SystemClock.stopwatch();
    for round in 0..5 {
        let key = format!("{name}-{round}");
        let asked = pay(&key);
        let answers = join_all((0..8).map(|_| ask(gateway, &asked))).await;
        expect_one_original(&answers);
        assert_eq!(origin.executions(&key), 1);
    }
    let took = SystemClock.stopwatch() - start;
    assert!(took < 5 * SOON, "{took:?}");
    assert_eq!(admin(gateway, "/readyz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_is_killed_or_falls_silent_costs_nothing_but_time() {
    let origin = Origin::start().await;
    let (truth, mut cache) = (
        Server::start().await,
        RedisServer::start(Options::default()).await,
    );
    let gateway = launch(&origin, &truth, &cache.url()).start().await;
    let before = ask(&gateway, &pay("before")).await;
    expect_cached(&gateway, &truth, "before").await;

    cache.kill9().await;
    expect_service(&gateway, &origin, "killed").await;
    expect_replay(&ask(&gateway, &pay("before")).await, &before);
    cache.restart().await;
    // It came back empty, and is filled again.
    expect_cached(&gateway, &truth, "before").await;

    cache.pause();
    expect_service(&gateway, &origin, "silent").await;
    expect_replay(&ask(&gateway, &pay("before")).await, &before);
    cache.resume();
    expect_cached(&gateway, &truth, "before").await;
    expect_service(&gateway, &origin, "back").await;
    assert_eq!(origin.executions("before"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_are_answered_while_the_database_is_away_and_nothing_is_executed() {
    let origin = Origin::start().await;
    let (mut truth, cache) = (
        Server::start().await,
        RedisServer::start(Options::default()).await,
    );
    let gateway = launch(&origin, &truth, &cache.url()).start().await;
    let before = ask(&gateway, &pay("before")).await;
    expect_cached(&gateway, &truth, "before").await;
    truth.kill9().await;
    let executed = origin.count();
    for _ in 0..5 {
        expect_replay(&ask(&gateway, &pay("before")).await, &before);
    }
    expect_problem(&ask(&gateway, &pay("new")).await, 503, "store-unavailable");
    let other = pay("before").body("pay 999");
    expect_problem(&ask(&gateway, &other).await, 503, "store-unavailable");
    assert_eq!(origin.count(), executed);
    truth.restart().await;
    until("keyed requests are executed again", || async {
        (ask(&gateway, &pay("new")).await.status == 201).then_some(())
    })
    .await;
    expect_problem(&ask(&gateway, &other).await, 422, "key-reused");
    assert_eq!(origin.executions("new"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_starts_without_its_cache_and_finds_it_later() {
    let origin = Origin::start().await;
    let (truth, mut cache) = (
        Server::start().await,
        RedisServer::start(Options::default()).await,
    );
    cache.kill9().await;
    let gateway = launch(&origin, &truth, &cache.url()).start().await;
    expect_service(&gateway, &origin, "without").await;
    assert!(gateway.log().contains("left out"), "{}", gateway.log());
    cache.restart().await;
    expect_cached(&gateway, &truth, "without-0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_settled_while_the_cache_cannot_be_told() {
    let origin = Origin::scripted(|_| Act::Vanish).await;
    let (truth, mut cache) = (
        Server::start().await,
        RedisServer::start(Options::default()).await,
    );
    let gateway = launch(&origin, &truth, &cache.url()).start().await;
    expect_problem(&ask(&gateway, &pay("k")).await, 409, "outcome-unknown");
    let answer = gateway.launch().file("answer", "charged");
    let answer = answer.display().to_string();
    let settle = ["resolve", "--key", "k", "--operation", "POST /payments"];
    let found = [
        "--completed",
        &answer,
        "--who",
        "ann",
        "--why",
        "in the ledger",
    ];
    let settle = [&settle[..], &["--tenant", "shared"], &found].concat();
    let listed = operate(&gateway, &["list", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let slot = listed["slot"].as_str().unwrap();
    let settle = [&["resolve", "--slot", slot], &settle[7..]].concat();

    cache.kill9().await;
    let refused = operate(&gateway, &settle);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("switch it off on every node"), "{said}");
    expect_problem(&ask(&gateway, &pay("k")).await, 409, "outcome-unknown");

    cache.restart().await;
    let settled = operate(&gateway, &settle);
    let said = String::from_utf8_lossy(&settled.stderr);
    assert_eq!(settled.status.code(), Some(0), "{said}");
    let retry = ask(&gateway, &pay("k")).await;
    assert_eq!((retry.status, retry.text()), (200, "charged".into()));
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_cached_where_is_told_at_the_start_and_by_the_doctor() {
    let origin = Origin::start().await;
    let (truth, cache) = (
        Server::start().await,
        RedisServer::start(Options::default()).await,
    );
    let gateway = launch(&origin, &truth, &cache.url()).start().await;
    let told = format!("answers cached in {}", cache.url());
    assert!(gateway.log().contains(&told), "{}", gateway.log());
    let upstream = format!("http://{}", origin.addr());
    let doctor = operate(&gateway, &["doctor", "--upstream", &upstream]);
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert!(
        said.contains(&format!("{} answers in", cache.url())),
        "{said}"
    );
    assert!(
        said.contains(&format!("{} answers, and", truth.url())),
        "{said}"
    );

    let beside = Launch::new(env!("CARGO_BIN_EXE_onceward")).upstream(origin.addr());
    let refused = beside.argument("--cache", &cache.url()).fail().await;
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("in front of a PostgreSQL store"),
        "{}",
        refused.stderr
    );
}
