//! Outages: the server is killed, hangs, fills up, and forgets its scripts.

use std::time::Duration;

use onceward::{Durability, Effect};
use onceward_rig::redis::{Options, RedisServer};

use super::site::{self, run, store};
use crate::budget::Budget;

/// How often a server is killed.
fn kills() -> u64 {
    if Budget::is_long() { 2_500 } else { 100 }
}

#[test]
fn no_acknowledged_outcome_is_lost_by_kill_9_of_a_server_that_syncs() {
    run(kill_again_and_again(Effect::Opaque));
}

#[test]
fn no_acknowledged_outcome_is_lost_by_kill_9_of_a_server_that_syncs_under_take_overs() {
    run(kill_again_and_again(Effect::Keyed));
}

async fn kill_again_and_again(effect: Effect) {
    let mut server = RedisServer::durable().await;
    assert_eq!(store(&server.url()).durability(), Durability::D2);
    let site = site::open(&server.url(), effect).await.busy();
    let mut random = fastrand::Rng::new();
    let mut slowest = Duration::ZERO;
    for _ in 0..kills() {
        site.hear(random.u64(1..20)).await;
        server.kill9().await;
        server.restart().await;
        slowest = slowest.max(site.recover().await);
    }
    let verdict = site.close().await;
    let note = format!(
        "appendfsync always, class D2; service was back {slowest:.1?} after the server at the latest"
    );
    verdict.record("kill -9 of the server, redis", kills(), &note);
    assert_eq!(verdict.charged_twice, 0);
}

#[test]
fn a_server_that_hangs_breaks_no_promise() {
    run(async {
        let server = RedisServer::durable().await;
        let site = site::open(&server.url(), Effect::Opaque).await.busy();
        let budget = Budget::seconds(5);
        let mut random = fastrand::Rng::new();
        let mut pauses = 0;
        while budget.lasts() {
            site.hear(random.u64(1..40)).await;
            server.pause();
            // Mostly shorter than a call may take, and now and then longer.
            let span = match random.u8(0..16) {
                0 => 2_000,
                _ => random.u64(1..120),
            };
            tokio::time::sleep(Duration::from_millis(span)).await;
            server.resume();
            site.recover().await;
            pauses += 1;
        }
        let verdict = site.close().await;
        verdict.record("SIGSTOP of the server, redis", pauses, "1 ms to 2 s each");
    });
}

#[test]
fn a_server_that_forgets_its_scripts_is_told_them_again() {
    run(async {
        let server = RedisServer::start(Options::default()).await;
        let site = site::open(&server.url(), Effect::Opaque).await.busy();
        let mut flushes = 0;
        let budget = Budget::seconds(3);
        while budget.lasts() {
            site.hear(1).await;
            server.cli(&["SCRIPT", "FLUSH"]).await;
            flushes += 1;
        }
        let verdict = site.close().await;
        let note = "in the middle of the traffic";
        verdict.record("SCRIPT FLUSH, redis", flushes, note);
        assert_eq!(verdict.failures, 0, "nobody notices");
    });
}

#[test]
fn a_server_that_is_full_breaks_no_promise() {
    run(async {
        let server = RedisServer::durable().await;
        let site = site::open(&server.url(), Effect::Opaque).await.busy();
        let budget = Budget::seconds(3);
        let mut random = fastrand::Rng::new();
        let mut times = 0;
        while budget.lasts() {
            site.hear(random.u64(1..40)).await;
            server.cli(&["CONFIG", "SET", "maxmemory", "500kb"]).await;
            tokio::time::sleep(Duration::from_millis(random.u64(1..60))).await;
            server.cli(&["CONFIG", "SET", "maxmemory", "0"]).await;
            site.recover().await;
            times += 1;
        }
        let verdict = site.close().await;
        let note = "writes were refused for up to 60 ms at a time";
        verdict.record("out of memory, redis", times, note);
        assert!(verdict.failures > 0, "it was never full");
    });
}
