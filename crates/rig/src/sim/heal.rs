//! After the trouble: every key has to come to rest, and to give one answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use onceward::{SlotId, State};

use super::caller::{Call, Told};
use super::nemesis;
use super::plan::{Job, Route};
use super::world::World;

/// How long after the end of all trouble, and of the last lease, nothing may be held any more.
const REST: Duration = Duration::from_secs(2);

/// Ends all trouble, and holds the world to what then has to be true.
pub(super) async fn heal(world: &Arc<World>) {
    nemesis::heal(world);
    tokio::time::sleep(world.plan.lease + REST).await;
    for job in touched(world) {
        let found = world.store.get(job.id).await;
        let reply = found.expect("the memory store answers");
        if let Some(record) = reply.value
            && matches!(record.state, State::Claimed(_))
            && !record.has_lapsed(reply.now)
        {
            let slot = job.id;
            world.blame(format!("slot {slot:?} is held though trouble is over"));
        }
    }
    for (at, job) in touched(world).into_iter().enumerate() {
        retry(world, &job, at % world.plan.nodes).await;
    }
    // Whoever makes up a new key now is answered as well, or told what it waits for.
    let is_touched = |job: &Arc<Job>| world.recorder.slots().binary_search(&job.id).is_ok();
    for (at, order) in world.plan.orders.iter().enumerate() {
        if order.jobs.iter().any(is_touched) {
            retry(world, &order.spare, at % world.plan.nodes).await;
        }
    }
}

/// The jobs that anybody asked for.
fn touched(world: &World) -> Vec<Arc<Job>> {
    let slots = world.recorder.slots();
    let jobs = world.plan.jobs.iter();
    jobs.filter(|job| slots.binary_search(&job.id).is_ok())
        .cloned()
        .collect()
}

/// Asks twice: what the first is told, the second is told again.
async fn retry(world: &Arc<World>, job: &Arc<Job>, node: usize) {
    let mut call = Call {
        world: world.clone(),
        job: job.clone(),
        payload: 0,
    };
    let mut first = ask(&call, node).await;
    if first == Some(Told::Mismatch) {
        // Somebody cheated and was the first to ask, so this is the payload that counts.
        call.payload = 1;
        first = ask(&call, node).await;
    }
    let second = ask(&call, node).await;
    let settled = match &first {
        Some(Told::Answer(_) | Told::Elsewhere) => true,
        Some(Told::Unknown(slot)) => {
            let stays = matches!(job.route, Route::Opaque | Route::Staged);
            (stays || *slot != job.id) && is_unknown(world, *slot).await
        }
        _ => false,
    };
    if !settled || first != second {
        let slot = job.id;
        let route = job.route;
        world.blame(format!(
            "retries of {slot:?} ({route:?}) after the trouble end as {first:?} and {second:?}"
        ));
    }
}

/// Whether nobody knows indeed.
async fn is_unknown(world: &World, slot: SlotId) -> bool {
    let found = world.store.get(slot).await;
    let found = found.expect("the memory store answers").value;
    found.is_some_and(|record| matches!(record.state, State::Unknown(_)))
}

async fn ask(call: &Call, node: usize) -> Option<Told> {
    let process = call.world.process(node)?;
    let engine = process.engine(call.job.route).clone();
    let call = call.clone();
    call.world.operations.fetch_add(1, Ordering::Relaxed);
    let task = process.spawn(async move { call.run(&engine).await });
    let limit = Duration::from_secs(10);
    tokio::time::timeout(limit, task).await.ok()?.ok()
}
