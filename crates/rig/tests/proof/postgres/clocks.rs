//! A server whose clock is set wrong under way: leases and retentions do not notice.

use std::time::Duration;

use onceward::testing::ExpectVerdict as _;
use onceward::{Effect, Engine, Fingerprint, Key, OnBusy, Policy, Scope, Slot, Timestamp, Verdict};
use onceward_rig::gateway::shim;
use onceward_rig::postgres::Server;
use onceward_rig::tally::Tally;

use super::site::{run, store};
use crate::budget::Budget;

/// How far the clock is stepped, in seconds: two hours.
const STEP: i64 = 2 * 3600;

#[test]
fn a_step_of_the_servers_clock_ends_no_lease_and_no_retention() {
    run(async {
        let server = movable().await;
        let nodes = [node(&server), node(&server)];
        for node in &nodes {
            node.secret().await.expect("the store answers");
        }
        let watcher = store(&server.url());
        let budget = Budget::seconds(8);
        let mut random = fastrand::Rng::new();
        let (mut steps, mut told) = (0, Timestamp::ZERO);
        let mut off = 0;
        while steps < 4 || budget.lasts() {
            let key = format!("k{steps}");
            let [holder, other] = &nodes;
            let done = begin(holder, &format!("done-{key}")).await.expect_claim();
            done.complete("paid").await.expect("it is stored");
            let claim = begin(holder, &key).await.expect_claim();

            off = random
                .choice([-STEP, 0, STEP])
                .filter(|next| *next != off)
                .unwrap_or(-off);
            server.step_clock(off);
            let shown = server
                .value("SELECT extract(epoch FROM clock_timestamp())")
                .await;
            assert!(!shown.is_empty());

            // Neither is over, on either node; and nobody is told an earlier time than before.
            for node in &nodes {
                let verdict = begin(node, &key).await;
                assert!(
                    matches!(verdict, Verdict::Busy(_)),
                    "after {off} s: {verdict:?}"
                );
                let kept = begin(node, &format!("done-{key}")).await.expect_replay();
                assert_eq!(kept, "paid");
            }
            let swept = other.sweep(1_000).await.expect("the store answers");
            assert_eq!((swept.removed, swept.lapsed.len()), (0, 0), "after {off} s");
            let slot = onceward::testing::records::slot("clock");
            let now = watcher.get(slot).await.expect("the store answers").now;
            assert!(now >= told, "time went back by {:?}", told.since(now));
            told = now;
            claim.complete("paid").await.expect("the claim still holds");
            steps += 1;
        }
        let note = "leases of 30 s and retentions of an hour, on two nodes";
        println!("clock steps, postgres: {steps} steps of up to 4 h; {note}");
        Tally::record(
            "steps of the server's clock, postgres",
            steps,
            None,
            0,
            note,
        );
    });
}

#[test]
fn the_shim_really_moves_the_servers_clock() {
    run(async {
        let server = movable().await;
        let hours = "SELECT round(extract(epoch FROM clock_timestamp()) / 3600)";
        let before: i64 = server.value(hours).await.parse().expect("a number");
        server.step_clock(STEP);
        let after: i64 = server.value(hours).await.parse().expect("a number");
        assert!((2..=3).contains(&(after - before)), "{before} and {after}");
    });
}

/// A server whose clock can be stepped.
async fn movable() -> Server {
    let folder = tempfile::tempdir().expect("a place for the shim");
    let library = shim("clock", folder.path());
    let server = Server::builder().setting("fsync", "off").shim(library);
    server.start().await
}

fn node(server: &Server) -> Engine {
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
