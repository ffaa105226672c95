//! Outages: the server is killed or hangs, and the network does what networks do.

use std::time::Duration;

use onceward::Effect;
use onceward_rig::postgres::proxy::Fault;
use onceward_rig::postgres::{Proxy, Server};

use super::site::{Site, run};
use crate::budget::Budget;

#[test]
fn no_acknowledged_outcome_is_lost_by_kill_9_of_the_server() {
    run(kill_again_and_again(Effect::Opaque, 12));
}

#[test]
fn no_acknowledged_outcome_is_lost_by_kill_9_of_the_server_under_take_overs() {
    run(kill_again_and_again(Effect::Keyed, 8));
}

async fn kill_again_and_again(effect: Effect, seconds: u64) {
    let mut server = Server::start().await;
    let site = Site::open(&server.url(), effect).await.busy();
    let budget = Budget::seconds(seconds);
    let mut random = fastrand::Rng::new();
    let (mut kills, mut slowest) = (0, Duration::ZERO);
    while kills < 3 || budget.lasts() {
        site.hear(random.u64(1..40)).await;
        server.kill9().await;
        server.restart().await;
        slowest = slowest.max(site.recover().await);
        kills += 1;
    }
    let verdict = site.close().await;
    let note = format!("service was back {slowest:.1?} after the server at the latest");
    verdict.record("kill -9 of the server, postgres", kills, &note);
}

#[test]
fn a_server_that_hangs_breaks_no_promise() {
    run(async {
        let server = Server::start().await;
        let site = Site::open(&server.url(), Effect::Opaque).await.busy();
        let budget = Budget::seconds(10);
        let mut random = fastrand::Rng::new();
        let mut pauses = 0;
        while budget.lasts() {
            site.hear(random.u64(1..40)).await;
            server.pause();
            // Mostly shorter than a call may take, and now and then longer.
            let span = match random.u8(0..8) {
                0 => 2_000,
                _ => random.u64(1..120),
            };
            tokio::time::sleep(Duration::from_millis(span)).await;
            server.resume();
            site.recover().await;
            pauses += 1;
        }
        let verdict = site.close().await;
        verdict.record(
            "SIGSTOP of the server, postgres",
            pauses,
            "1 ms to 2 s each",
        );
    });
}

#[test]
fn whatever_the_network_does_breaks_no_promise() {
    run(async {
        let server = Server::start().await;
        let proxy = Proxy::start(server.addr());
        let (url, direct) = (proxy.url(&server.url()), server.url());
        let site = Site::open_beside(&url, &direct, Effect::Opaque);
        let site = site.await.busy();
        let budget = Budget::seconds(20);
        let mut random = fastrand::Rng::new();
        let (mut faults, mut rounds) = ([0_u64; Fault::ALL.len() + 1], 0_u64);
        while budget.lasts() {
            let kind = random.usize(..=Fault::ALL.len());
            match Fault::ALL.get(kind) {
                Some(fault) => proxy.strike(*fault),
                None => {
                    proxy.delay(Duration::from_millis(random.u64(1..30)));
                    site.hear(1).await;
                    proxy.delay(Duration::ZERO);
                }
            }
            faults[kind] += 1;
            rounds += 1;
            match rounds % 20 {
                // Now and then until everything is well again.
                0 => drop(site.recover().await),
                _ => tokio::time::sleep(Duration::from_millis(random.u64(0..8))).await,
            }
        }
        let verdict = site.close().await;
        let note = format!(
            "{} connections struck; cut, reset, half-open, request dropped, reply dropped, \
             delayed: {faults:?}",
            proxy.struck()
        );
        verdict.record("TCP faults, postgres", rounds, &note);
        assert!(faults.iter().all(|count| *count > 0), "{note}");
    });
}

#[test]
fn a_reply_that_is_lost_after_the_write_leads_to_no_second_execution() {
    run(async {
        let server = Server::builder().setting("fsync", "off").start().await;
        let proxy = Proxy::start(server.addr());
        let (url, direct) = (proxy.url(&server.url()), server.url());
        let site = Site::open_beside(&url, &direct, Effect::Opaque);
        let site = site.await.busy();
        let budget = Budget::seconds(8);
        let mut dropped = 0;
        while budget.lasts() {
            proxy.strike(Fault::ReplyDropped);
            while proxy.awaits() {
                tokio::task::yield_now().await;
            }
            dropped += 1;
            site.hear(3).await;
        }
        let verdict = site.close().await;
        verdict.record(
            "replies dropped after the write, postgres",
            dropped,
            "one at a time",
        );
    });
}
