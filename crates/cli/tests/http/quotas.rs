//! Quotas: what one caller may take is limited, and nobody's replays are.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use onceward::clock::{Clock as _, SystemClock};
use onceward_rig::gateway::{
    Act, Answer, Ask, Gate, Gateway, Launch, Origin, Received, Wire, until,
};

use crate::{admin, ask, durable, expect_problem, expect_replay, launch, pay};

/// Callers who are known by a header.
const KNOWN: &str = "[identity]\nfrom = \"header\"\n\
                     header = { name = \"X-Tenant\", peers = [\"127.0.0.0/8\"] }\n";

fn limited(origin: &Origin, quotas: &str) -> Launch {
    launch(origin).config(&format!("{KNOWN}[quotas]\n{quotas}\n"))
}

/// A payment of this caller.
fn pays(caller: &str, key: &str) -> Ask {
    pay(key).field("X-Tenant", caller)
}

/// Checks that an answer refuses for this limit, and says so wherever callers look.
#[track_caller]
fn expect_over(answer: &Received, limit: &str) {
    expect_problem(answer, 429, "too-many-claims");
    let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(body["limit"], limit, "{body}");
    assert!(body["error"]["message"].as_str().unwrap().contains(limit));
    assert!(answer.retry_after() >= Some(Duration::from_secs(1)));
    let left = answer.fields.get("ratelimit").unwrap_or_default();
    assert!(left.starts_with(&format!("\"{limit}\";r=0;t=")), "{left}");
    let policy = answer.fields.get("ratelimit-policy").unwrap_or_default();
    assert!(policy.contains(&format!("\"{limit}\";q=")), "{policy}");
}

/// What the metric of this name and these labels says.
async fn metric(gateway: &Gateway, line: &str) -> Option<u64> {
    let text = admin(gateway, "/metrics").await.text();
    let found = text.lines().find_map(|it| it.strip_prefix(line))?;
    found.trim().parse().ok()
}

#[tokio::test]
async fn replays_pass_where_new_claims_do_not() {
    let origin = Origin::start().await;
    let gateway = limited(&origin, "claims_per_day = 1").start().await;
    let first = ask(&gateway, &pays("alice", "k")).await;
    assert_eq!(first.status, 201, "{}", first.text());
    let left = first.fields.get("ratelimit").unwrap();
    assert!(left.starts_with("\"claims_per_day\";r=0;t="), "{left}");
    let policy = first.fields.get("ratelimit-policy");
    assert_eq!(policy, Some("\"claims_per_day\";q=1;w=86400"));
    for number in 0..50 {
        expect_over(
            &ask(&gateway, &pays("alice", &format!("n{number}"))).await,
            "claims_per_day",
        );
        let again = ask(&gateway, &pays("alice", "k")).await;
        assert!(
            again.is_replay() && !again.fields.has("ratelimit"),
            "{again:?}"
        );
        assert_eq!(again.text(), first.text());
    }
    let refused = "onceward_quota_refusals_total{route=\"default\",limit=\"claims_per_day\"}";
    assert_eq!(metric(&gateway, refused).await, Some(50));
    assert_eq!(origin.count(), 1);
    let log = gateway.log();
    let said = "quotas     claims_per_day 1 (per caller, in this process)";
    assert!(log.contains(said), "{log}");
}

#[tokio::test]
async fn replays_pass_that_the_store_has_to_look_up() {
    let origin = Origin::start().await;
    let config = format!("{KNOWN}[quotas]\nclaims_per_day = 1\n");
    let mut gateway = durable(&origin).config(&config).start().await;
    let first = ask(&gateway, &pays("alice", "k")).await;
    gateway.kill9().await;
    let gateway = gateway.restart().await;
    // What was taken is forgotten, and the one claim of the day is taken again.
    assert_eq!(ask(&gateway, &pays("alice", "other")).await.status, 201);
    expect_over(
        &ask(&gateway, &pays("alice", "new")).await,
        "claims_per_day",
    );
    let again = ask(&gateway, &pays("alice", "k")).await;
    assert!(again.is_replay(), "{again:?}");
    assert_eq!((again.status, again.text()), (201, first.text()));
    let other = pays("alice", "k").body("other");
    expect_problem(&ask(&gateway, &other).await, 422, "key-reused");
    assert_eq!(origin.count(), 2);
}

#[tokio::test]
async fn one_caller_takes_nothing_from_another() {
    let origin = Origin::start().await;
    let gateway = limited(&origin, "claims_per_day = 2").start().await;
    for caller in ["alice", "bob"] {
        for key in ["k1", "k2"] {
            assert_eq!(ask(&gateway, &pays(caller, key)).await.status, 201);
        }
        expect_over(&ask(&gateway, &pays(caller, "k3")).await, "claims_per_day");
    }
}

#[tokio::test]
async fn credentials_that_nobody_verified_share_the_quota_of_their_address() {
    let origin = Origin::start().await;
    let config = "[quotas]\nclaims_per_day = 3\n";
    let gateway = launch(&origin).config(config).start().await;
    for number in 0..3 {
        let asked = pay("k").bearer(&format!("invented-{number}"));
        assert_eq!(ask(&gateway, &asked).await.status, 201);
    }
    for number in 3..10 {
        let asked = pay("k").bearer(&format!("invented-{number}"));
        expect_over(&ask(&gateway, &asked).await, "claims_per_day");
    }
    expect_over(&ask(&gateway, &pay("k")).await, "claims_per_day");
    assert_eq!(origin.count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_of_new_keys_is_admitted_at_the_quota() {
    const QUOTA: usize = 40;
    const SPANS: usize = 8;
    let origin = Origin::start().await;
    let quotas = format!("claims_per_second = {QUOTA}");
    let gateway = limited(&origin, &quotas).start().await;
    let (admitted, number) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // All at once, then nothing until the second is over: the time is measured until the first
    // claim that came after so many whole seconds' worth.
    let (began, over) = (SystemClock.stopwatch(), OnceLock::new());
    let callers = join_all((0..16).map(async |_| {
        let mut wire = Wire::connect(gateway.addr()).await.unwrap();
        let mut refused = 0;
        while over.get().is_none() {
            let key = format!("load-{}", number.fetch_add(1, Ordering::Relaxed));
            wire.send(&pays("alice", &key).bytes()).await.unwrap();
            let answer = wire.read().await.unwrap();
            match answer.status {
                201 if admitted.fetch_add(1, Ordering::Relaxed) == QUOTA * SPANS => {
                    over.set(SystemClock.stopwatch() - began).unwrap();
                }
                201 => {}
                429 => refused += 1,
                other => panic!("{other}: {}", answer.text()),
            }
        }
        refused
    }));
    let refused: usize = callers.await.into_iter().sum();
    let took = over.into_inner().unwrap();
    let share = SPANS as f64 / took.as_secs_f64();
    assert!(refused > QUOTA * SPANS, "only {refused} were refused");
    assert!(
        (0.95..=1.05).contains(&share),
        "{share} of the quota, in {took:?}"
    );
    assert_eq!(origin.count(), admitted.into_inner());
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_claims_leave_nothing_in_the_store() {
    let origin = Origin::start().await;
    let config = format!("{KNOWN}[quotas]\nclaims_per_day = 5\n");
    let mut gateway = durable(&origin).config(&config).start().await;
    let asks: Vec<_> = (0..60)
        .map(|key| pays("alice", &format!("k{key}")))
        .collect();
    let answers = join_all(asks.iter().map(|asked| ask(&gateway, asked))).await;
    let granted = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!((granted, origin.count()), (5, 5));
    gateway.term();
    gateway.ended().await;
    let listed = std::process::Command::new(env!("CARGO_BIN_EXE_onceward"))
        .args(["list", "--json", "--store", gateway.launch().store()])
        .output()
        .unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    assert_eq!(text.matches("\"completed\"").count(), 5, "{text}");
    assert_eq!(text.matches("\"slot\"").count(), 5, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_among_the_running_is_free_again_when_one_ends() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Answer::receipt(0).after(&held).into()).await;
    let gateway = limited(&origin, "running = 1").start().await;
    let first = pays("alice", "k1");
    let running = ask(&gateway, &first);
    let meanwhile = async {
        origin.wait_for(1).await;
        expect_over(&ask(&gateway, &pays("alice", "k2")).await, "running");
        gate.open();
    };
    let (first, ()) = tokio::join!(running, meanwhile);
    assert_eq!(first.status, 201);
    assert_eq!(ask(&gateway, &pays("alice", "k2")).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_records_stop_new_claims_until_they_are_gone() {
    let number = AtomicUsize::new(0);
    let origin = Origin::scripted(move |_| match number.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Act::Vanish,
        _ => Answer::receipt(0).into(),
    })
    .await;
    let config = format!(
        "{KNOWN}[quotas]\nunknown = 2\n[admin]\ncensus = \"1s\"\n\
         [defaults]\nunknown_retention = \"3s\"\n"
    );
    let gateway = launch(&origin).config(&config).start().await;
    for key in ["k1", "k2"] {
        expect_problem(
            &ask(&gateway, &pays("alice", key)).await,
            409,
            "outcome-unknown",
        );
    }
    expect_over(&ask(&gateway, &pays("alice", "k3")).await, "unknown");
    expect_problem(
        &ask(&gateway, &pays("alice", "k1")).await,
        409,
        "outcome-unknown",
    );
    assert_eq!(ask(&gateway, &pays("bob", "k3")).await.status, 201);
    // What nobody knows is counted, and told to operators.
    until("the unknown records are counted", || async {
        let unknown = metric(&gateway, "onceward_records{state=\"unknown\"}").await;
        (unknown == Some(2)).then_some(())
    })
    .await;
    until("they are gone, and counted again", || async {
        let answer = ask(&gateway, &pays("alice", "k3")).await;
        (answer.status == 201).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_answers_stop_new_claims_until_they_expire() {
    let origin = Origin::scripted(|_| Answer::new(201, vec![b'a'; 10_000]).into()).await;
    let config = format!(
        "{KNOWN}[quotas]\nstored = \"25KiB\"\n[admin]\ncensus = \"1s\"\n\
         [defaults]\nretention = \"3s\"\nmax_answer = \"20KiB\"\n"
    );
    let gateway = launch(&origin).config(&config).start().await;
    for key in ["k1", "k2", "k3"] {
        assert_eq!(ask(&gateway, &pays("alice", key)).await.status, 201);
    }
    expect_over(&ask(&gateway, &pays("alice", "k4")).await, "stored");
    let first = ask(&gateway, &pays("alice", "k3")).await;
    expect_replay(&ask(&gateway, &pays("alice", "k3")).await, &first);
    until("there is room again", || async {
        let answer = ask(&gateway, &pays("alice", "k4")).await;
        (answer.status == 201).then_some(())
    })
    .await;
}

#[tokio::test]
async fn probing_for_mismatches_ends_in_refusals_that_tell_nothing() {
    let origin = Origin::start().await;
    let gateway = limited(&origin, "mismatches_per_minute = 5").start().await;
    let first = ask(&gateway, &pays("alice", "used").body("100")).await;
    for guess in 0..5 {
        let asked = pays("alice", "used").body(format!("guess {guess}"));
        expect_problem(&ask(&gateway, &asked).await, 422, "key-reused");
    }
    let used = ask(&gateway, &pays("alice", "used").body("guess 5")).await;
    let fresh = ask(&gateway, &pays("alice", "fresh").body("guess 5")).await;
    for answer in [&used, &fresh] {
        expect_over(answer, "mismatches_per_minute");
    }
    let told = |answer: &Received| {
        let mut body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        body["instance"] = "".into();
        body
    };
    assert_eq!(told(&used), told(&fresh));
    expect_replay(
        &ask(&gateway, &pays("alice", "used").body("100")).await,
        &first,
    );
}

/// The counter of weak keys of one kind.
fn weak(kind: &str) -> String {
    format!("onceward_weak_keys_total{{route=\"default\",kind=\"{kind}\"}}")
}

#[tokio::test]
async fn keys_that_callers_do_not_choose_are_not_called_weak() {
    let derived = "key = \"derived\"\nkey_from = { header = \"X-Delivery-Id\" }";
    let fitting = "key_equals = \"/order\"";
    for terms in [derived, fitting] {
        let origin = Origin::start().await;
        let config = format!("{KNOWN}[defaults]\n{terms}\n");
        let gateway = launch(&origin).config(&config).start().await;
        for order in 0..10 {
            let number = order.to_string();
            let asked = match terms == fitting {
                true => pays("alice", &number),
                false => Ask::post("/payments").field("X-Tenant", "alice"),
            };
            let asked = asked.field("X-Delivery-Id", &number);
            let asked = asked.field("Content-Type", "application/json");
            let answer = ask(&gateway, &asked.body(format!("{{\"order\":{order}}}"))).await;
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
        assert_eq!(metric(&gateway, &weak("short")).await, None, "{terms}");
        let log = gateway.log();
        assert!(!log.contains("the keys of a caller are weak"), "{log}");
    }
}

#[tokio::test]
async fn weak_keys_are_told_once_and_counted() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).config(KNOWN).start().await;
    for key in 0..10 {
        assert_eq!(
            ask(&gateway, &pays("alice", &format!("k{key}")))
                .await
                .status,
            201
        );
    }
    for body in 0..5 {
        ask(
            &gateway,
            &pays("bob", "01a09f1c-6f6e-7f83-a40b").body(format!("{body}")),
        )
        .await;
    }
    assert_eq!(metric(&gateway, &weak("short")).await, Some(10));
    assert_eq!(metric(&gateway, &weak("constant")).await, Some(2));
    let log = gateway.log();
    assert_eq!(
        log.matches("the keys of a caller are weak").count(),
        2,
        "{log}"
    );
    assert!(!log.contains("alice") && !log.contains("bob"), "{log}");
}
