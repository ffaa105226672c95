//! Failovers: the master dies, and a replica takes over that lacks what was written last.

use std::time::Duration;

use onceward::{Durability, Effect};
use onceward_rig::proxy::{Fault, Proxy};
use onceward_rig::redis::{Options, RedisServer};

use super::site::{self, close_forgetful, run, store};
use crate::budget::Budget;

/// A replica, and the line by which it follows its master.
struct Replica {
    server: RedisServer,
    line: Proxy,
}

// === impl Replica ===

impl Replica {
    async fn of(master: &RedisServer) -> Self {
        let line = master.proxy();
        let options = Options::default().replica_of(line.addr());
        let server = RedisServer::start(options).await;
        Self { server, line }
    }
}

/// How often a master dies.
fn failovers() -> u64 {
    if Budget::is_long() { 500 } else { 20 }
}

/// Keyed work comes to no harm: the service behind repeats its first answer to whoever executes
/// once more. Other work is refused beforehand in strict mode, because of the class.
#[test]
fn a_replica_that_lacks_claims_executes_no_keyed_work_twice() {
    run(async {
        let mut master = RedisServer::start(Options::default()).await;
        let mut replica = Replica::of(&master).await;
        let front = master.proxy();
        let url = master.url();
        let site = site::open(&front.url(&url), Effect::Keyed).await.busy();
        let mut random = fastrand::Rng::new();
        for _ in 0..failovers() {
            let class = store(&master.url()).durability();
            assert_eq!(class, Durability::D0, "strict mode refuses it");
            site.hear(5).await;
            // From here on the replica falls behind, and nobody waits for it.
            replica.line.close();
            site.hear(random.u64(5..25)).await;
            master.kill9().await;
            replica.server.promote().await;
            front.retarget(replica.server.addr());
            front.strike(Fault::Reset);
            site.recover().await;
            master = replica.server;
            replica = Replica::of(&master).await;
        }
        assert!(site.missing().await > 0, "the replicas lacked something");
        let note = "class D0, which strict refuses for all but keyed work";
        close_forgetful(site, "failover, redis", failovers(), note).await;
    });
}

/// A write that waits for a replica in vain is not acknowledged.
#[test]
fn no_claim_is_granted_that_a_replica_was_to_have_and_has_not() {
    run(async {
        let master = RedisServer::start(Options::default()).await;
        let replica = Replica::of(&master).await;
        replica.server.heard_by(&master).await;
        let url = format!("{}?wait=1&wait_timeout=700ms", master.url());
        let site = site::open(&url, Effect::Opaque).await.busy();
        site.hear(20).await;
        replica.line.close();
        // What the replica has got by then may still be answered; after that nothing is, for as
        // long as every caller needs to try more than once.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let before = site.answers();
        tokio::time::sleep(Duration::from_millis(3_000)).await;
        assert_eq!(site.answers(), before, "answered without a replica");
        replica.line.open();
        site.hear(20).await;
        let verdict = site.close().await;
        let note = "a replica that is away stops claims; none is taken for granted";
        verdict.record("WAIT for a replica, redis", 1, note);
    });
}
