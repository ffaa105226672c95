//! A server whose clock is set wrong under way: leases and retentions do not notice.

use std::time::Duration;

use onceward::testing::ExpectVerdict as _;
use onceward::{Effect, Engine, Fingerprint, Key, OnBusy, Policy, Scope, Slot, Timestamp, Verdict};
use onceward_rig::redis::{Options, RedisServer};
use onceward_rig::tally::Tally;

use super::site::{run, store};
use crate::budget::Budget;

/// How far off the clock may be, in seconds: two hours, and thirty days.
const OFFSETS: [i64; 5] = [0, -7_200, 7_200, -2_592_000, 2_592_000];

/// How often it is stepped.
fn steps() -> u64 {
    if Budget::is_long() { 2_500 } else { 100 }
}

#[test]
fn a_step_of_the_servers_clock_ends_no_lease_and_no_retention() {
    run(async {
        let server = RedisServer::start(Options::default().movable_clock()).await;
        let nodes = [node(&server), node(&server)];
        for node in &nodes {
            node.secret().await.expect("the store answers");
        }
        let watcher = store(&server.url());
        let mut random = fastrand::Rng::new();
        let (mut off, mut told) = (0, Timestamp::ZERO);
        for step in 0..steps() {
            let key = format!("k{step}");
            let [holder, other] = &nodes;
            let done = begin(holder, &format!("done-{key}")).await.expect_claim();
            done.complete("paid").await.expect("it is stored");
            let claim = begin(holder, &key).await.expect_claim();

            off = another(off, &mut random);
            server.step_clock(off);

            // Neither is over, on either node; and nobody is told an earlier time than before.
            for node in &nodes {
                let verdict = begin(node, &key).await;
                let is_busy = matches!(verdict, Verdict::Busy(_));
                assert!(is_busy, "step {step} to {off} s: {verdict:?}");
                for earlier in step.saturating_sub(2)..=step {
                    let kept = begin(node, &format!("done-k{earlier}")).await;
                    assert_eq!(kept.expect_replay(), "paid", "step {step} to {off} s");
                }
            }
            let swept = other.sweep(1_000).await.expect("the store answers");
            assert_eq!((swept.removed, swept.lapsed.len()), (0, 0), "after {off} s");
            let slot = onceward::testing::records::slot("clock");
            let now = watcher.get(slot).await.expect("the store answers").now;
            assert!(now >= told, "time went back by {:?}", told.since(now));
            told = now;
            claim.complete("paid").await.expect("the claim still holds");
        }
        let note = "leases of 30 s and retentions of an hour, on two nodes";
        println!(
            "clock steps, redis: {} steps of up to 60 d; {note}",
            steps()
        );
        Tally::record("steps of the server's clock, redis", steps(), None, 0, note);
    });
}

/// Another offset than the one of now.
fn another(off: i64, random: &mut fastrand::Rng) -> i64 {
    loop {
        let next = random.choice(OFFSETS).expect("there are some");
        if next != off {
            return next;
        }
    }
}

fn node(server: &RedisServer) -> Engine {
    let policy = Policy::default()
        .effect(Effect::Keyed)
        .lease(Duration::from_secs(30))
        .retention(Duration::from_secs(3600))
        .on_busy(OnBusy::Refuse);
    Engine::builder(store(&server.url())).policy(policy).build()
}

async fn begin(engine: &Engine, key: &str) -> Verdict {
    let key = Key::parse(key).expect("printable");
    let slot = Slot::new(Scope::new("clocks", "pay"), key);
    let verdict = engine.begin(&slot, Fingerprint::of(b"100")).await;
    verdict.expect("the store answers")
}
