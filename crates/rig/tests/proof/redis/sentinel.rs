//! Sentinels make another server the master while callers go on.

use std::time::Duration;

use onceward::{Durability, Effect};
use onceward_rig::redis::{Options, Sentinels};

use super::site::{self, close_forgetful, run, store};
use crate::budget::Budget;

#[test]
fn a_failover_by_sentinels_executes_no_keyed_work_twice() {
    run(async {
        let mut all = Sentinels::start(Options::default()).await;
        let class = store(&all.url()).durability();
        assert_eq!(class, Durability::D0, "strict mode refuses it");
        let site = site::open(&all.url(), Effect::Keyed).await.busy();
        let failovers = if Budget::is_long() { 50 } else { 2 };
        let mut slowest = Duration::ZERO;
        for round in 0..failovers {
            site.hear(20).await;
            let first = all.master().await;
            all.server(first).kill9().await;
            all.failed_over(first).await;
            slowest = slowest.max(site.recover_all().await);
            site.recover().await;
            if round + 1 < failovers {
                all.rejoin(first).await;
            }
        }
        let note = format!(
            "three sentinels, class D0; service was back {slowest:.1?} after the new master at the \
             latest"
        );
        close_forgetful(site, "failover by sentinels, redis", failovers, &note).await;
    });
}

/// Two sentinels are enough, and a store that asks them for the first time finds its way too, past
/// one that has not heard of the new master.
#[test]
fn a_store_opens_while_a_sentinel_and_the_first_master_are_down() {
    run(async {
        let mut all = Sentinels::start(Options::default()).await;
        let first = all.master().await;
        all.server(first).kill9().await;
        all.failed_over(first).await;
        all.sentinels()[0].kill9().await;
        all.mislead(first).await;
        let site = site::open(&all.url(), Effect::Keyed).await.busy();
        site.hear(60).await;
        let verdict = site.close().await;
        let note = "one of three sentinels and a master are down";
        verdict.record("opened by sentinels, redis", 1, note);
    });
}
