//! What the doctor looks at in a PostgreSQL database: nothing is made or changed there.

use onceward_gateway::config::Config;
use onceward_stores::StoreUrl;
use onceward_stores::postgres::{self, Inspection, Settings};
use tokio::task::spawn_blocking;

use super::{Finding, place, server};

/// Where it is told what the settings of a server mean.
const PAGE: &str = "see docs/postgres.md, Durability";

/// What is found in a database.
pub(super) async fn examine(config: &Config, url: &StoreUrl, settings: &Settings) -> Vec<Finding> {
    let settings = settings.clone();
    let looked = spawn_blocking(move || postgres::inspect(&settings)).await;
    match looked.expect("looking at a server does not panic") {
        Ok(found) => told(config, url, &found).await,
        Err(error) => vec![server::unusable(&error)],
    }
}

async fn told(config: &Config, url: &StoreUrl, found: &Inspection) -> Vec<Finding> {
    let mut findings = match found.schema == found.known {
        true => server::opened(config, url).await,
        false => vec![tables(url, found), server::clock(found.clock_ahead)],
    };
    findings.push(server::reached(found.round_trip));
    findings.push(place::survives(config, found.durability.class));
    findings.extend(server::facts(&found.durability, PAGE));
    findings
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
