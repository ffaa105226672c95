//! Two gateways on one database: one execution per key, wherever its callers land.

use std::process::{Command, Output, Stdio};

use futures_util::future::join_all;
use onceward_rig::gateway::{Act, Answer, Gate, Gateway, Origin, Seen, Wire};

use crate::{ask, durable, expect_one_original, expect_problem, expect_replay, launch, pay};

/// Two gateways before `origin`, with their records in one place.
async fn pair(origin: &Origin, config: &str) -> [Gateway; 2] {
    let launch = launch(origin).config(config);
    [launch.clone().start().await, launch.start().await]
}

/// A service that answers when the gate opens.
async fn held() -> (Origin, Gate) {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Answer::receipt(1).after(&held).into()).await;
    (origin, gate)
}

/// Runs a command of operators on the store of a gateway that goes on serving.
fn operate(gateway: &Gateway, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onceward"));
    command
        .args(words)
        .env("ONCEWARD_STORE", gateway.launch().store());
    match gateway.launch().cache() {
        "" => command.env_remove("ONCEWARD_CACHE"),
        cache => command.env("ONCEWARD_CACHE", cache),
    };
    command.stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn expect_done(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicates_on_both_are_executed_once_and_answered_alike() {
    let origin = Origin::start().await;
    let gateways = pair(&origin, "").await;
    for round in 0..20 {
        let key = format!("race-{round}");
        let asked = pay(&key);
        let callers = (0..16).map(|caller| ask(&gateways[caller % 2], &asked));
        let answers = join_all(callers).await;

        assert_eq!(origin.executions(&key), 1);
        expect_one_original(&answers);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_charged_once_whatever_the_key_and_the_gateway() {
    let origin = Origin::start().await;
    let config = "[[route]]\nmatch = \"POST /payments\"\n\
                  unique = [{ name = \"paid-order\", on = [\"/order_id\"] }]\n";
    let gateways = pair(&origin, config).await;
    for order in 1..=10 {
        let body = format!("{{\"order_id\": {order}}}");
        let asks: Vec<_> = (0..16)
            .map(|caller| pay(&format!("{order}-{caller}")).body(body.clone()))
            .collect();
        let callers = asks.iter().enumerate();
        let callers = callers.map(|(caller, asked)| ask(&gateways[caller % 2], asked));
        let answers = join_all(callers).await;

        assert_eq!(origin.count(), order);
        expect_one_original(&answers);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_on_one_waits_for_the_answer_that_the_other_gets() {
    let (origin, gate) = held().await;
    let [one, two] = pair(&origin, "").await;
    let asked = pay("k");
    let duplicate = async {
        origin.wait_for(1).await;
        let mut wire = Wire::connect(two.addr()).await.unwrap();
        wire.send(&asked.bytes()).await.unwrap();
        gate.open();
        wire.read().await.unwrap()
    };
    let (first, waited) = tokio::join!(ask(&one, &asked), duplicate);
    expect_replay(&waited, &first);
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_payload_mismatches_on_the_other_as_well() {
    let origin = Origin::start().await;
    let [one, two] = pair(&origin, "").await;
    let first = ask(&one, &pay("k")).await;
    let other = ask(&two, &pay("k").body("pay 999")).await;
    expect_problem(&other, 422, "key-reused");
    expect_replay(&ask(&two, &pay("k")).await, &first);
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_gateway_had_begun_is_unknown_on_the_other() {
    let (origin, gate) = held().await;
    let launch = durable(&origin);
    let mut one = launch.clone().start().await;
    let two = launch.start().await;
    let mut wire = Wire::connect(one.addr()).await.unwrap();
    wire.send(&pay("k").bytes()).await.unwrap();
    origin.wait_for(1).await;
    one.kill9().await;
    gate.open();
    for _ in 0..3 {
        expect_problem(&ask(&two, &pay("k")).await, 409, "outcome-unknown");
    }
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn keyed_work_of_a_killed_gateway_is_taken_over_by_the_other() {
    let (origin, gate) = held().await;
    let config = "[defaults]\nlease = \"1s\"\neffect = \"keyed\"\n";
    let [mut one, two] = pair(&origin, config).await;
    let mut wire = Wire::connect(one.addr()).await.unwrap();
    wire.send(&pay("k").bytes()).await.unwrap();
    origin.wait_for(1).await;
    one.kill9().await;
    gate.open();
    let retry = ask(&two, &pay("k")).await;
    assert_eq!((retry.status, retry.text()), (201, "receipt 1".into()));
    let seen = origin.seen();
    let attempts: Vec<_> = seen.iter().map(Seen::attempt).collect();
    assert_eq!(attempts, [Some(1), Some(2)]);
    assert!(seen[0].fence() < seen[1].fence());
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_work_beside_gateways_that_serve() {
    let origin = Origin::scripted(|_| Act::Vanish).await;
    let [one, two] = pair(&origin, "").await;
    expect_problem(&ask(&one, &pay("k")).await, 409, "outcome-unknown");

    let listed = operate(&one, &["list", "--state", "unknown", "--json"]);
    let listed = expect_done(&listed);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    let found: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let slot = found["slot"].as_str().unwrap().to_owned();
    let answer = one.launch().file("answer.json", "{\"charge\":7}");
    let answer = answer.display().to_string();
    let mut settle = vec!["resolve", "--slot", &slot, "--completed", &answer];
    settle.extend(["--status", "201", "--who", "ann", "--why", "in the ledger"]);
    expect_done(&operate(&one, &settle));

    for gateway in [&one, &two] {
        let retry = ask(gateway, &pay("k")).await;
        assert!(retry.is_replay(), "{}", retry.text());
        assert_eq!((retry.status, retry.text()), (201, "{\"charge\":7}".into()));
    }
    assert_eq!(origin.count(), 1);
    let swept = expect_done(&operate(&two, &["sweep", "--json"]));
    assert!(swept.contains("\"removed\":0"), "{swept}");
}
