//! Failovers: the primary dies and a standby takes over, with everything or without its tail.

use onceward::{Durability, Effect};
use onceward_rig::postgres::proxy::Fault;
use onceward_rig::postgres::{Proxy, Server};
use onceward_rig::tally::Tally;

use super::site::{Site, run, store};
use crate::budget::Budget;

#[test]
fn a_synchronous_failover_loses_nothing_and_executes_nothing_twice() {
    run(async {
        let mut primary = Server::start().await;
        let url = primary.url();
        let mut standby = synchronous(&primary).await;
        let proxy = Proxy::start(primary.addr());
        let site = Site::open(&proxy.url(&url), Effect::Opaque).await.busy();
        let budget = Budget::seconds(20);
        let mut random = fastrand::Rng::new();
        let mut failovers = 0;
        loop {
            site.hear(random.u64(10..60)).await;
            assert_eq!(store(&primary.url()).durability(), Durability::D3);
            primary.kill9().await;
            standby.promote().await;
            proxy.retarget(standby.addr());
            proxy.strike(Fault::Reset);
            site.recover().await;
            failovers += 1;
            primary = standby;
            if !budget.lasts() {
                break;
            }
            standby = synchronous(&primary).await;
        }
        let verdict = site.close().await;
        let note = "class D3; second executions 0";
        verdict.record("synchronous failover, postgres", failovers, note);
    });
}

async fn synchronous(primary: &Server) -> Server {
    let standby = Server::builder().standby_of(primary).sync_standby();
    standby.start().await
}

/// What a standby that nobody waits for did not have is lost with the primary. The class says so
/// beforehand, which strict mode obeys, and whoever reads afterwards sees it.
#[test]
fn an_asynchronous_failover_is_refused_beforehand_and_its_loss_is_seen() {
    run(async {
        let budget = Budget::seconds(10);
        let (mut failovers, mut lost, mut acknowledged) = (0, 0, 0);
        while failovers < 2 || budget.lasts() {
            let mut primary = Server::start().await;
            let link = Proxy::start(primary.addr());
            let standby = Server::builder().standby_of(&primary).follows(link.addr());
            let standby = standby.start().await;
            let url = primary.url();
            let class = store(&url).durability();
            assert_eq!(class, Durability::D0, "strict mode refuses it");
            let proxy = Proxy::start(primary.addr());
            let site = Site::open(&proxy.url(&url), Effect::Opaque).await.busy();
            site.hear(20).await;
            // From here on the standby falls behind, and nobody waits for it.
            link.close();
            site.hear(40).await;
            primary.kill9().await;
            standby.promote().await;
            proxy.retarget(standby.addr());
            proxy.strike(Fault::Reset);
            site.recover().await;
            let verdict = site.close().await;
            assert!(verdict.lost > 0, "the standby was behind: {verdict:?}");
            assert!(verdict.wrong.is_some(), "the judge sees what was lost");
            lost += verdict.lost;
            acknowledged += verdict.acknowledged;
            failovers += 1;
        }
        let note = format!(
            "class D0, which strict refuses; of {acknowledged} acknowledged {lost} were lost, \
             and every run with a loss was seen to be one"
        );
        println!("asynchronous failover, postgres: {failovers} trials; {note}");
        Tally::record("asynchronous failover, postgres", failovers, None, 0, &note);
    });
}

/// A server that does not sync says so.
#[test]
fn the_class_follows_the_settings_of_the_server() {
    run(async {
        let server = Server::start().await;
        assert_eq!(store(&server.url()).durability(), Durability::D2);
        let weak = [
            ("fsync", "off"),
            ("full_page_writes", "off"),
            ("synchronous_commit", "off"),
        ];
        for (name, value) in weak {
            let server = Server::builder().setting(name, value).start().await;
            assert_eq!(store(&server.url()).durability(), Durability::D1, "{name}");
        }
    });
}
