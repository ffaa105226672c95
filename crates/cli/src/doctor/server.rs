//! What the doctor says about a store on a server, whatever kind of server.

use std::time::Duration;

use onceward::Timestamp;
use onceward::clock::{Clock as _, SystemClock};
use onceward_gateway::config::Config;
use onceward_stores::{DurabilityReport, OpenError, StoreUrl};

use super::checks::compared;
use super::{Finding, place};
use crate::{store, trouble};

/// A round trip that takes longer than this is worth a look: an execution takes two.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(20);

/// The store itself, and whether the secret fits.
pub(super) async fn opened(config: &Config, url: &StoreUrl) -> Vec<Finding> {
    match store::open_as_it_is(url, None).await {
        Ok(opened) => place::look(config, opened).await,
        Err(error) => vec![unusable(&error)],
    }
}

pub(super) fn unusable(error: &OpenError) -> Finding {
    Finding::bad("store", trouble::in_one_line(error), error.hint())
}

/// The server's clock, so many microseconds ahead of this machine's.
#[cfg_attr(not(feature = "postgres"), allow(dead_code))]
pub(super) fn clock(ahead: i64) -> Finding {
    let here = SystemClock.wall();
    let there = here.as_micros().saturating_add_signed(ahead);
    let there = Timestamp::from_micros(there);
    compared("store clock", "the server's", there, here)
}

pub(super) fn reached(took: Duration) -> Finding {
    let said = format!("answers within {:.1} ms", took.as_secs_f64() * 1e3);
    match took > ROUND_TRIP_MAX {
        true => Finding::note(
            "server",
            said,
            "an execution takes two round trips: put the gateway nearer to the server",
        ),
        false => Finding::good("server", said),
    }
}

/// The settings of the server, and what they mean; `page` says more.
pub(super) fn facts(report: &DurabilityReport, page: &str) -> Vec<Finding> {
    let facts = report.facts.iter().map(|fact| {
        let value = match fact.value.as_str() {
            "" => "none",
            value => value,
        };
        let said = format!("{value}: {}", fact.verdict);
        match fact.is_good {
            true => Finding::good(fact.name, said),
            false => Finding::note(fact.name, said, page),
        }
    });
    facts.collect()
}
