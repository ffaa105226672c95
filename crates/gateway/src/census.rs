//! The census: what is in the store, counted page by page.
//!
//! A count reads every record, with its answer, so it is taken only where something needs it, and
//! slowly: of all time it takes no more than its share. Its numbers are as old as the time that a
//! count takes and the pause after it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use metrics::gauge;
use onceward::clock::Clock;
use onceward::record::StateName;
use onceward::store::{self, Filter, Reply};
use onceward::{Engine, Error, Found, Outcome, Record};
use onceward_http::quota::{Holdings, Quotas, weight};

use crate::units::Percent;

/// Counts what is in the store, again and again.
#[derive(Debug)]
pub(crate) struct Census {
    pub(crate) engine: Engine,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) clock: Arc<dyn Clock>,
    /// How long after a count the next one begins.
    pub(crate) every: Duration,
    pub(crate) share: Percent,
}

/// What one count found.
#[derive(Debug, Default)]
struct Count {
    /// Records and bytes, by state.
    states: [(u64, u64); STATES.len()],
    tenants: HashMap<Arc<str>, Holdings>,
    /// Whether there were more callers than are counted apart.
    crowded: bool,
}

/// Every state, with what it is called in metrics.
const STATES: [(StateName, &str); 5] = [
    (StateName::Claimed, "claimed"),
    (StateName::Completed, "completed"),
    (StateName::Unknown, "unknown"),
    (StateName::Open, "open"),
    (StateName::Reserved, "reserved"),
];

/// How many records are read at a time: a page of the largest answers is 64 MiB.
const PAGE: usize = 64;

/// How many callers are counted apart: about 100 MB of names and numbers.
const TENANTS_MAX: usize = 500_000;

// === impl Census ===

impl Census {
    /// Counts until nobody waits for it any more.
    pub(crate) async fn run(&self) -> Infallible {
        loop {
            match self.count().await {
                Ok(count) => self.publish(count),
                Err(error) => tracing::warn!(%error, "the records could not be counted"),
            }
            tokio::time::sleep(self.every).await;
        }
    }

    async fn count(&self) -> Result<Count, Error> {
        self.quotas.begin_count();
        let (mut count, mut after) = (Count::default(), None);
        loop {
            let began = self.clock.stopwatch();
            let page = self.engine.list(&Filter::default(), after, PAGE).await;
            let Reply { value: page, now } = match page {
                // One that cannot be read is nobody's, and no reason not to count the others.
                Err(Error::Store(store::Error::Unreadable { slot, .. })) => {
                    after = Some(slot);
                    continue;
                }
                page => page?,
            };
            for (slot, record) in page.records {
                count.add(&Found { slot, record, now });
            }
            after = page.next;
            if after.is_none() {
                return Ok(count);
            }
            let took = self.clock.stopwatch().saturating_sub(began);
            tokio::time::sleep(pause_after(took, self.share)).await;
        }
    }

    fn publish(&self, count: Count) {
        for ((_, state), (records, bytes)) in STATES.iter().zip(count.states) {
            gauge!("onceward_records", "state" => *state).set(records as f64);
            gauge!("onceward_record_bytes", "state" => *state).set(bytes as f64);
        }
        let seconds = self.clock.wall().as_micros() as f64 / 1e6;
        gauge!("onceward_census_timestamp_seconds").set(seconds);
        if count.crowded {
            tracing::warn!(
                "more than {TENANTS_MAX} callers have records: the quotas unknown and stored do \
                 not hold for the others"
            );
        }
        self.quotas.end_count(count.tenants);
    }
}

/// How long to pause after work that `took` so long, for it to take its share of the time.
fn pause_after(took: Duration, share: Percent) -> Duration {
    let whole = Percent::WHOLE.millionths() as f64 / share.millionths().max(1) as f64;
    took.mul_f64((whole - 1.0).max(0.0))
}

// === impl Count ===

impl Count {
    fn add(&mut self, found: &Found) {
        let record: &Record = &found.record;
        if record.has_expired(found.now) {
            return; // callers do not have it any more, and the sweeper takes it away
        }
        let outcome = record.outcome().map_or(0, Outcome::kept_len);
        let bytes = weight(&record.scope, outcome);
        let name = record.state.name();
        if let Some(at) = STATES.iter().position(|(state, _)| state.covers(name)) {
            let (records, all) = &mut self.states[at];
            *records += 1;
            *all += bytes;
        }
        let held = Holdings {
            unknown: i64::from(found.is_unsettled()),
            stored: i64::try_from(bytes).unwrap_or(i64::MAX),
        };
        let tenant = record.scope.tenant();
        let room = self.tenants.len() < TENANTS_MAX;
        match self.tenants.get_mut(tenant) {
            Some(known) => known.add(held),
            None if room => drop(self.tenants.insert(tenant.into(), held)),
            None => self.crowded = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use onceward::Reason;
    use onceward::testing::{ExpectVerdict as _, World};
    use onceward_http::quota::Limits;

    use super::*;

    fn census(world: &World) -> Census {
        Census {
            engine: world.engine.clone(),
            quotas: Arc::new(Quotas::new(Limits::default())),
            clock: world.clock.clone(),
            every: Duration::from_secs(1),
            share: Percent::of(5),
        }
    }

    #[test]
    fn counting_takes_no_more_than_its_share() {
        let took = Duration::from_millis(10);
        assert_eq!(pause_after(took, Percent::of(5)), took * 19);
        assert_eq!(pause_after(took, Percent::of(50)), took);
    }

    #[tokio::test(start_paused = true)]
    async fn records_are_counted_by_state_and_caller_over_many_pages() {
        let world = World::new();
        for key in 0..3 * PAGE {
            world.complete(&format!("k{key}"), "paid").await;
        }
        let bob = world.tenant("bob");
        let lost = bob.begin("lost").await.expect_claim();
        lost.abandon(Reason::new("cut off")).await.unwrap();
        let _running = bob.begin("running").await.expect_claim();
        let count = census(&world).count().await.unwrap();
        let records: Vec<_> = count.states.iter().map(|(records, _)| *records).collect();
        assert_eq!(records, [1, 3 * PAGE as u64, 1, 0, 0]);
        assert_eq!(count.tenants["bob"].unknown, 1);
        assert_eq!(count.tenants["alice"].unknown, 0);
        assert_eq!(count.tenants["alice"].stored, count.states[1].1 as i64);
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_expired_does_not_count_and_what_lapsed_is_unknown() {
        let world = World::new();
        world.complete("old", "paid").await;
        world.clock.advance(world.policy.retention);
        drop(world.node().begin("silent").await.expect_claim());
        world.pass(world.policy.lease * 2).await;
        let count = census(&world).count().await.unwrap();
        assert_eq!(count.states[1].0, 0);
        assert_eq!(count.tenants["alice"].unknown, 1);
    }
}
