//! What the doctor looks at in a database: nothing is made or changed there.

#[cfg(not(feature = "postgres"))]
pub(super) use none::examine;
#[cfg(feature = "postgres")]
pub(super) use server::examine;

#[cfg(not(feature = "postgres"))]
mod none {
    use onceward_gateway::config::Config;
    use onceward_stores::StoreUrl;

    use crate::doctor::Finding;

    /// There are no databases for this program.
    pub(in crate::doctor) async fn examine(_: &Config, _: &StoreUrl) -> Option<Vec<Finding>> {
        None
    }
}

#[cfg(feature = "postgres")]
mod server {
    use std::time::Duration;

    use onceward::Timestamp;
    use onceward::clock::{Clock as _, SystemClock};
    use onceward_gateway::config::Config;
    use onceward_stores::postgres::{self, Fact, Inspection};
    use onceward_stores::{OpenError, StoreUrl};
    use tokio::task::spawn_blocking;

    use crate::doctor::checks::compared;
    use crate::doctor::{Finding, place};
    use crate::{store, trouble};

    /// A round trip that takes longer than this is worth a look: an execution takes two.
    const ROUND_TRIP_MAX: Duration = Duration::from_millis(20);

    /// What is found in the database that `url` names, if it names one.
    pub(in crate::doctor) async fn examine(
        config: &Config,
        url: &StoreUrl,
    ) -> Option<Vec<Finding>> {
        let StoreUrl::Postgres(settings) = url else {
            return None;
        };
        let settings = settings.clone();
        let looked = spawn_blocking(move || postgres::inspect(&settings)).await;
        Some(match looked.expect("looking at a server does not panic") {
            Ok(found) => told(config, url, &found).await,
            Err(error) => vec![unusable(&error)],
        })
    }

    async fn told(config: &Config, url: &StoreUrl, found: &Inspection) -> Vec<Finding> {
        let mut findings = match found.schema == found.known {
            true => opened(config, url).await,
            false => vec![tables(url, found), clock(found)],
        };
        findings.push(reached(found));
        findings.push(place::survives(config, found.durability.class));
        findings.extend(found.durability.facts.iter().map(fact));
        findings
    }

    /// The store itself, and whether the secret fits.
    async fn opened(config: &Config, url: &StoreUrl) -> Vec<Finding> {
        match store::open_as_it_is(url).await {
            Ok(opened) => place::look(config, opened).await,
            Err(error) => vec![unusable(&error)],
        }
    }

    fn unusable(error: &OpenError) -> Finding {
        Finding::bad("store", trouble::in_one_line(error), error.hint())
    }

    /// Tables that are not what this program works with.
    fn tables(url: &StoreUrl, found: &Inspection) -> Finding {
        let Inspection { schema, known, .. } = found;
        match schema {
            0 => Finding::note(
                "store",
                format!("{url} has no tables yet"),
                "serve makes them, or onceward migrate",
            ),
            _ if schema < known => Finding::note(
                "store",
                format!("{url} has tables of version {schema}, and {known} is wanted"),
                "serve brings them up to date, or onceward migrate",
            ),
            _ => Finding::bad(
                "store",
                format!("{url} has tables of version {schema}, and {known} is the newest known"),
                "use the version that made them, or a newer one",
            ),
        }
    }

    fn clock(found: &Inspection) -> Finding {
        let here = SystemClock.wall();
        let there = here.as_micros().saturating_add_signed(found.clock_ahead);
        let there = Timestamp::from_micros(there);
        compared("store clock", "the server's", there, here)
    }

    fn reached(found: &Inspection) -> Finding {
        let took = found.round_trip;
        let said = format!("answers within {:.1} ms", took.as_secs_f64() * 1e3);
        match took > ROUND_TRIP_MAX {
            true => Finding::note(
                "server",
                said,
                "an execution takes two round trips: put the gateway nearer to the database",
            ),
            false => Finding::good("server", said),
        }
    }

    /// A setting of the server, and what it means.
    fn fact(fact: &Fact) -> Finding {
        let value = match fact.value.as_str() {
            "" => "none",
            value => value,
        };
        let said = format!("{value}: {}", fact.verdict);
        match fact.is_good {
            true => Finding::good(fact.name, said),
            false => Finding::note(fact.name, said, "see docs/postgres.md, Durability"),
        }
    }
}
