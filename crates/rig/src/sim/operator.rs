//! Operators: they look into the service's books, and settle what nobody knows.

use std::sync::Arc;

use onceward::record::StateName;
use onceward::store::Filter;
use onceward::{By, Engine, Resolution, State};

use super::coverage::Mark;
use super::plan::Route;
use super::process::Process;
use super::service::SETTLED_AFTER;
use super::world::World;

/// Looks at a slot now and then, and does what there is to do.
pub(super) async fn rounds(world: Arc<World>) {
    let desk = Process::start(&world, world.plan.nodes);
    while !world.is_calm() {
        world.rest(world.span(2_000, 40_000)).await;
        let engine = desk.engine(Route::Opaque);
        match world.pick(10) {
            0 => extend(&world, engine).await,
            1 => {
                // A sweep by hand; one that fails is repeated some other time.
                let _ = engine.sweep(50).await;
            }
            _ => settle(&world, engine).await,
        }
    }
}

/// Settles an unknown record as the service's books have it.
async fn settle(world: &World, engine: &Engine) {
    let unknown = Filter {
        state: Some(StateName::Unknown),
        ..Filter::default()
    };
    // One that a list shows, or any slot, for a claim may have lapsed.
    let listed = match engine
        .list(&unknown, None, 1 + world.pick(5) as usize)
        .await
    {
        Ok(reply) if world.chance(0.7) => reply.value.records,
        _ => Vec::new(),
    };
    let id = listed
        .last()
        .map_or_else(|| world.one_of(&world.plan.jobs).id, |(slot, _)| *slot);
    let Ok(Some(found)) = engine.inspect(id).await else {
        return;
    };
    let record = &found.record;
    if !found.is_unsettled() || found.now.since(record.written) < SETTLED_AFTER {
        return;
    }
    let Some(truth) = world.services.truth(id, record.generation) else {
        return;
    };
    let (mark, resolution) = match truth {
        Some(outcome) => (Mark::ResolvedDone, Resolution::Completed(outcome)),
        None => (Mark::ResolvedNotDone, Resolution::NotExecuted),
    };
    if engine.resolve(id, resolution, &by()).await.is_ok() {
        world.hit(mark);
    }
}

/// Keeps a record longer.
async fn extend(world: &World, engine: &Engine) {
    let job = world.one_of(&world.plan.jobs);
    let Ok(Some(found)) = engine.inspect(job.id).await else {
        return;
    };
    let keep = 2 * world.plan.retention;
    if matches!(found.record.state, State::Completed(_))
        && engine.extend(job.id, keep, &by()).await.is_ok()
    {
        world.hit(Mark::Extended);
    }
}

fn by() -> By {
    By {
        who: "ann".to_owned(),
        why: "it is in the books".to_owned(),
    }
}
