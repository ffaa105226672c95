//! The network between a store and its server does what networks do.

use std::time::Duration;

use onceward::Effect;
use onceward_rig::proxy::Fault;
use onceward_rig::redis::{Options, RedisServer};

use super::site::{self, run};
use crate::budget::Budget;

#[test]
fn whatever_the_network_does_breaks_no_promise() {
    run(async {
        let server = RedisServer::start(Options::default()).await;
        let proxy = server.proxy();
        let (url, direct) = (proxy.url(&server.url()), server.url());
        let site = site::open_beside(&url, &direct, Effect::Opaque);
        let site = site.await.busy();
        let budget = Budget::seconds(8);
        let mut random = fastrand::Rng::new();
        let (mut faults, mut rounds) = ([0_u64; Fault::ALL.len() + 1], 0_u64);
        while budget.lasts() {
            // Each of them once, whatever is drawn.
            let kind = match faults.iter().position(|count| *count == 0) {
                Some(missing) => missing,
                None => draw(&mut random),
            };
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
        verdict.record("TCP faults, redis", rounds, &note);
        assert!(faults.iter().all(|count| *count > 0), "{note}");
    });
}

/// The number of a fault, or of a delay. Connections that are half open are rare: with each of them
/// everybody waits until the store gives up on it.
fn draw(random: &mut fastrand::Rng) -> usize {
    loop {
        let kind = random.usize(..=Fault::ALL.len());
        if Fault::ALL.get(kind) != Some(&Fault::HalfOpen) || random.u8(..15) == 0 {
            return kind;
        }
    }
}

#[test]
fn a_reply_that_is_lost_after_the_write_leads_to_no_second_execution() {
    run(async {
        let server = RedisServer::start(Options::default()).await;
        let proxy = server.proxy();
        let (url, direct) = (proxy.url(&server.url()), server.url());
        let site = site::open_beside(&url, &direct, Effect::Opaque);
        let site = site.await.busy();
        let budget = Budget::seconds(4);
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
            "replies dropped after the write, redis",
            dropped,
            "one at a time",
        );
    });
}
