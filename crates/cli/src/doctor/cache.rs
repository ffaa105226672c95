//! What the doctor looks at in a cache: nothing is made or changed there.

use onceward_gateway::config::Config;

use super::Finding;

/// What is found about the cache, if there is one.
#[cfg(feature = "redis")]
pub(super) async fn examine(config: &Config) -> Vec<Finding> {
    use std::time::Duration;

    use onceward_stores::redis;
    use tokio::task::spawn_blocking;

    use crate::trouble;

    /// A look that takes longer than this is hardly worth it.
    const ROUND_TRIP_MAX: Duration = Duration::from_millis(5);

    let Some(cache) = &config.cache else {
        return Vec::new();
    };
    let settings = cache.settings().clone();
    let looked = spawn_blocking(move || redis::inspect(&settings)).await;
    let found = match looked.expect("looking at a server does not panic") {
        Ok(found) => found,
        Err(error) => {
            let why = format!(
                "{}: the database answers instead",
                trouble::in_one_line(&error)
            );
            let hint = format!(
                "{}; until then operators' commands that settle something are refused",
                error.hint()
            );
            return vec![Finding::note("cache", why, hint)];
        }
    };
    let millis = found.round_trip.as_secs_f64() * 1000.0;
    let answers = format!("{cache} answers in {millis:.1} ms");
    let mut findings = vec![match found.round_trip > ROUND_TRIP_MAX {
        false => Finding::good("cache", answers),
        true => Finding::note("cache", answers, "put it nearer: a retry waits for it"),
    }];
    let evicts = |fact: &&redis::Fact| fact.name == "maxmemory-policy" && !fact.is_good;
    if let Some(policy) = found.durability.facts.iter().find(evicts) {
        findings.push(Finding::note(
            "cache",
            format!("maxmemory-policy is {}: it may evict", policy.value),
            "that is safe, and loses what could prove that the database forgot something",
        ));
    }
    findings
}

/// There are no caches for this program.
#[cfg(not(feature = "redis"))]
pub(super) async fn examine(_: &Config) -> Vec<Finding> {
    Vec::new()
}
