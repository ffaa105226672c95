//! A cluster of six nodes, of which some die, and some of whose hash slots move, under load.

use std::time::Duration;

use onceward::{Durability, Effect};
use onceward_rig::redis::{Cluster, Options};

use super::site::{self, close_forgetful, run, store};
use crate::budget::Budget;

#[test]
fn a_slot_that_moves_to_another_node_loses_nothing_and_executes_nothing_twice() {
    run(async {
        let cluster = Cluster::start(Options::default()).await;
        let site = site::open(&cluster.url(), Effect::Opaque).await.busy();
        let mut random = fastrand::Rng::new();
        let budget = Budget::seconds(4);
        let (mut moved, mut with_records) = (0, 0);
        while budget.lasts() {
            site.hear(10).await;
            let slot = inhabited(&cluster, &mut random).await;
            let from = cluster.owner(slot).await;
            // Others are served from wherever they are meanwhile.
            let to = cluster.owner((slot + random.u16(1..16_384)) % 16_384).await;
            if from == to {
                continue;
            }
            with_records += u64::from(cluster.keys_in(slot).await > 0);
            cluster.migrate(slot, to).await;
            moved += 1;
        }
        site.recover().await;
        let verdict = site.close().await;
        let note = format!("{with_records} of them with records in them, under load");
        verdict.record("hash slots moved, redis cluster", moved, &note);
        assert_eq!(verdict.charged_twice, 0);
        assert!(with_records > 0, "nothing was moved");
    });
}

#[test]
fn a_failover_in_a_cluster_executes_no_keyed_work_twice() {
    run(async {
        let mut cluster = Cluster::start(Options::default()).await;
        let class = store(&cluster.url()).durability();
        assert_eq!(class, Durability::D0, "strict mode refuses it");
        let site = site::open(&cluster.url(), Effect::Keyed).await.busy();
        let failovers = if Budget::is_long() { 50 } else { 2 };
        let mut random = fastrand::Rng::new();
        let mut slowest = Duration::ZERO;
        for _ in 0..failovers {
            site.hear(20).await;
            let dead = cluster.fail_over(random.u16(..16_384)).await;
            slowest = slowest.max(site.recover_all().await);
            site.recover().await;
            cluster.nodes()[dead].restart().await;
            cluster.is_whole().await;
        }
        let note = format!(
            "six nodes, class D0; service was back {slowest:.1?} after the new master at the latest"
        );
        close_forgetful(site, "failover in a cluster, redis", failovers, &note).await;
    });
}

/// A hash slot with records in it, or the last of many that were looked at.
async fn inhabited(cluster: &Cluster, random: &mut fastrand::Rng) -> u16 {
    let mut slot = 0;
    for _ in 0..20 {
        // The hash tags of partitions.
        let tag = format!("{{{:03x}}}", random.u16(..4_096));
        slot = cluster.slot_of(&tag).await;
        if cluster.keys_in(slot).await > 0 {
            break;
        }
    }
    slot
}
