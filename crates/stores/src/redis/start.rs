//! Starting: a store on its servers, and the same looks at them without a store.

use std::sync::Arc;
use std::time::Duration;

use onceward::clock::{Clock as _, SystemClock};

use super::SERVER;
use super::ask::{Answer, Ask, Nature, Target};
use super::clocks::Clocks;
use super::durability;
use super::layout::Layout;
use super::link::{Hub, Link};
use super::state::{Inner, Scripts};
use super::trouble::Trouble;
use super::{Settings, listen, upkeep};
use crate::OpenError;
use crate::reckon::{Reckoning, as_i64, timestamp};
use crate::report::DurabilityReport;

/// What an inspection of the servers found.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// What an acknowledged write survives there, and why.
    pub durability: DurabilityReport,
    /// How many servers hold keys.
    pub servers: usize,
    /// The server's clock less this machine's, in microseconds.
    pub clock_ahead: i64,
    /// How long a round trip took.
    pub round_trip: Duration,
}

/// The highest time on record, and the clock of the server that holds it.
pub(super) struct OnRecord {
    pub(super) highest: i64,
    pub(super) raw: i64,
    pub(super) server: usize,
}

/// Connects, and starts what the store does by itself.
pub(super) fn open(settings: Settings) -> Result<(Link, Arc<Inner>), OpenError> {
    Link::open(settings, "onceward-redis", async |hub: &Arc<Hub>| {
        let inner = prepare(hub).await?;
        hub.spawn(listen::run(Arc::clone(&inner)));
        hub.spawn(upkeep::run(Arc::clone(&inner)));
        Ok(inner)
    })
}

/// Looks at the servers without opening a store on them: what their settings make of a write,
/// and their clock.
///
/// Blocks until it is known.
pub fn inspect(settings: &Settings) -> Result<Inspection, OpenError> {
    let (_link, inspection) = Link::open(
        settings.clone(),
        "onceward-inspect",
        async |hub: &Arc<Hub>| {
            let refused = |trouble: Trouble| refused(hub.settings(), &trouble);
            let found = durability::look(hub).await.map_err(refused)?;
            let layout = Layout::new(hub.settings().prefix());
            let mut question = redis::cmd("TIME");
            let target = Target::Slot(layout.clock_slot());
            let ask = Ask::new(target, question.take(), Nature::Read);
            let (before, wall) = (SystemClock.stopwatch(), SystemClock.wall());
            let answer = hub.run(ask).await.map_err(refused)?;
            let round_trip = SystemClock.stopwatch() - before;
            let time: (i64, i64) = redis::from_redis_value(answer.value).unwrap_or_default();
            let here = wall + round_trip / 2;
            let weakest = durability::weakest(&found);
            let weakest = weakest.ok_or_else(|| refused(Trouble::lost("no server holds keys")))?;
            Ok(Inspection {
                durability: weakest.report(),
                servers: found.len(),
                clock_ahead: time.0 * 1_000_000 + time.1 - as_i64(here),
                round_trip,
            })
        },
    )?;
    Ok(inspection)
}

/// Sees that the servers are such that can be served from, and what time it is.
async fn prepare(hub: &Arc<Hub>) -> Result<Arc<Inner>, OpenError> {
    let settings = hub.settings();
    let refused = |trouble: Trouble| refused(settings, &trouble);
    let found = durability::look(hub).await.map_err(refused)?;
    for server in &found {
        server.check(settings)?;
    }
    let layout = Layout::new(settings.prefix());
    let scripts = Scripts::new(&settings.channel());
    // Scripts that the server does not take are told of now, and not by the first call.
    let on_record = mark(hub, &scripts, &layout, 0).await.map_err(refused)?;
    let highest = timestamp(on_record.highest);
    let reckoning = Reckoning::new(Arc::new(SystemClock), on_record.raw, highest);
    let clocks = Clocks::new(reckoning, on_record.server);
    let inner = Inner::new(Arc::clone(hub), scripts, layout, clocks);
    inner.found(found, true);
    Ok(Arc::new(inner))
}

/// Raises the highest time on record to `now`, if that is higher.
pub(super) async fn mark(
    hub: &Hub,
    scripts: &Scripts,
    layout: &Layout,
    now: i64,
) -> Result<OnRecord, Trouble> {
    let mut command = scripts.clock.call(1, 1, 64);
    command.arg(layout.clock()).arg(now);
    // Raising it twice is raising it once.
    let ask = Ask::new(Target::Slot(layout.clock_slot()), command, Nature::Read);
    let Answer { value, node, .. } = hub.run(ask.of_script(&scripts.clock)).await?;
    let read: Result<(i64, i64), _> = redis::from_redis_value(value);
    let (highest, raw) = read.map_err(|error| Trouble::lost(error.to_string()))?;
    Ok(OnRecord {
        highest,
        raw,
        server: node,
    })
}

fn refused(settings: &Settings, trouble: &Trouble) -> OpenError {
    let (place, why) = (settings.place(), trouble.to_string());
    match why.starts_with("NOPERM") {
        true => OpenError::Commands {
            place,
            user: settings.user().to_owned(),
            why,
        },
        false => OpenError::Server {
            server: SERVER,
            place,
            why,
        },
    }
}
