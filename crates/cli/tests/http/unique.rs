//! Callers that get keys wrong: a new one for every retry, one order from two tabs. What succeeds
//! once does so whatever the key; what is suspected passes, is refused or is answered.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use futures_util::future::join_all;
use onceward_rig::gateway::{self, Answer, Ask, Gate, Gateway, Origin, Received, Wire, until};

use crate::{admin, ask, durable, expect_one_original, expect_problem, expect_replay, launch};

/// One payment per order, under whatever key.
const ONCE: &str = "[defaults]\nlease = \"1s\"\n\
    [[route]]\nmatch = \"POST /payments\"\n\
    unique = [{ name = \"paid-order\", on = [\"/order_id\"] }]\n";

/// A payment of an order, under a key.
fn order(number: usize, key: &str) -> Ask {
    let body = format!("{{\"order_id\": {number}, \"user_id\": \"u1\", \"amount\": 500}}");
    let ask = Ask::post("/payments").key(key).body(body);
    ask.field("Content-Type", "application/json")
}

/// How often each order was charged.
fn charges(origin: &Origin) -> BTreeMap<u64, usize> {
    let mut charges = BTreeMap::new();
    for seen in origin.seen() {
        let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        let order = body["order_id"].as_u64().unwrap();
        *charges.entry(order).or_default() += 1;
    }
    charges
}

async fn metric(gateway: &Gateway, name: &str) -> u64 {
    let metrics = admin(gateway, "/metrics").await.text();
    let lines = metrics.lines().filter(|line| line.starts_with(name));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    values.sum()
}

/// A service that answers when the gate opens.
async fn held() -> (Origin, Gate) {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Answer::receipt(1).after(&held).into()).await;
    (origin, gate)
}

// --- one success per order ------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_for_every_retry_is_one_charge_per_order() {
    const ORDERS: usize = 8;
    let origin = Origin::start().await;
    let gateway = launch(&origin).config(ONCE).start().await;
    for number in 0..ORDERS {
        let asks: Vec<_> = (0..16)
            .map(|caller| order(number, &format!("{number}-{caller}")))
            .collect();
        let mut answers = join_all(asks.iter().map(|it| ask(&gateway, it))).await;
        // And once more, each under its own key and under another one.
        answers.extend(join_all(asks.iter().map(|it| ask(&gateway, it))).await);
        answers.push(ask(&gateway, &order(number, &format!("{number}-late"))).await);
        expect_one_original(&answers);
    }
    let charges = charges(&origin);
    assert_eq!(charges.len(), ORDERS);
    assert!(charges.values().all(|count| *count == 1), "{charges:?}");
    assert!(metric(&gateway, "onceward_already_done_total").await >= 16);
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_orders_without_a_rule_are_two_charges() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let answers = [
        ask(&gateway, &order(1, "k1")).await,
        ask(&gateway, &order(1, "k2")).await,
    ];
    assert!(answers.iter().all(|it| it.status == 201 && !it.is_replay()));
    assert_eq!(origin.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_twin_that_is_under_way_is_waited_for_and_then_refused() {
    let (origin, gate) = held().await;
    let config = format!("{ONCE}wait = \"500ms\"\n");
    let gateway = launch(&origin).config(&config).start().await;
    let mut first = Wire::connect(gateway.addr()).await.unwrap();
    first.send(&order(1, "k1").bytes()).await.unwrap();
    origin.wait_for(1).await;
    expect_problem(&ask(&gateway, &order(1, "k2")).await, 409, "in-progress");
    gate.open();
    let first = first.read().await.unwrap();
    expect_replay(&ask(&gateway, &order(1, "k2")).await, &first);
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_that_call_it_differently_mean_the_same_order() {
    let origin = Origin::start().await;
    let config = format!(
        "{ONCE}[[route]]\nmatch = \"POST /orders/{{order}}/pay\"\n\
         unique = [{{ name = \"paid-order\", on = [\"{{order}}\"], then = \"refuse\" }}]\n"
    );
    let gateway = launch(&origin).config(&config).start().await;
    let first = ask(&gateway, &order(7, "k1")).await;
    assert_eq!(first.status, 201);
    let other = ask(&gateway, &Ask::post("/orders/%37/pay").key("k2")).await;
    expect_problem(&other, 409, "already-done");
    let body: serde_json::Value = serde_json::from_slice(&other.body).unwrap();
    assert_eq!(
        (&body["original_status"], &body["rule"]),
        (&201.into(), &"paid-order".into())
    );
    let next = ask(&gateway, &Ask::post("/orders/8/pay").key("k2")).await;
    assert_eq!((next.status, next.is_replay()), (201, false));
    assert_eq!(origin.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_names_no_order_or_has_no_key_executes_nothing() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).config(ONCE).start().await;
    let nameless = Ask::post("/payments").key("k").body("{\"order\": 1}");
    let answer = ask(&gateway, &nameless).await;
    expect_problem(&answer, 400, "invalid-request");
    assert!(answer.text().contains("/order_id"), "{}", answer.text());
    let unkeyed = Ask::post("/payments").body("{\"order_id\": 1}");
    expect_problem(&ask(&gateway, &unkeyed).await, 400, "missing-key");
    assert_eq!(origin.count(), 0);
}

// --- after a kill ---------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_answer_the_order_is_held_under_every_key() {
    let (origin, gate) = held().await;
    let mut gateway = durable(&origin).config(ONCE).start().await;
    let mut wire = Wire::connect(gateway.addr()).await.unwrap();
    wire.send(&order(1, "k0").bytes()).await.unwrap();
    origin.wait_for(1).await;
    gateway.kill9().await;
    gate.open();
    let mut gateway = gateway.restart().await;
    for round in 0..3 {
        let fresh = order(1, &format!("fresh{round}"));
        expect_problem(&ask(&gateway, &fresh).await, 409, "outcome-unknown");
        expect_problem(
            &ask(&gateway, &order(1, "k0")).await,
            409,
            "outcome-unknown",
        );
        gateway.kill9().await;
        gateway = gateway.restart().await;
    }
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_the_answer_every_key_gets_it() {
    let origin = Origin::start().await;
    let mut gateway = durable(&origin).config(ONCE).start().await;
    let first = ask(&gateway, &order(1, "k0")).await;
    gateway.kill9().await;
    let gateway = gateway.restart().await;
    for key in ["k1", "k0", "k2", "k1"] {
        expect_replay(&ask(&gateway, &order(1, key)).await, &first);
    }
    assert_eq!(origin.count(), 1);
}

/// Kills in the middle of many payments, each time when they are a little further. Two tabs pay
/// each order, and make a new key for every attempt.
#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_moment_no_order_is_charged_twice() {
    const ROUNDS: usize = 6;
    const PAIRS: usize = 4;
    const ORDERS: usize = 6;
    let origin = Origin::start().await;
    let mut gateway = durable(&origin).config(ONCE).start().await;
    let mut answered = 0;
    for round in 0..ROUNDS {
        let before = origin.count();
        let number = |pair: usize, order: usize| (round * PAIRS + pair) * ORDERS + order;
        let key = |tab, order, attempt| format!("{round}-{tab}-{order}-{attempt}");
        let addr = gateway.addr();
        let tabs = (0..2 * PAIRS).map(async |tab| {
            let mut answers = Vec::new();
            for paid in 0..ORDERS {
                let paying = order(number(tab / 2, paid), &key(tab, paid, 1));
                let answer = gateway::ask(addr, &paying).await.ok();
                answers.push(answer.filter(|answer| answer.complete));
            }
            answers
        });
        let kill = async {
            let further = round * PAIRS * ORDERS * 3 / ROUNDS / 4;
            origin.wait_for(before + 1 + further).await;
            gateway.kill9().await;
        };
        let (firsts, _) = tokio::join!(join_all(tabs), kill);
        gateway = gateway.restart().await;
        let retries = join_all((0..2 * PAIRS).map(async |tab| {
            let retries = (0..ORDERS).map(async |paid| {
                let again = order(number(tab / 2, paid), &key(tab, paid, 2));
                ask(&gateway, &again).await
            });
            join_all(retries).await
        }));
        let retries = retries.await;
        for (pair, paid) in (0..PAIRS).flat_map(|pair| (0..ORDERS).map(move |paid| (pair, paid))) {
            let tabs = [2 * pair, 2 * pair + 1];
            let first = tabs.iter().filter_map(|tab| firsts[*tab][paid].as_ref());
            let again = tabs.iter().map(|tab| &retries[*tab][paid]);
            let all: Vec<_> = first.chain(again).collect();
            answered += usize::from(expect_one_answer(&all));
        }
    }
    let charges = charges(&origin);
    assert!(charges.values().all(|count| *count == 1), "{charges:?}");
    // What was not begun when the first kill came was paid after it.
    assert!(
        (1..=charges.len()).contains(&answered),
        "{answered} answers"
    );
}

/// Checks that whoever was told of a charge was told of the same, and whoever was not got a
/// refusal. Returns whether anybody was told.
fn expect_one_answer(answers: &[&Received]) -> bool {
    let all = answers.iter().copied();
    let (told, refused): (Vec<&Received>, Vec<_>) = all.partition(|it| it.status == 201);
    for pair in told.windows(2) {
        assert_eq!(pair[0].text(), pair[1].text());
        assert_eq!(pair[0].lasting(), pair[1].lasting());
    }
    for answer in refused {
        expect_problem(answer, 409, "outcome-unknown");
    }
    !told.is_empty()
}

// --- suspicion ------------------------------------------------------------------------------

fn suspecting(then: &str) -> String {
    format!(
        "[[route]]\nmatch = \"POST /payments\"\n\
         suspect = {{ same = [\"/user_id\", \"/amount\"], within = \"10m\", then = {then:?} }}\n"
    )
}

fn confirmed(key: &str) -> Ask {
    order(2, key).field("Idempotency-Confirm", "intended")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspected_duplicate_that_passes_is_counted_and_logged() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).config(&suspecting("flag")).start().await;
    for key in ["k1", "k2"] {
        let answer = ask(&gateway, &order(1, key)).await;
        assert_eq!((answer.status, answer.is_replay()), (201, false));
    }
    assert_eq!(metric(&gateway, "onceward_suspected_total").await, 1);
    assert!(
        gateway.log().contains("suspected duplicate"),
        "{}",
        gateway.log()
    );
    // Whoever confirms is not suspected.
    assert_eq!(ask(&gateway, &confirmed("k3")).await.status, 201);
    assert_eq!(metric(&gateway, "onceward_suspected_total").await, 1);
    assert_eq!(origin.count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspected_duplicate_is_refused_unless_it_is_confirmed() {
    let origin = Origin::start().await;
    let config = format!("{}[log]\naccess = true\n", suspecting("refuse"));
    let gateway = launch(&origin).config(&config).start().await;
    let first = ask(&gateway, &order(1, "k1")).await;
    let refused = ask(&gateway, &order(2, "k2")).await;
    expect_problem(&refused, 409, "suspected-duplicate");
    assert!(refused.text().contains("Idempotency-Confirm: intended"));
    let meant = ask(&gateway, &confirmed("k2")).await;
    assert_eq!((meant.status, meant.is_replay()), (201, false));
    assert_ne!(meant.text(), first.text());
    // From here on the next one is compared with this one.
    expect_problem(
        &ask(&gateway, &order(3, "k3")).await,
        409,
        "suspected-duplicate",
    );
    expect_replay(&ask(&gateway, &order(2, "k2")).await, &meant);
    assert_eq!(origin.count(), 2);
    let carried = origin.seen();
    let carries = |name| carried.iter().any(|seen| seen.fields.has(name));
    assert!(!carries("idempotency-confirm"));
    let logged = || async { gateway.log().contains("suspected-duplicate").then_some(()) };
    until("the refusal is logged", logged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspected_duplicate_gets_the_first_answer_unless_it_is_confirmed() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).config(&suspecting("return")).start().await;
    let first = ask(&gateway, &order(1, "k1")).await;
    expect_replay(&ask(&gateway, &order(2, "k2")).await, &first);
    let meant = ask(&gateway, &confirmed("k3")).await;
    assert_eq!((meant.status, meant.is_replay()), (201, false));
    expect_replay(&ask(&gateway, &order(2, "k4")).await, &meant);
    assert_eq!(origin.count(), 2);
}

// --- bodies that go first, and what operators see -------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn a_body_goes_before_its_record_and_nothing_is_charged_again() {
    let origin = Origin::scripted(|_| {
        let receipt = Answer::receipt(1).field("Location", "/payments/1");
        receipt.into()
    })
    .await;
    let config = format!("{ONCE}retention = \"1h\"\nkeep_body = \"2s\"\n");
    let gateway = launch(&origin).config(&config).start().await;
    let first = ask(&gateway, &order(1, "k1")).await;
    expect_replay(&ask(&gateway, &order(1, "k1")).await, &first);
    let late = until("the body goes", || async {
        let retry = ask(&gateway, &order(1, "k1")).await;
        match retry.is_replay() {
            true => {
                expect_replay(&retry, &first);
                None
            }
            false => Some(retry),
        }
    })
    .await;
    for answer in [late, ask(&gateway, &order(1, "k2")).await] {
        expect_problem(&answer, 409, "answer-not-kept");
        assert_eq!(answer.fields.get("location"), Some("/payments/1"));
        assert!(answer.text().contains("\"original_status\":201"));
    }
    assert_eq!(origin.count(), 1);
}

/// Runs a command of operators on the records of a gateway that has ended.
fn operate(gateway: &Gateway, words: &[&str]) -> (Option<i32>, Vec<serde_json::Value>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onceward"));
    let store = gateway.launch().store();
    let command = command.args(words).env("ONCEWARD_STORE", store);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), lines.collect(), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_reservations_when_they_ask_for_them() {
    let origin = Origin::start().await;
    let config = format!("{ONCE}suspect = {{ same = [\"/user_id\"], within = \"10m\" }}\n");
    let mut gateway = durable(&origin).config(&config).start().await;
    for number in 1..=2 {
        let answer = ask(&gateway, &order(number, &format!("k{number}"))).await;
        assert_eq!(answer.status, 201);
    }
    gateway.term();
    gateway.ended().await;

    let (_, work, _) = operate(&gateway, &["list", "--json"]);
    assert_eq!(work.len(), 2, "{work:?}");
    let (_, suspected, _) = operate(&gateway, &["list", "--suspected", "--json"]);
    assert_eq!(suspected.len(), 1, "{suspected:?}");
    assert_eq!(suspected[0]["notes"][0]["deed"], "suspected");
    let (_, reserved, _) = operate(&gateway, &["list", "--state", "reserved", "--json"]);
    let mut names: Vec<_> = reserved
        .iter()
        .map(|it| it["operation"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    let wanted = [
        "suspect:POST /payments",
        "unique:paid-order",
        "unique:paid-order",
    ];
    assert_eq!(names, wanted);
    let slots: Vec<_> = work.iter().map(|it| &it["slot"]).collect();
    for one in &reserved {
        assert!(slots.contains(&&one["reservation"]["slot"]), "{one}");
    }

    let slot = reserved[0]["slot"].as_str().unwrap();
    let settle = [
        "resolve",
        "--slot",
        slot,
        "--not-executed",
        "--why",
        "x",
        "--who",
        "ann",
    ];
    let (code, _, said) = operate(&gateway, &settle);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("it stands for work in another slot"),
        "{said}"
    );
}
