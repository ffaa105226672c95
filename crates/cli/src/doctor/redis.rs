//! What the doctor looks at in Redis: nothing is changed there.

use onceward_gateway::config::Config;
use onceward_stores::StoreUrl;
use onceward_stores::redis::{self, Settings};
use tokio::task::spawn_blocking;

use super::{Finding, place, server};

/// Where it is told what the settings of a server mean.
const PAGE: &str = "see docs/redis.md, Durability";

/// What is found on the servers.
pub(super) async fn examine(config: &Config, url: &StoreUrl, settings: &Settings) -> Vec<Finding> {
    let settings = settings.clone();
    let looked = spawn_blocking(move || redis::inspect(&settings)).await;
    let found = match looked.expect("looking at a server does not panic") {
        Ok(found) => found,
        Err(error) => return vec![server::unusable(&error)],
    };
    let mut findings = server::opened(config, url).await;
    findings.push(server::reached(found.round_trip));
    if found.servers > 1 {
        let said = format!("{} servers hold keys", found.servers);
        findings.push(Finding::good("cluster", said));
    }
    findings.push(place::survives(config, found.durability.class));
    findings.extend(server::facts(&found.durability, PAGE));
    findings
}
